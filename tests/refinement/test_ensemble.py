import json

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import linear_gaussian
from tfp_refine.functional import array_file


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(scope="module")
def model(problem):
    inputs = keras.Input((2,))
    outputs = tfr.layers.DenseReparameterization(
        1, num_train_examples=20, kernel_regularizer="empirical_bayes_kl"
    )(inputs)
    model = keras.Model(inputs, tfr.layers.HomoscedasticNoise()(outputs))
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=tfr.losses.HeteroscedasticGaussianNLL(),
    )
    model.fit(problem.x, problem.y, epochs=2, verbose=0)
    return model


@pytest.fixture(scope="module")
def ensemble(problem, model):
    return tfr.refine(
        model, problem.x, problem.y, num_members=3, steps=5,
        variance_ratios=(0.7, 0.5), seed=1, verbose=0,
    )  # fmt: skip


def test_predict_draws_each_member_as_often(problem, ensemble):
    draws = ensemble.predict(problem.x, num_samples=4, seed=2)
    assert draws.shape == (12, 20, 2)
    # With one draw of the weights for all 20 examples, outputs lie on a plane;
    # draws of one member have its mean.
    many = ensemble.predict(problem.x, num_samples=3000, seed=2)
    by_member = many[..., 0].reshape(3000, 3, 20).mean(axis=0)
    for index in range(3):
        with tfr.layers.mean_weights():
            expected = ensemble.member(index)(problem.x)[:, 0]
        np.testing.assert_allclose(by_member[index], expected, atol=0.02)


def test_predict_of_the_root_counts_draws_of_all_members(problem, ensemble):
    draws = tfr.predict(ensemble, problem.x, num_samples=6, seed=2)
    np.testing.assert_array_equal(
        draws, ensemble.predict(problem.x, num_samples=2, seed=2)
    )
    assert tfr.predict(ensemble, problem.x, num_samples=7).shape[0] == 7


def test_predict_repeats_with_its_seed_only(problem, ensemble):
    first, same, other, fresh = (
        ensemble.predict(problem.x, seed=seed) for seed in (1, 1, 2, None)
    )
    np.testing.assert_array_equal(first, same)
    assert not np.any(first[..., 0] == other[..., 0])
    assert not np.any(first[..., 0] == fresh[..., 0])


def test_later_training_of_the_model_does_not_touch_the_ensemble(problem):
    model = problem.model()
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=2, seed=1, verbose=0
    )
    before = ensemble.predict(problem.x, seed=1)
    model.fit(problem.x, problem.y, epochs=3, verbose=0)
    np.testing.assert_array_equal(ensemble.predict(problem.x, seed=1), before)


def test_deterministic_weights_are_the_ensembles_own(problem, model):
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=1, seed=1, verbose=0
    )
    noise = model.layers[-1].untransformed_scale
    before = np.array(noise)
    noise.assign(before + 1.0)
    draws = ensemble.predict(problem.x, seed=1)
    noise.assign(before)
    np.testing.assert_allclose(draws[..., 1], before.item(), rtol=1e-6)


def test_member_is_an_ordinary_model_with_the_members_posterior(
    problem, model, ensemble
):
    member = ensemble.member(1)
    layer = member.layers[1]
    # Kernel, then bias, flattened.
    for index, weight in enumerate(layer.variational_weights):
        part = slice(2 * index, 2 * index + int(np.prod(weight.loc.shape)))
        np.testing.assert_allclose(
            np.ravel(weight.loc), ensemble.posterior.loc[1, part]
        )
        np.testing.assert_allclose(
            np.ravel(weight.scale), ensemble.posterior.scale[1, part], rtol=1e-6
        )
    assert member.layers[-1].get_weights() == model.layers[-1].get_weights()
    assert np.isfinite(member.evaluate(problem.x, problem.y, verbose=0))
    member.fit(problem.x, problem.y, verbose=0)
    assert not np.array_equal(
        np.ravel(layer.kernel), ensemble.posterior.loc[1, :2]
    )


@pytest.mark.parametrize("index", [-1, 3])
def test_member_that_does_not_exist(ensemble, index):
    with pytest.raises(IndexError, match=rf"\[0, 3\).*index={index}"):
        ensemble.member(index)


def test_saved_ensemble_is_the_same_in_every_way(problem, ensemble, tmp_path):
    ensemble.save(tmp_path / "a" / "b")
    loaded = tfr.RefinedEnsemble.load(tmp_path / "a" / "b")
    np.testing.assert_array_equal(
        loaded.predict(problem.x, num_samples=2, seed=3),
        ensemble.predict(problem.x, num_samples=2, seed=3),
    )
    assert loaded.history.keys() == ensemble.history.keys()
    for name, value in ensemble.history.items():
        np.testing.assert_array_equal(loaded.history[name], value)
    for part in ("posterior", "prior"):
        np.testing.assert_array_equal(
            getattr(loaded, part), getattr(ensemble, part)
        )
    for old, new in zip(
        ensemble.member(2).get_weights(),
        loaded.member(2).get_weights(),
        strict=True,
    ):
        np.testing.assert_array_equal(new, old)
    assert np.isfinite(
        loaded.member(0).evaluate(problem.x, problem.y, verbose=0)
    )
    loaded.save(tmp_path / "again")
    tfr.RefinedEnsemble.load(tmp_path / "again")


