import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import posteriors


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(scope="module")
def ensemble(problem):
    return linear_gaussian.refine(problem.model(), problem.x, problem.y)


# The purpose of refinement.


@pytest.fixture(scope="module")
def refined(problem):
    """A refinement of enough members for their averages to mean something."""
    return linear_gaussian.refine(
        problem.model(),
        problem.x,
        problem.y,
        num_members=100,
        variance_ratios=(0.7,) * 3,
        steps=60,
        learning_rate=0.03,
        learning_rate_decay="linear",
        num_eval_samples=40,
        mapping="vmap",  # of so many members of so small a model, the fastest
    )


def _mean_and_error(values):
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(
        len(values)
    )


def test_bound_rises_towards_the_evidence_and_not_above(problem, refined):
    # The posterior is correlated, so the mean-field bound is not tight.
    elbo_init = problem.elbo(*problem.mean_field())
    mean, error = _mean_and_error(refined.elbo_init)
    assert abs(mean - elbo_init) < 6 * error
    mean, error = _mean_and_error(refined.elbo_final)
    assert mean > elbo_init + 5 * error
    assert mean < problem.log_evidence() + 5 * error


def test_every_auxiliary_variable_raises_the_bound(refined):
    history = refined.history
    mean, error = _mean_and_error(
        history["elbo_aux"] - history["elbo_conditioned"]
    )
    assert np.all(mean > 3 * error)


def test_conditioning_alone_keeps_the_bound(refined):
    # In expectation: METHODS 2.2 f, through the compiled programs.
    history = refined.history
    before = np.column_stack([refined.elbo_init, history["elbo_aux"][:, :-1]])
    mean, error = _mean_and_error(history["elbo_conditioned"] - before)
    assert np.all(np.abs(mean) < 6 * error)


def test_mixture_moves_towards_the_correlated_posterior(problem, refined):
    covariance = np.cov(refined.loc.T)
    covariance += np.diag(np.mean(refined.scale**2, axis=0))
    correlation = covariance[0, 1] / np.sqrt(np.prod(np.diag(covariance)))
    exact = np.linalg.inv(problem.precision)
    expected = exact[0, 1] / np.sqrt(np.prod(np.diag(exact)))
    assert expected < -0.8
    # Mean field has none, and underestimates the variances threefold.
    assert expected < correlation < 0.3 * expected
    assert np.all(np.diag(covariance) > 1.2 / np.diag(problem.precision))


# Values that it leaves alone.


@pytest.mark.slow
def test_model_is_not_changed(problem):
    model = problem.model()
    model.fit(problem.x, problem.y, verbose=0)
    before = [np.array(v) for v in model.variables]
    linear_gaussian.refine(model, problem.x, problem.y)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.slow
def test_deterministic_weights_and_batch_statistics_are_frozen(problem):
    inputs = keras.Input((2,))
    hidden = keras.layers.Dense(4, activation="relu")(inputs)
    hidden = keras.layers.BatchNormalization()(hidden)
    hidden = layers.DenseFlipout(1, num_train_examples=20)(hidden)
    model = keras.Model(inputs, keras.layers.Dropout(0.5)(hidden))
    model.compile(loss="mse", run_eagerly=True)
    model.fit(problem.x, problem.y, epochs=2, verbose=0)
    member = linear_gaussian.refine(model, problem.x, problem.y).member(1)
    variational = model.layers[3].weights
    for old, new in zip(model.weights, member.weights, strict=True):
        is_variational = any(old is weight for weight in variational)
        assert is_variational != np.array_equal(old, new)


# Randomness.


@pytest.mark.slow
def test_seed_fixes_everything(problem, ensemble, capsys):
    again = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, verbose=1
    )
    np.testing.assert_array_equal(again.params, ensemble.params)
    np.testing.assert_array_equal(again.elbo_final, ensemble.elbo_final)
    other = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, seed=6
    )
    assert not np.any(other.params == ensemble.params)
    # Not even a progress bar changes it, which shows the bound.
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("refinement: 24 steps in ")
    assert ", elbo -" in line


@pytest.mark.slow
def test_member_computed_alone_is_the_same_bit_for_bit(problem, ensemble):
    alone = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, members=(2,)
    )
    np.testing.assert_array_equal(alone.params[0], ensemble.params[2])
    np.testing.assert_array_equal(alone.elbo_final[0], ensemble.elbo_final[2])
    assert alone.history["members"].tolist() == [2]


def test_members_differ(ensemble):
    params = ensemble.params
    assert len(np.unique(params[:, 0, 0])) == 3
    assert len(np.unique(ensemble.history["cost"][:, 0])) == 3


