"""Identities of all losses that are negative log likelihoods."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from scipy import stats

from tfp_refine import losses
from tfp_refine import metrics


def binomial(y, log_mean, total_count):
    mean = np.exp(log_mean)
    return stats.nbinom(total_count, total_count / (total_count + mean)).logpmf(
        y
    )


def ordinal(y, outputs):
    logits = outputs[..., :1]
    for k in range(1, outputs.shape[-1]):
        gap = np.logaddexp(0.0, outputs[..., k : k + 1])
        logits = np.concatenate([logits, logits[..., -1:] + gap], axis=-1)
    cdf = special.expit(logits)
    zero, one = np.zeros_like(cdf[..., :1]), np.ones_like(cdf[..., :1])
    probs = np.diff(np.concatenate([zero, cdf, one], axis=-1), axis=-1)
    return np.log(np.take_along_axis(probs, y[..., None], -1)[..., 0])


def categorical(y, outputs):
    log_probs = special.log_softmax(outputs, axis=-1)
    return np.take_along_axis(log_probs, y[..., None], -1)[..., 0]


def halves(outputs):
    return np.split(outputs, 2, axis=-1)


def softplus(raw):
    return np.logaddexp(0.0, raw)


# A loss; how many outputs a target has; its targets; log p by SciPy.
CASES = {
    "bernoulli": (
        losses.BernoulliNLL,
        1,
        lambda rng, shape: rng.integers(2, size=shape),
        lambda y, out: stats.bernoulli(special.expit(out)).logpmf(y),
    ),
    "poisson": (
        losses.PoissonNLL,
        1,
        lambda rng, shape: rng.integers(9, size=shape),
        lambda y, out: stats.poisson(np.exp(out)).logpmf(y),
    ),
    "negative_binomial": (
        losses.NegativeBinomialNLL,
        2,
        lambda rng, shape: rng.integers(9, size=shape),
        lambda y, out: binomial(
            y, halves(out)[0], softplus(halves(out)[1]) + 1e-6
        ),
    ),
    "negative_binomial_of_known_dispersion": (
        lambda **kwargs: losses.NegativeBinomialNLL(2.5, **kwargs),
        1,
        lambda rng, shape: rng.integers(9, size=shape),
        lambda y, out: binomial(y, out, 2.5),
    ),
    "student_t": (
        losses.StudentTNLL,
        3,
        lambda rng, shape: rng.normal(size=shape),
        lambda y, out: stats.t(
            softplus(np.split(out, 3, axis=-1)[2]) + 2.0,
            np.split(out, 3, axis=-1)[0],
            softplus(np.split(out, 3, axis=-1)[1]) + 1e-6,
        ).logpdf(y),
    ),
    "student_t_of_known_df": (
        lambda **kwargs: losses.StudentTNLL(4.0, **kwargs),
        2,
        lambda rng, shape: rng.normal(size=shape),
        lambda y, out: stats.t(
            4.0, halves(out)[0], softplus(halves(out)[1]) + 1e-6
        ).logpdf(y),
    ),
    "student_t_of_known_scale": (
        lambda **kwargs: losses.StudentTNLL(scale=0.3, **kwargs),
        2,
        lambda rng, shape: rng.normal(size=shape),
        lambda y, out: stats.t(
            softplus(halves(out)[1]) + 2.0, halves(out)[0], 0.3
        ).logpdf(y),
    ),
    "student_t_of_known_df_and_scale": (
        lambda **kwargs: losses.StudentTNLL(4.0, 0.3, **kwargs),
        1,
        lambda rng, shape: rng.normal(size=shape),
        lambda y, out: stats.t(4.0, out, 0.3).logpdf(y),
    ),
    "gaussian": (
        lambda **kwargs: losses.GaussianNLL(0.3, **kwargs),
        1,
        lambda rng, shape: rng.normal(size=shape),
        lambda y, out: stats.norm(out, 0.3).logpdf(y),
    ),
    "heteroscedastic_gaussian": (
        losses.HeteroscedasticGaussianNLL,
        2,
        lambda rng, shape: rng.normal(size=shape),
        lambda y, out: stats.norm(
            halves(out)[0], softplus(halves(out)[1])
        ).logpdf(y),
    ),
    # Classes have no axis of their own: outputs [..., D, 4].
    "categorical": (
        losses.CategoricalNLL,
        None,
        lambda rng, shape: rng.integers(4, size=shape),
        categorical,
    ),
    "ordinal": (
        losses.OrdinalNLL,
        None,
        lambda rng, shape: rng.integers(5, size=shape),
        ordinal,
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def make(name, rng, shape=(7, 3), dtype="float64", **kwargs):
    """Returns a loss, targets, outputs and log probabilities of targets."""
    loss, size, targets, log_prob = CASES[name]
    y = targets(rng, shape)
    wide = (*shape, 4) if size is None else (*shape[:-1], shape[-1] * size)
    outputs = rng.normal(size=wide)
    return loss(dtype=dtype, **kwargs), y, outputs, log_prob(y, outputs)


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("shape", [(7, 1), (7, 3), (7, 2, 3)])
def test_a_loss_is_the_sum_of_the_log_likelihoods_of_an_example(
    rng, name, shape
):
    loss, y, outputs, log_prob = make(name, rng, shape, reduction=None)
    expected = -log_prob.reshape(7, -1).sum(axis=-1)
    for found in (loss(y, outputs), loss.call(y, outputs)):
        assert found.shape == (7,)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@ALL
def test_a_predictive_distribution_is_that_of_each_target(rng, name):
    loss, y, outputs, log_prob = make(name, rng)
    found = loss.predictive(outputs)
    assert found.batch_shape == y.shape
    assert found.event_shape == ()
    np.testing.assert_allclose(
        found.log_prob(y.astype("float64")), log_prob, rtol=1e-10
    )
    # Draws of outputs, before the examples.
    draws = np.stack([outputs] * 5)
    assert loss.predictive(draws).batch_shape == (5, *y.shape)
    assert loss.predictive(draws).sample(2, seed=1).shape == (2, 5, *y.shape)


@pytest.mark.slow
@ALL
def test_samples_of_a_predictive_distribution_have_its_probabilities(rng, name):
    loss, y, outputs, _ = make(name, rng, (1, 1))
    predictive = loss.predictive(outputs)
    samples = predictive.sample(20000, seed=1).numpy().ravel()
    for value in np.unique(np.quantile(samples, [0.25, 0.5, 0.75])):
        expected = float(predictive.cdf(value).numpy().squeeze())
        # Six standard deviations.
        assert abs(np.mean(samples <= value) - expected) < 3.0 / 20000**0.5


@pytest.mark.slow
@ALL
def test_gradients_are_those_of_the_log_likelihood(rng, name):
    loss, y, outputs, _ = make(name, rng, (2, 2))
    outputs = tf.Variable(outputs)
    with tf.GradientTape() as tape:
        value = loss(y, outputs)
    found = tape.gradient(value, outputs).numpy()
    step = 1e-6
    for index in np.ndindex(*outputs.shape):
        around = []
        for sign in (1.0, -1.0):
            moved = outputs.numpy()
            moved[index] += sign * step
            around.append(float(loss(y, moved)))
        expected = (around[0] - around[1]) / (2.0 * step)
        np.testing.assert_allclose(found[index], expected, rtol=1e-4, atol=1e-8)


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("extreme", [-1e4, -80.0, 0.0, 80.0])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_are_finite_at_the_extremes(rng, name, extreme, dtype):
    loss, y, outputs, _ = make(name, rng, dtype=dtype)
    outputs = tf.Variable(np.full_like(outputs, extreme), dtype=dtype)
    with tf.GradientTape() as tape:
        value = loss(y, outputs)
    gradient = tape.gradient(value, outputs)
    if name == "heteroscedastic_gaussian" and extreme < -50.0:
        return  # its default has no least noise, as it says
    assert np.isfinite(value)
    assert np.all(np.isfinite(gradient))


@pytest.mark.slow
@ALL
def test_a_compiled_loss_is_the_eager_one(rng, name):
    loss, y, outputs, _ = make(name, rng)
    expected = loss(y, outputs)
    for jit_compile in (False, True):
        compiled = tf.function(lambda y, p: loss(y, p), jit_compile=jit_compile)
        np.testing.assert_allclose(compiled(y, outputs), expected, rtol=1e-10)


@pytest.mark.slow
@ALL
def test_a_weight_counts_the_likelihood_of_an_example(rng, name):
    loss, y, outputs, log_prob = make(name, rng, reduction="sum")
    weights = rng.integers(3, size=7)
    expected = -np.sum(weights[:, np.newaxis] * log_prob)
    repeated = loss(np.repeat(y, weights, 0), np.repeat(outputs, weights, 0))
    for found in (
        loss(y, outputs, weights),
        loss(y, outputs, weights[:, np.newaxis]),
        repeated,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    mean = make(name, rng)[0](y, outputs, weights)
    np.testing.assert_allclose(mean, expected / 7, rtol=1e-10)
    per_weight = make(name, rng, reduction="mean_with_sample_weight")[0]
    np.testing.assert_allclose(
        per_weight(y, outputs, weights), expected / sum(weights), rtol=1e-10
    )


@pytest.mark.parametrize("name", ["categorical", "ordinal"])
def test_weights_of_examples_may_be_a_column(rng, name):
    loss, y, outputs, _ = make(name, rng, (7,))
    weights = rng.uniform(size=7)
    np.testing.assert_array_equal(
        loss(y, outputs, weights[:, np.newaxis]), loss(y, outputs, weights)
    )


@ALL
def test_weights_of_positions_count_theirs(rng, name):
    loss, y, outputs, log_prob = make(name, rng, (7, 4, 2))
    weights = rng.uniform(size=(7, 4))
    np.testing.assert_allclose(
        loss(y, outputs, weights),
        -np.sum(weights[..., np.newaxis] * log_prob) / 7,
        rtol=1e-10,
    )


@ALL
def test_masked_positions_do_not_count(rng, name):
    loss, y, outputs, log_prob = make(name, rng, (7, 4, 2))
    mask = rng.integers(2, size=(7, 4)).astype(bool)
    mask[0] = False
    expected = -np.where(mask[..., np.newaxis], log_prob, 0.0)
    outputs = tf.constant(outputs)
    outputs._keras_mask = tf.constant(mask)
    # Whatever stands there: padding is often -1.
    y = np.where(mask[..., np.newaxis], y, -1)
    np.testing.assert_allclose(loss(y, outputs), expected.sum() / 7, rtol=1e-10)
    np.testing.assert_allclose(
        loss.call(y, outputs), expected.sum(axis=(1, 2)), rtol=1e-10
    )
    weights = rng.uniform(size=7)
    np.testing.assert_allclose(
        loss(y, outputs, weights),
        np.sum(weights[:, np.newaxis, np.newaxis] * expected) / 7,
        rtol=1e-10,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("bernoulli", 0.5),
        ("bernoulli", 2),
        ("categorical", -1),
        ("categorical", 4),
        ("categorical", 1.5),
        ("ordinal", 5),
        ("ordinal", 0.5),
        ("poisson", -1),
        ("poisson", 0.5),
        ("negative_binomial", -1),
        ("negative_binomial", 2.5),
    ],
)
def test_impossible_targets_are_never_taken_for_others(rng, name, bad):
    loss, y, outputs, log_prob = make(name, rng, (7, 1), reduction=None)
    y = y.astype("float64")
    y[3] = bad
    with pytest.raises(ValueError, match=f"targets of .*Received: {bad:g}"):
        loss(y, outputs)
    with pytest.raises(ValueError, match=f"targets of .*Received: {bad:g}"):
        loss.check_targets(y, outputs[:2])
    compiled = tf.function(lambda y, p: loss(y, p))(y, outputs)
    np.testing.assert_array_equal(np.isnan(compiled), np.arange(7) == 3)
    # Unless the example does not count.
    weights = (np.arange(7) != 3).astype("float64")
    found = loss(y, outputs, weights)
    np.testing.assert_allclose(
        found, -weights * log_prob.sum(axis=-1), rtol=1e-10
    )


@ALL
def test_targets_without_the_last_axis_are_those_of_one_output(rng, name):
    loss, y, outputs, _ = make(name, rng, (7, 1))
    if name in ("categorical", "ordinal"):
        outputs = outputs[:, 0]
    np.testing.assert_array_equal(loss(y[:, 0], outputs), loss(y, outputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["categorical", "ordinal"])
def test_one_hot_rows_are_class_numbers(rng, name):
    loss, y, outputs, _ = make(name, rng, (7, 3), reduction=None)
    one_hot = np.eye(loss.predictive(outputs).logits.shape[-1])[y]
    np.testing.assert_array_equal(loss(one_hot, outputs), loss(y, outputs))
    one_hot[2, 0] = 0.25
    with pytest.raises(ValueError, match="not one-hot"):
        loss(one_hot, outputs)
    compiled = tf.function(lambda y, p: loss(y, p))(one_hot, outputs)
    np.testing.assert_array_equal(np.isnan(compiled), np.arange(7) == 2)


@ALL
def test_targets_of_another_shape_are_rejected(rng, name):
    loss, y, outputs, _ = make(name, rng, (7, 3))
    for wrong in (y[:, :2], y[:, :1], y[:5], y[0], y[..., None, None]):
        with pytest.raises(
            ValueError, match=r"must have the shape .*y_true.shape="
        ):
            loss(wrong, outputs)


@ALL
def test_weights_and_masks_of_another_shape_are_rejected(rng, name):
    loss, y, outputs, _ = make(name, rng, (7, 3))
    for weights in (np.ones(6), np.ones((7, 2)), np.ones((7, 3, 1))):
        with pytest.raises(ValueError, match="`sample_weight` must"):
            loss(y, outputs, weights)
    with pytest.raises(ValueError, match="`mask` must"):
        loss.example_nll(y, outputs, np.ones((7, 2), bool))


@pytest.mark.parametrize(
    ("activation", "loss"),
    [
        ("softmax", losses.CategoricalNLL()),
        ("sigmoid", losses.BernoulliNLL()),
        ("sigmoid", losses.OrdinalNLL()),
    ],
)
def test_probabilities_are_no_logits(activation, loss):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, activation=activation)]
    )
    model.compile("sgd", loss)
    y = np.zeros((4, 3) if activation == "sigmoid" else 4)
    with pytest.raises(ValueError, match="Remove this activation"):
        model.fit(np.ones((4, 2)), y, verbose=0)


@pytest.mark.parametrize(
    "make_loss",
    [
        lambda value: losses.NegativeBinomialNLL(value),
        lambda value: losses.StudentTNLL(value),
        lambda value: losses.StudentTNLL(scale=value),
    ],
)
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", [1.0]])
def test_constants_must_be_positive_numbers(make_loss, value):
    with pytest.raises(ValueError, match="must be a positive finite"):
        make_loss(value)


@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (losses.NegativeBinomialNLL(), (7, 3)),
        (losses.StudentTNLL(), (7, 4)),
        (losses.StudentTNLL(4.0), (7, 3)),
    ],
)
def test_outputs_that_cannot_be_split_are_rejected(loss, shape):
    with pytest.raises(ValueError, match=r"a multiple of .*\(7, "):
        loss(np.zeros((7, 1)), np.zeros(shape))


def test_one_logit_is_no_choice_of_classes():
    with pytest.raises(ValueError, match=r"BernoulliNLL.*\(7, 1\)"):
        losses.CategoricalNLL()(np.zeros(7), np.zeros((7, 1)))


@ALL
def test_config_survives_a_round_trip(rng, name):
    loss, y, outputs, _ = make(name, rng, dtype=None, reduction="sum")
    config = keras.saving.serialize_keras_object(loss)
    assert config["registered_name"] == f"tfp_refine>{type(loss).__name__}"
    restored = keras.saving.deserialize_keras_object(config)
    assert type(restored) is type(loss)
    assert restored.get_config() == loss.get_config()
    assert float(restored(y, outputs)) == float(loss(y, outputs))


@pytest.mark.slow
@ALL
@pytest.mark.parametrize(
    "policy",
    ["float32", pytest.param("mixed_bfloat16", marks=pytest.mark.slow)],
)
def test_a_model_trains_and_survives_saving(rng, name, policy, tmp_path):
    loss, y, outputs, _ = make(name, rng, (16, 1), dtype=None)
    if name in ("categorical", "ordinal"):
        outputs = outputs[:, 0]
    x = rng.normal(size=(16, 3)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="float32"),
            keras.layers.Dense(outputs.shape[-1], dtype=policy),
        ]
    )
    model.compile(keras.optimizers.SGD(1e-2), loss)
    history = model.fit(x, y, epochs=5, batch_size=16, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    model.save(tmp_path / "model.keras")
    restored = keras.saving.load_model(tmp_path / "model.keras")
    found = restored.evaluate(x, y, verbose=0)
    # In float32, whatever the layers compute in.
    assert loss(y, model(x)).dtype == "float32"
    np.testing.assert_allclose(
        found,
        float(loss(y, model(x))),
        rtol=1e-5 if policy == "float32" else 1e-2,  # of bfloat16: 8 bits
    )


def test_base_class_says_what_a_subclass_must_implement():
    with pytest.raises(NotImplementedError, match="`predictive`"):
        losses.LikelihoodLoss()(np.zeros((2, 1)), np.zeros((2, 1)))


def tagger():
    tokens = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(9, 3, mask_zero=True)(tokens)
    return keras.Model(tokens, keras.layers.Dense(4)(x))


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_fit_sums_over_the_tokens_that_are_not_masked(rng, jit_compile):
    tokens = rng.integers(1, 9, size=(6, 5))
    tokens[:, 3:] = 0
    tokens[2, 1:] = 0
    tags = np.where(tokens, rng.integers(4, size=(6, 5)), -1)
    model = tagger()
    log_probs = categorical(np.maximum(tags, 0), np.asarray(model(tokens)))
    expected = -np.sum(np.where(tokens, log_probs, 0.0)) / 6
    model.compile(
        keras.optimizers.SGD(0.0),
        losses.CategoricalNLL(),
        jit_compile=jit_compile,
    )
    history = model.fit(tokens, tags, batch_size=6, verbose=0).history
    np.testing.assert_allclose(history["loss"], [expected], rtol=1e-5)
    weights = rng.uniform(size=6)
    expected = -np.sum(weights * np.where(tokens, log_probs, 0.0).sum(1)) / 6
    found = model.evaluate(
        tokens, tags, sample_weight=weights, batch_size=6, verbose=0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("one_hot", [False, True])
def test_class_weights_count_the_likelihood_of_a_class(rng, one_hot):
    x = rng.normal(size=(8, 3)).astype("float32")
    labels = rng.integers(3, size=8)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    model.compile(keras.optimizers.SGD(0.0), losses.CategoricalNLL())
    weights = np.array([0.0, 1.0, 3.0])
    y = np.eye(3)[labels] if one_hot else labels
    found = model.fit(
        x, y, class_weight=dict(enumerate(weights)), batch_size=8, verbose=0
    ).history["loss"]
    log_probs = categorical(labels, np.asarray(model(x)))
    np.testing.assert_allclose(
        found, [-np.sum(weights[labels] * log_probs) / 8], rtol=1e-5
    )


def test_lengths_may_be_unknown_in_a_compiled_program(rng):
    loss, y, outputs, log_prob = make("categorical", rng, (6, 5))
    mask = rng.integers(2, size=(6, 5)).astype(bool)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None], tf.int64),
            tf.TensorSpec([None, None, 4], tf.float64),
            tf.TensorSpec([None, None], tf.bool),
            tf.TensorSpec([None, None], tf.float64),
        ]
    )
    def compiled(y, outputs, mask, weights):
        outputs = tf.identity(outputs)
        outputs._keras_mask = mask
        return loss(y, outputs, weights)

    for weights in (rng.uniform(size=(6, 5)), rng.uniform(size=(6, 1))):
        np.testing.assert_allclose(
            compiled(y, outputs, mask, weights),
            -np.sum(weights * np.where(mask, log_prob, 0.0)) / 6,
            rtol=1e-10,
        )


@pytest.mark.slow
@ALL
def test_scores_of_predictive_draws_are_those_of_the_mixture(rng, name):
    loss, y, _, _ = make(name, rng, (7, 2))
    draws = [make(name, rng, (7, 2))[2] for _ in range(50)]
    predictive = loss.predictive(np.stack(draws))
    samples = predictive.sample(400, seed=1).numpy().reshape(-1, 7, 2)
    # Shares of samples up to the targets: the mean of all draws' own.
    expected = np.mean(predictive.cdf(y.astype("float64")), axis=0)
    found = np.mean(samples <= y, axis=0)
    # Six standard deviations.
    assert np.all(np.abs(found - expected) < 3.0 / len(samples) ** 0.5)
    assert metrics.crps(y, samples) >= 0.0
    log_probs = predictive.log_prob(y.astype("float64"))
    by_hand = [CASES[name][3](y, outputs) for outputs in draws]
    np.testing.assert_allclose(
        special.logsumexp(log_probs, axis=0),
        special.logsumexp(by_hand, axis=0),
        rtol=1e-10,
    )
