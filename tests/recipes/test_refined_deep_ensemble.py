"""Tests of the refined deep ensemble as one function."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfp_refine as tfr
from tfp_refine import ensembles
from tfp_refine import functional
from tfp_refine import recipes

N, M, SEED = 40, 2, 3
SCALES = (3.0, 0.1)
OPTIONS = {
    "num_members": M, "steps": 30, "batch_size": 16, "refine_steps": 4,
    "variance_ratios": (0.5, 0.5), "kl_scales": SCALES, "seed": SEED,
    "verbose": 0,
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


def by_hand(model, x, y, kl_scales, **options):
    """Trains, converts and refines by the functions for each."""
    networks = ensembles.deep_ensemble(
        model, x, y, num_members=M, steps=30, batch_size=16,
        learning_rate=1e-2, learning_rate_decay="cosine", seed=key(1),
        verbose=0,
    )  # fmt: skip
    start = recipes.narrow_posteriors(
        networks, kl_scales, num_train_examples=len(x), seed=key(2), **options
    )
    refined = tfr.refine(
        start, x, y, kl_scale=kl_scales, variance_ratios=(0.5, 0.5), steps=4,
        batch_size=16, refine_deterministic=True, seed=key(3), verbose=0,
    )  # fmt: skip
    return networks, refined


def halves(x, y):
    """Returns held-out data, a fifth, and the rest."""
    rows = np.random.default_rng(key(0)).permutation(len(x))
    held, rest = rows[: len(x) // 5], rows[len(x) // 5 :]
    return (x[held], y[held]), (x[rest], y[rest])


@pytest.fixture(scope="module")
def refined():
    return tfr.refined_deep_ensemble(build(), *make_data(), **OPTIONS)


def test_it_is_the_refinement_of_a_deep_ensemble(refined):
    scales = refined.history["kl_scale"].tolist()
    _, expected = by_hand(build(), *make_data(), scales)
    np.testing.assert_array_equal(refined.params, expected.params)


def test_held_out_data_weigh_the_factors(refined):
    held, rest = halves(*make_data())
    model, scores = build(), []
    for scale in SCALES:
        _, one = by_hand(model, *rest, [scale] * M)
        draws = one.predict(held[0], 2000, seed=1)
        values = model.loss.predictive(draws).log_prob(held[1])[..., 0]
        scores.append(scipy.special.logsumexp(values, axis=0) - np.log(2000))
    weights = ensembles.stacking_weights(scores)
    found = refined.history["held_out_weights"]
    # Scores are of 20 draws of narrow posteriors, here of 2000.
    np.testing.assert_allclose(found, weights, atol=0.02)
    # Those of the training data would be others.
    assert refined.history["kl_scales"].tolist() == list(SCALES)
    expected = np.repeat(SCALES, ensembles.apportion(found, M))
    np.testing.assert_array_equal(refined.history["kl_scale"], expected)


def test_one_factor_needs_no_held_out_data():
    options = OPTIONS | {"kl_scales": [0.3], "held_out_fraction": None}
    found = tfr.refined_deep_ensemble(build(), *make_data(), **options)
    _, expected = by_hand(build(), *make_data(), [0.3] * M)
    np.testing.assert_array_equal(found.params, expected.params)
    assert found.history["held_out_weights"].tolist() == [1.0]


def test_a_homoscedastic_noise_starts_from_the_error_on_held_out_data():
    model, (x, y) = build(1, noise=1e-3), make_data()
    found = tfr.refined_deep_ensemble(model, x, y, **OPTIONS)
    held, rest = halves(x, y)
    networks, _ = by_hand(model, *rest, [1.0] * M)
    loc = networks.predict(held[0], M)[..., :1]
    raw = model.loss.raw_noise(np.sqrt(np.mean((loc - held[1]) ** 2)))
    scales = found.history["kl_scale"].tolist()
    _, expected = by_hand(model, x, y, scales, raw_noise=raw)
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-4)


def test_work_goes_on_where_it_was(tmp_path, refined):
    options = OPTIONS | {"checkpoint_dir": tmp_path}
    for _ in range(2):
        found = tfr.refined_deep_ensemble(build(), *make_data(), **options)
        np.testing.assert_array_equal(found.params, refined.params)
        folders = sorted(path.name for path in tmp_path.iterdir())
        assert folders == ["all", "held_out", "held_out_0.1", "held_out_3"]
    x, y = make_data()
    with pytest.raises(ValueError, match="belongs to a different"):
        tfr.refined_deep_ensemble(build(), x, y + 1.0, **options)
    with pytest.raises(ValueError, match="`checkpoint_dir` needs a `seed`"):
        tfr.refined_deep_ensemble(build(), x, y, **options | {"seed": None})


def test_batches_weights_and_classes():
    x, y = make_data()
    labels = (y[:, 0] > 0).astype(np.int32)
    model = build(2, tfr.losses.CategoricalNLL())
    weights = np.linspace(0.5, 1.5, N).astype(np.float32)
    expected = tfr.refined_deep_ensemble(
        model, x, labels, sample_weight=weights, **OPTIONS
    )
    batches = tf.data.Dataset.from_tensor_slices((x, labels, weights))
    found = tfr.refined_deep_ensemble(model, batches.batch(7), **OPTIONS)
    np.testing.assert_array_equal(found.params, expected.params)
    probs = found.predict_proba(x, 10)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, rtol=1e-5)
    plain = tfr.refined_deep_ensemble(model, x, labels, **OPTIONS)
    assert np.any(plain.params != expected.params)


def test_the_model_may_be_a_function_of_a_seed_and_is_not_changed():
    made = []

    def make(seed):
        keras.utils.set_random_seed(seed)
        made.append(build())
        return made[-1]

    options = OPTIONS | {"kl_scales": (1.0,)}
    found = tfr.refined_deep_ensemble(make, *make_data(), **options)
    assert found.num_members == M
    model = build()
    before = model.get_weights()
    tfr.refined_deep_ensemble(model, *make_data(), **options)
    for weight, value in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, value)


@pytest.mark.slow
def test_data_without_noise_get_colder_members():
    means = []
    for noise in (0.0, 0.5):
        found = tfr.refined_deep_ensemble(
            build(units=20), *make_data(noise, 100), steps=3000, seed=1,
            num_members=4, verbose=0,
        )  # fmt: skip
        means.append(np.mean(np.log(found.history["kl_scale"])))
    assert means[0] < means[1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kl_scales": ()}, "`kl_scales` must hold.*Received: kl_scales="),
        ({"kl_scales": (1.0, -1.0)}, "`kl_scales` must be.*Received.*-1.0"),
        ({"held_out_fraction": 1.0}, r"must be in \(0, 1\). Received.*1.0"),
        ({"held_out_fraction": 0.99}, "at least two .*Received: 40 .*0.99"),
        ({"num_members": 0}, "`num_members` must be.*Received.*0"),
        ({"steps": 0}, "`steps` must be.*Received.*0"),
        ({"refine_steps": 0}, "`steps` must be.*Received.*0"),
        ({"variance_ratios": (1.0,)}, "`variance_ratios`.*Received.*1.0"),
        ({"initial_scale": 0.0}, "must be.*positive.*Received.*0.0"),
        ({"learning_rate_decay": "no"}, "`learning_rate_decay`.*Received.*no"),
        ({"refine_learning_rate": 0.0}, "`learning_rate`.*Received.*0.0"),
        ({"loss": "mse"}, "mean over the 2 outputs"),
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
    ],
    ids=["text", "not built", "no weights", "not compiled"],
)
def test_models_that_cannot_be_refined_are_refused(model, message):
    with pytest.raises(ValueError, match=message):
        tfr.refined_deep_ensemble(model, *make_data(), **OPTIONS)