# Ways to give model and data.


@pytest.mark.parametrize(
    "policy",
    [
        "float64",
        "mixed_float16",
        pytest.param("mixed_bfloat16", marks=pytest.mark.slow),
    ],
)
def test_every_precision_is_refined(problem, policy):
    floatx = keras.config.floatx()
    if policy == "float64":
        keras.config.set_floatx("float64")
    try:
        inputs = keras.Input((2,))
        layer = layers.DenseFlipout(1, num_train_examples=20, dtype=policy)
        model = keras.Model(inputs, layer(inputs))
        model.compile(loss=losses.GaussianNLL(0.05), jit_compile=False)
        ensemble = linear_gaussian.refine(
            model, problem.x, problem.y, learning_rate_decay="cosine"
        )
        assert np.all(np.isfinite(ensemble.elbo_final))
        wide = np.float64 if policy == "float64" else np.float32
        assert ensemble.loc.dtype == wide
    finally:
        keras.config.set_floatx(floatx)


@pytest.mark.slow
def test_mean_weights_scope_does_not_reach_into_refinement(problem, ensemble):
    with layers.mean_weights():
        inside = linear_gaussian.refine(problem.model(), problem.x, problem.y)
    np.testing.assert_array_equal(inside.elbo_final, ensemble.elbo_final)


@pytest.mark.slow
def test_dataset_and_arrays_give_the_same(problem, ensemble):
    dataset = tf.data.Dataset.from_tensor_slices((problem.x, problem.y))
    from_dataset = linear_gaussian.refine(
        problem.model(), dataset.batch(7), None
    )
    np.testing.assert_array_equal(from_dataset.params, ensemble.params)


@pytest.mark.slow
def test_loss_may_be_given(problem, ensemble):
    model = problem.model()
    loss = model.loss
    model.compile(loss="mae")
    given = linear_gaussian.refine(model, problem.x, problem.y, loss=loss)
    np.testing.assert_array_equal(given.params, ensemble.params)


@pytest.mark.slow
def test_classifier_with_a_loss_by_name(rng):
    x = rng.normal(size=(40, 3)).astype("float32")
    y = (x[:, 0] > 0).astype("int64")
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.DenseReparameterization(8, activation="relu"),
            layers.DenseLocalReparameterization(2, activation="softmax"),
        ]
    )
    model.compile(loss="sparse_categorical_crossentropy")
    ensemble = linear_gaussian.refine(model, x, y)
    assert ensemble.predict(x).shape == (100, 40, 2)
    probs = ensemble.predict_proba(x, 6)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, rtol=1e-5)


@keras.saving.register_keras_serializable(package="tests")
class _Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.hidden = layers.DenseFlipout(4, activation="tanh")
        self.top = layers.DenseReparameterization(1)

    def call(self, inputs):
        return self.top(self.hidden(inputs["a"]) + inputs["b"])


@pytest.mark.slow
def test_subclassed_model_with_named_inputs(problem, tmp_path):
    model = _Subclassed()
    x = {"a": problem.x, "b": problem.x[:, :1]}
    model(keras.tree.map_structure(keras.ops.convert_to_tensor, x))
    model.compile(loss="mse")
    ensemble = linear_gaussian.refine(model, x, problem.y)
    draws = ensemble.predict(x, 3, seed=1)
    assert draws.shape == (3, 20, 1)
    ensemble.save(tmp_path / "a.posterior")
    loaded = posteriors.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(loaded.predict(x, 3, seed=1), draws)


@pytest.mark.slow
def test_mini_batches_find_what_full_batches_find(problem):
    full, mini = (
        linear_gaussian.refine(
            problem.model(),
            problem.x,
            problem.y,
            num_members=10,
            steps=100,
            learning_rate=0.02,
            learning_rate_decay="linear",
            batch_size=size,
        )  # fmt: skip
        for size in (20, 8)
    )
    # Same auxiliary draws at first: compare members in pairs.
    np.testing.assert_allclose(
        full.history["elbo_aux"][:, 0], mini.history["elbo_aux"][:, 0], atol=0.4
    )


@pytest.mark.slow
def test_fresh_seed_is_drawn_and_differs(problem):
    options = {"seed": None, "steps": 1, "variance_ratios": (0.5,)}
    first, second = (
        linear_gaussian.refine(problem.model(), problem.x, problem.y, **options)
        for _ in range(2)
    )
    assert not np.any(first.loc == second.loc)


def test_loc_and_scale_are_those_of_the_view(problem, ensemble):
    view = functional.MeanFieldView(problem.model())
    assert ensemble.loc.shape == ensemble.scale.shape == (3, view.size)