def test_conditional_prior_has_the_remaining_variance(model, ensemble):
    rest = np.sqrt((1 - 0.7) * (1 - 0.5))
    scales = [
        np.broadcast_to(weight.prior.scale, weight.loc.shape).ravel()
        for weight in model.layers[1].variational_weights
    ]
    np.testing.assert_allclose(
        ensemble.prior.scale,
        np.tile(np.concatenate(scales) * rest, (3, 1)),
        rtol=1e-6,
    )


def test_history_has_a_row_for_each_member(ensemble):
    history = ensemble.history
    assert ensemble.elbo_aux.shape == ensemble.elbo_init.shape == (3,)
    for name in ("elbo_conditioned", "elbo_aux", "cost", "kept"):
        assert history[name].shape == (3, 2)
    assert history["trace_step"].tolist() == list(range(1, 11))
    assert history["trace_elbo"].shape == (3, 10)


@pytest.mark.parametrize("broken", ["missing", "truncated", "garbage"])
def test_folder_that_is_no_ensemble_is_refused(ensemble, tmp_path, broken):
    ensemble.save(tmp_path)
    file = tmp_path / "members.npz"
    if broken == "missing":
        file.unlink()
    elif broken == "truncated":
        file.write_bytes(file.read_bytes()[:200])
    else:
        file.write_text("garbage")
    with pytest.raises(ValueError, match=str(tmp_path)):
        tfr.RefinedEnsemble.load(tmp_path)


def _without(name):
    def change(description, arrays):
        (description if name in description else arrays).pop(name)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_without("params"), "does not hold members"),
        (_without("prior_scale"), "does not hold members"),
        (_without("input_specs"), "does not describe an ensemble"),
        (_without("format"), "its format is None"),
        (lambda d, a: d.update(format=99), "its format is 99"),
        (
            lambda d, a: a.update(prior_loc=a["prior_loc"][:2]),
            "does not hold members",
        ),
        (
            lambda d, a: a.update(
                prior_loc=a["prior_loc"][:, :1],
                prior_scale=a["prior_scale"][:, :1],
            ),
            "members.npz is not the file that was saved",
        ),
    ],
)
def test_contents_that_are_no_ensemble_are_refused(
    ensemble, tmp_path, change, message
):
    ensemble.save(tmp_path)
    file = tmp_path / "ensemble.json"
    description = json.loads(file.read_text())
    arrays = array_file.read(tmp_path / "members.npz")
    change(description, arrays)
    file.write_text(json.dumps(description))
    array_file.write(tmp_path / "members.npz", arrays)
    with pytest.raises(ValueError, match=message):
        tfr.RefinedEnsemble.load(tmp_path)


def test_members_of_another_model_are_refused(ensemble, problem, tmp_path):
    ensemble.save(tmp_path)
    same_shapes = problem.model()
    same_shapes.layers[1].activation = keras.activations.tanh
    same_shapes.save(tmp_path / "model.keras")
    with pytest.raises(ValueError, match=r"model\.keras is not the file"):
        tfr.RefinedEnsemble.load(tmp_path)


def test_folder_that_cannot_be_written(ensemble, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="`path` must be a folder"):
        ensemble.save(tmp_path / "file")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_samples": 0}, "`num_samples`"),
        ({"num_samples": 1.5}, "`num_samples`"),
        ({"batch_size": 0}, "`batch_size`"),
        ({"seed": "a"}, "`seed`"),
    ],
)
def test_bad_arguments_of_predict(problem, ensemble, options, message):
    with pytest.raises(ValueError, match=message):
        ensemble.predict(problem.x, **options)


def test_inputs_that_do_not_fit(ensemble):
    with pytest.raises(ValueError, match=r"\(None, 2\).*\(4, 3\)"):
        ensemble.predict(np.zeros((4, 3)))


class _NoConfig(keras.Model):
    def __init__(self, units):
        super().__init__()
        self.dense = tfr.layers.DenseFlipout(units)

    def call(self, inputs):
        return self.dense(inputs)


def test_model_that_cannot_be_copied_still_predicts(problem, tmp_path):
    model = _NoConfig(1)
    model(problem.x)
    model.compile(loss="mse")
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=1, seed=1, verbose=0
    )
    assert ensemble.predict(problem.x).shape == (2, 20, 1)
    with pytest.raises(ValueError, match="`get_config`"):
        ensemble.save(tmp_path)


def test_loss_that_is_not_registered_does_not_stop_loading(problem, tmp_path):
    def mine(y_true, y_pred):
        return keras.ops.square(y_true - y_pred)[:, 0]

    model = problem.model()
    model.compile(loss=mine)
    ensemble = tfr.refine(
        model, problem.x, problem.y, num_members=2, steps=1, seed=1, verbose=0
    )
    ensemble.save(tmp_path)
    loaded = tfr.RefinedEnsemble.load(tmp_path)
    np.testing.assert_array_equal(
        loaded.predict(problem.x, seed=1), ensemble.predict(problem.x, seed=1)
    )
