"""Tests of the refined deep ensemble as one function."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfp_refine as tfr
from tfp_refine import ensembles
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine import recipes
from tfp_refine import refinement

N, M, SEED = 40, 2, 3
FOLDERS = ["all", "held_out"]
SCALES = (100.0, 0.1)
OPTIONS = {
    "num_networks": M, "steps": 30, "batch_size": 16, "refine_steps": 40,
    "variance_ratios": (0.5, 0.5), "kl_scales": SCALES,
    "short_training": None, "seed": SEED, "verbose": 0,
}  # fmt: skip


def build(num_outputs=2, loss=None, noise=None, units=4):
    layers = [keras.layers.Dense(units, "tanh")]
    layers.append(keras.layers.Dense(num_outputs))
    if noise is not None:
        layers.append(tfr.layers.HomoscedasticNoise(noise))
    model = keras.Sequential([keras.Input((3,)), *layers])
    model.compile("sgd", loss or tfr.losses.HeteroscedasticGaussianNLL())
    return model


def make_data(noise=0.1, count=N):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    y = np.sin(x[:, :1]) + noise * rng.normal(size=(count, 1))
    return x, y.astype(np.float32)


def key(stream):
    return functional.seeds.key(SEED, stream)


def by_hand(
    model, x, y, kl_scales, weights=None, epsilon=None, all_steps=(30,),
    raw_noises=(None, None),
):  # fmt: skip
    """Trains, converts and refines by the functions for each."""
    starts = []
    of_steps = np.split(np.asarray(kl_scales), len(all_steps))
    for steps, scales, raw in zip(
        all_steps, of_steps, raw_noises, strict=False
    ):
        networks = ensembles.deep_ensemble(
            model, x, y, sample_weight=weights, num_members=M, steps=steps,
            batch_size=16, learning_rate=1e-2, learning_rate_decay="cosine",
            adversarial_epsilon=epsilon, seed=key(1), verbose=0,
        )  # fmt: skip
        start = recipes.narrow_posteriors(
            networks, scales, num_train_examples=len(x), raw_noise=raw,
            seed=key(2),
        )  # fmt: skip
        starts.append(start)
    refined = tfr.refine(
        posteriors.concatenate(starts), x, y, sample_weight=weights,
        kl_scale=kl_scales,
        variance_ratios=(0.5, 0.5), steps=40, batch_size=16,
        refine_deterministic=True, seed=key(3), verbose=0,
    )  # fmt: skip
    return networks, refined


def halves(*arrays):
    """Returns held-out data, a fifth, and the rest."""
    rows = np.random.default_rng(key(0)).permutation(N)
    return (
        [array[part] for array in arrays]
        for part in (rows[: N // 5], rows[N // 5 :])
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("refined_deep_ensemble")


@pytest.fixture(scope="module")
def refined(folder):
    return tfr.refined_deep_ensemble(
        build(), *make_data(), checkpoint_dir=folder, **OPTIONS
    )


def test_it_is_the_refinement_of_a_deep_ensemble(refined):
    scales = np.repeat(SCALES, M)
    _, expected = by_hand(build(), *make_data(), scales)
    np.testing.assert_array_equal(refined.params, expected.params)
    np.testing.assert_array_equal(refined.history["kl_scale"], scales)


def test_networks_may_be_trained_on_adversarial_inputs():
    options = OPTIONS | {"kl_scales": [1.0], "adversarial_epsilon": 0.05}
    found = tfr.refined_deep_ensemble(build(), *make_data(), **options)
    _, expected = by_hand(build(), *make_data(), [1.0] * M, epsilon=0.05)
    np.testing.assert_array_equal(found.params, expected.params)


@pytest.mark.parametrize(
    "weighted", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_held_out_data_weigh_the_factors(refined, weighted, monkeypatch):
    data, weights, seen = make_data(), None, []
    if weighted:
        fit_spread = tfr.RefinedEnsemble.fit_spread

        def narrower(posterior, x, *args, **kwargs):
            fit_spread(posterior, x, *args, **kwargs)
            seen.append((x, posterior.spread, posterior.member_weights))
            posterior.spread = 0.3

        monkeypatch.setattr(tfr.RefinedEnsemble, "fit_spread", narrower)
        weights = np.linspace(0.1, 4.0, N).astype(np.float32)
        refined = tfr.refined_deep_ensemble(
            build(), *data, sample_weight=weights, **OPTIONS
        )
    counts = np.ones(N, np.float32) if weights is None else weights
    (x, y, held), (*rest, others) = halves(*data, counts)
    model, scores = build(), []
    _, trial = by_hand(model, *rest, np.repeat(SCALES, M), others)
    for own in np.eye(2):  # members with one of the factors
        trial.member_weights = np.repeat(own / M, M)
        draws = trial.predict(x, 2000, seed=1)
        values = model.loss.predictive(draws).log_prob(y)[..., 0]
        scores.append(scipy.special.logsumexp(values, axis=0) - np.log(2000))
    weights = ensembles.stacking_weights(scores, sample_weight=held)
    found = refined.history["held_out_weights"]
    assert abs(weights[0] - 0.5) > 0.1
    # Scores are of 20 draws, here of 2000.
    np.testing.assert_allclose(found, weights, atol=0.03)
    assert refined.history["candidate_kl_scales"].tolist() == list(SCALES)
    np.testing.assert_allclose(
        refined.member_weights, np.repeat(found / M, M), rtol=1e-6
    )
    # The mixture without the held-out data has the spread that suits these.
    monkeypatch.undo()
    trial.member_weights = refined.member_weights
    trial.fit_spread(x, y, sample_weight=held, num_samples=20 * M, seed=key(4))
    if not weighted:
        assert refined.spread == trial.spread
        return
    ((inputs, spread, of_members),) = seen
    np.testing.assert_array_equal(inputs, x)
    assert (spread, refined.spread) == (trial.spread, 0.3)
    np.testing.assert_array_equal(of_members, refined.member_weights)


def test_one_factor_needs_no_held_out_data():
    options = OPTIONS | {"kl_scales": [0.3], "held_out_fraction": None}
    loss = build().loss
    found = tfr.refined_deep_ensemble(
        build(),
        *make_data(),
        **options,
        loss=lambda y, outputs: tf.reduce_mean(loss.call(y, outputs)),
    )
    _, expected = by_hand(build(), *make_data(), [0.3] * M)
    np.testing.assert_array_equal(found.params, expected.params)
    assert found.history["held_out_weights"].tolist() == [1.0]
    assert found.spread == 1.0


def test_networks_of_a_short_training_are_refined_with_the_factor_1(tmp_path):
    options = OPTIONS | {"kl_scales": (0.1,), "short_training": 0.5}
    options["checkpoint_dir"] = tmp_path
    found = tfr.refined_deep_ensemble(build(), *make_data(), **options)
    again = tfr.refined_deep_ensemble(build(), *make_data(), **options)
    np.testing.assert_array_equal(again.params, found.params)
    assert len([*tmp_path.rglob("steps_*/*.ckpt")]) == 4
    scales = [0.1] * M + [1.0] * M
    _, expected = by_hand(build(), *make_data(), scales, all_steps=(30, 15))
    np.testing.assert_array_equal(found.params, expected.params)
    history = found.history
    assert history["kl_scale"].tolist() == scales
    assert history["candidate"].tolist() == [0] * M + [1] * M
    assert history["candidate_steps"].tolist() == [30, 15]
    assert history["candidate_kl_scales"].tolist() == [0.1, 1.0]
    assert np.all(history["held_out_weights"] > 0.0)
    np.testing.assert_allclose(
        found.member_weights, np.repeat(history["held_out_weights"] / M, M)
    )


def test_a_short_training_has_a_step_and_no_candidate_is_there_twice():
    options = OPTIONS | {"steps": 1, "refine_steps": 1, "kl_scales": (1.0,)}
    options |= {"short_training": 0.01}
    found = tfr.refined_deep_ensemble(build(), *make_data(), **options)
    assert found.history["candidate_steps"].tolist() == [1]
    assert found.num_members == M


@pytest.mark.parametrize(
    ("kl_scales", "short"),
    [
        pytest.param(SCALES, None, marks=pytest.mark.slow),
        ((1.0,), None),
        ((1.0,), 0.1),
    ],
)
def test_a_homoscedastic_noise_starts_from_the_error_on_held_out_data(
    kl_scales, short, monkeypatch
):
    monkeypatch.setattr(tfr.RefinedEnsemble, "fit_spread", None)  # not for it
    model, (x, y) = build(1, noise=1e-3), make_data()
    options = OPTIONS | {"kl_scales": kl_scales, "short_training": short}
    found = tfr.refined_deep_ensemble(model, x, y, **options)
    held, rest = halves(x, y)
    all_steps, raw_noises = (30, 3) if short else (30,), []
    for steps in all_steps:
        networks, _ = by_hand(model, *rest, [1.0] * M, all_steps=(steps,))
        loc = networks.predict(held[0], M)[..., :1]
        error = np.sqrt(np.mean((loc - held[1]) ** 2))
        raw_noises.append(model.loss.raw_noise(error))
    scales = found.history["kl_scale"].tolist()
    _, expected = by_hand(
        model, x, y, scales, all_steps=all_steps, raw_noises=raw_noises
    )
    np.testing.assert_allclose(found.params, expected.params, atol=1e-3)


def test_examples_without_weight_and_other_outputs_do_not_change_a_noise():
    x, y = make_data()
    weights, wrong = np.ones(N, np.float32), y.copy()
    weights[::4], wrong[::4] = 0.0, 1000.0
    model = build(1, noise=0.5)
    by_name = keras.Model(model.inputs, {"out": model.outputs[0]})
    by_name.compile("sgd", {"out": tfr.losses.HeteroscedasticGaussianNLL()})
    noises = []
    for each, targets in ((model, y), (by_name, {"out": wrong})):
        found = tfr.refined_deep_ensemble(
            each, x, targets, sample_weight=weights,
            **OPTIONS | {"kl_scales": [1.0], "refine_steps": 1},
        )  # fmt: skip
        noises.append(found.params[:, 0, -1])
    np.testing.assert_allclose(noises[1], noises[0], atol=1e-3)


def test_weights_must_be_left_on_both_sides():
    x, y = make_data()
    weights = np.zeros(N, np.float32)
    weights[0] = 1.0
    with pytest.raises(ValueError, match="weight above 0.*8 of 40"):
        tfr.refined_deep_ensemble(
            build(), x, y, sample_weight=weights, **OPTIONS
        )


def test_a_factor_that_diverges_is_left_out():
    options = OPTIONS | {"kl_scales": (1e38, 1.0), "short_training": 0.5}
    with (
        pytest.warns(RuntimeWarning, match="2 of 6 members diverged"),
        pytest.warns(RuntimeWarning, match=r"No member gets .* 1e\+38"),
    ):
        found = tfr.refined_deep_ensemble(build(), *make_data(), **options)
    weights = found.history["held_out_weights"]
    assert weights[0] == 0.0
    assert np.sum(weights) == pytest.approx(1.0)
    assert found.history["kl_scale"].tolist() == [1.0] * 2 * M
    assert found.history["members"].tolist() == [*range(2 * M)]  # no others
    assert found.history["candidate"].tolist() == [1] * M + [2] * M
    np.testing.assert_allclose(
        found.member_weights, np.repeat(weights[1:] / M, M)
    )


def test_members_that_diverge_leave_the_others_their_weights(monkeypatch):
    refine = refinement.refine

    def but_the_first(*arguments, num_members, **options):
        others = range(1, num_members)
        return refine(
            *arguments, num_members=num_members, members=others, **options
        )

    monkeypatch.setattr(refinement, "refine", but_the_first)
    found = tfr.refined_deep_ensemble(build(), *make_data(), **OPTIONS)
    scales = np.repeat(SCALES, M)[1:]
    np.testing.assert_array_equal(found.history["kl_scale"], scales)
    weights = found.history["held_out_weights"]
    shares = [weights[0], weights[1] / M, weights[1] / M]
    np.testing.assert_allclose(found.member_weights, shares)


def test_work_goes_on_where_it_was(folder, refined):
    def times():
        return {p: p.stat().st_mtime_ns for p in folder.rglob("*.ckpt")}

    before = times()
    assert len(before) == 5
    assert sorted(p.name for p in folder.iterdir() if p.is_dir()) == FOLDERS
    options, (x, y) = OPTIONS | {"checkpoint_dir": folder}, make_data()
    found = tfr.refined_deep_ensemble(  # the same in other words
        build(),
        x,
        y,
        **options | {
            "variance_ratios": [0.5, 0.5], "steps": np.int64(30),
            "regularizer": tfr.regularizers.GaussianKL(),
        },
    )  # fmt: skip
    np.testing.assert_array_equal(found.params, refined.params)
    assert times() == before  # nothing was computed anew
    for different in (
        {"y": y + 1.0},
        {"steps": 31},
        {"short_training": 0.5},
        {"variance_ratios": (0.5, 0.6)},
        {"regularizer": tfr.regularizers.GaussianKL(2.0)},
        {"initial_scale": 0.02},
        {"loss": tfr.losses.HeteroscedasticGaussianNLL(noise="log_variance")},
        {"estimator": "flipout"},
    ):
        with pytest.raises(ValueError, match="different refined deep ensemble"):
            tfr.refined_deep_ensemble(
                build(), **{"x": x, "y": y, **options, **different}
            )
    with pytest.raises(ValueError, match="`checkpoint_dir` needs a `seed`"):
        tfr.refined_deep_ensemble(build(), x, y, **options | {"seed": None})


def test_batches_and_weights_of_examples_and_classes():
    x, y = make_data()
    labels = (y[:, 0] > 0).astype(np.int32)
    model = build(2, tfr.losses.CategoricalNLL())
    before = model.get_weights()
    weights = np.where(labels, 3.0, 1.0).astype(np.float32)
    options = OPTIONS | {"kl_scales": (1.0,)}
    batches = tf.data.Dataset.from_tensor_slices((x, labels, weights))
    expected = tfr.refined_deep_ensemble(model, batches.batch(7), **options)
    probs = expected.predict_proba(x, 10)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, rtol=1e-5)
    found = tfr.refined_deep_ensemble(
        model, x, labels, class_weight={1: 3.0}, **options
    )
    np.testing.assert_array_equal(found.params, expected.params)
    plain = tfr.refined_deep_ensemble(model, x, labels, **options)
    assert np.any(plain.params != expected.params)
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)  # it is not changed


def test_positions_may_have_weights(monkeypatch):
    monkeypatch.setattr(tfr.RefinedEnsemble, "fit_spread", None)  # not for them
    x = np.random.default_rng(0).normal(size=(N, 3, 2)).astype(np.float32)
    labels = (x[..., 0] > 0).astype(np.int32)
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.Dense(2)])
    model.compile("sgd", tfr.losses.CategoricalNLL())
    found = tfr.refined_deep_ensemble(
        model, x, labels, sample_weight=np.ones((N, 3), np.float32),
        **OPTIONS | {"steps": 2, "refine_steps": 1},
    )  # fmt: skip
    assert np.sum(found.history["held_out_weights"]) == pytest.approx(1.0)


def test_the_model_may_be_a_function_of_a_seed():
    made = []

    def make(seed):
        keras.utils.set_random_seed(seed)
        made.append(build())
        return made[-1]

    options = OPTIONS | {"kl_scales": (1.0,)}
    found = tfr.refined_deep_ensemble(make, *make_data(), **options)
    kernels = found.params[:, 0, :12]
    assert len({*map(bytes, kernels)}) == M
    assert len({bytes(one.get_weights()[0]) for one in made}) >= M


@pytest.mark.slow
def test_data_without_noise_get_colder_members():
    means = []
    for noise in (0.0, 0.5):
        found = tfr.refined_deep_ensemble(
            build(units=20), *make_data(noise, 100), steps=3000, seed=1,
            num_networks=4, verbose=0,
        )  # fmt: skip
        assert found.history["candidate_steps"].tolist() == [3000] * 3 + [90]
        scales = found.history["candidate_kl_scales"].tolist()
        assert scales == [3.0, 0.3, 0.1, 1.0]
        scales = np.log(found.history["kl_scale"])
        means.append(np.average(scales, weights=found.member_weights))
    assert means[0] < means[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kl_scales": ()}, "`kl_scales` must have shape.*Received"),
        ({"kl_scales": 1.0}, "`kl_scales` must have shape.*Received"),
        ({"kl_scales": (1.0, -1.0)}, "`kl_scales` must be.*Received.*-1.0"),
        ({"kl_scales": (1.0, 1.0)}, "`kl_scales` must be.*different.*1.0"),
        ({"short_training": 1.0}, r"`short_training`.*\(0, 1\). Rec.*1.0"),
        ({"short_training": "no"}, "`short_training` must be.*no"),
        ({"held_out_fraction": 1.0}, r"must be in \(0, 1\). Received.*1.0"),
        ({"held_out_fraction": "0.2"}, "`held_out_fraction` must be.*0.2"),
        ({"checkpoint_dir": 3}, "`checkpoint_dir` must be a path.*3"),
        ({"held_out_fraction": 0.99}, "at least two .*Received: 40 .*0.99"),
        ({"num_networks": 0}, "`num_networks` must be.*Received.*0"),
        ({"steps": 0}, "`steps` must be.*Received.*0"),
        ({"refine_steps": 0}, "`refine_steps` must be.*Received.*0"),
        ({"variance_ratios": (1.0,)}, "`variance_ratios`.*Received.*1.0"),
        ({"initial_scale": 0.0}, "must be.*positive.*Received.*0.0"),
        ({"learning_rate_decay": "no"}, "`learning_rate_decay`.*Received.*no"),
        ({"refine_learning_rate": 0.0}, "`refine_learning_rate`.*Rec.*0.0"),
        ({"adversarial_epsilon": 0.0}, "`adversarial_epsilon`.*Rec.*0.0"),
        ({"adversarial_epsilon": "no"}, "`adversarial_epsilon`.*Rec.*no"),
        ({"loss": "mse"}, "mean over the 2 outputs"),
        ({"loss": lambda y, p: tf.reduce_mean(p)}, "one value for each"),
        ({"regularizer": "log_uniform_kl"}, "prior"),
        ({"estimator": "none"}, "`estimator` must be.*none"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_refused_before_any_training(
    tmp_path, options, message
):
    options = OPTIONS | {"checkpoint_dir": tmp_path} | options
    with pytest.raises(ValueError, match=message):
        tfr.refined_deep_ensemble(build(), *make_data(), **options)
    assert not list(tmp_path.iterdir())


def test_inputs_that_cannot_be_moved_are_refused_before_any_training(tmp_path):
    x, y = make_data()
    model = keras.Sequential(
        [keras.Input((3,), dtype="int32"), *build().layers]
    )
    model.compile("sgd", tfr.losses.HeteroscedasticGaussianNLL())
    options = OPTIONS | {"checkpoint_dir": tmp_path}
    with pytest.raises(ValueError, match="`adversarial_epsilon` .*int32"):
        tfr.refined_deep_ensemble(
            model, np.int32(x), y, **options, adversarial_epsilon=0.01
        )
    assert not list(tmp_path.iterdir())


def test_another_work_in_the_folder_is_seen_before_any_training(tmp_path):
    options = OPTIONS | {"checkpoint_dir": tmp_path, "kl_scales": (1.0,)}
    tfr.refined_deep_ensemble(build(), *make_data(), **options)
    with pytest.raises(ValueError, match="different refined deep ensemble"):
        tfr.refined_deep_ensemble(
            build(), *make_data(), **options | {"kl_scales": SCALES}
        )
    assert not (tmp_path / "held_out").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("mlp", "a keras.Model, or a function.*Received: str"),
        (keras.Sequential([keras.layers.Dense(1)]), "is not built"),
        (
            keras.Sequential([keras.Input((3,)), keras.layers.Flatten()]),
            "no layer that can get posteriors|no trainable weights",
        ),
        (
            keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]),
            "likelihood is unknown: compile",
        ),
        (
            keras.Sequential([keras.Input((3,)), tfr.layers.DenseFlipout(2)]),
            "plain Keras layers.*variational layers",
        ),
    ],
    ids=["text", "not built", "no weights", "not compiled", "variational"],
)
def test_models_that_cannot_be_refined_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        tfr.refined_deep_ensemble(model, *make_data(), **OPTIONS)
