"""Bounds and posteriors of all likelihoods, against brute force."""

import keras
import numpy as np
import pytest
from scipy import special
from scipy import stats

import tfp_refine as tfr

NUM_EXAMPLES = 12


def log_softmax(outputs, y):
    log_probs = special.log_softmax(outputs, axis=-1)
    return np.take_along_axis(log_probs, y[..., np.newaxis], -1)[..., 0]


def log_ordinal(outputs, y):
    gaps = np.logaddexp(0.0, outputs[:, 1:])
    logits = np.cumsum(np.hstack([outputs[:, :1], gaps]), axis=-1)
    edges = [np.zeros((len(y), 1)), special.expit(logits), np.ones((len(y), 1))]
    probs = np.diff(np.hstack(edges), axis=-1)
    return np.log(probs[np.arange(len(y)), y])


def halves(outputs):
    return np.split(outputs, 2, axis=-1)


def binomial(outputs, y):
    log_mean, raw = halves(outputs)
    count = np.logaddexp(0.0, raw) + 1e-6
    return stats.nbinom(count, count / (count + np.exp(log_mean))).logpmf(y)


# A loss; units of the last layer; targets; their log likelihoods by SciPy.
CASES = {
    "multilabel": (
        tfr.losses.BernoulliNLL,
        3,
        lambda rng: rng.integers(2, size=(NUM_EXAMPLES, 3)),
        lambda out, y: stats.bernoulli(special.expit(out)).logpmf(y),
    ),
    "several_targets": (
        lambda **kwargs: tfr.losses.GaussianNLL(0.5**0.5, **kwargs),
        3,
        lambda rng: rng.normal(size=(NUM_EXAMPLES, 3)).astype("float32"),
        lambda out, y: stats.norm(out, 0.5**0.5).logpdf(y),
    ),
    "classes": (
        tfr.losses.CategoricalNLL,
        4,
        lambda rng: rng.integers(4, size=NUM_EXAMPLES),
        log_softmax,
    ),
    "ordered_classes": (
        tfr.losses.OrdinalNLL,
        3,
        lambda rng: rng.integers(4, size=NUM_EXAMPLES),
        log_ordinal,
    ),
    "counts": (
        tfr.losses.PoissonNLL,
        2,
        lambda rng: rng.integers(7, size=(NUM_EXAMPLES, 2)),
        lambda out, y: stats.poisson(np.exp(out)).logpmf(y),
    ),
    "overdispersed_counts": (
        tfr.losses.NegativeBinomialNLL,
        2,
        lambda rng: rng.integers(7, size=(NUM_EXAMPLES, 1)),
        binomial,
    ),
    "outliers": (
        lambda **kwargs: tfr.losses.StudentTNLL(4.0, 0.3, **kwargs),
        2,
        lambda rng: rng.normal(size=(NUM_EXAMPLES, 2)).astype("float32"),
        lambda out, y: stats.t(4.0, out, 0.3).logpdf(y),
    ),
}
ALL = pytest.mark.parametrize("name", CASES)


def dense(units, scale=None, **kwargs):
    if scale is not None:
        posterior = tfr.layers.MeanFieldPosterior(scale)
        kwargs |= {"kernel_posterior": posterior, "bias_posterior": posterior}
    return tfr.layers.DenseReparameterization(
        units, num_train_examples=NUM_EXAMPLES, seed=1, **kwargs
    )


def kl(layer):
    """That of N(loc, scale**2) from N(0, 1), by hand."""
    return sum(
        np.sum(
            0.5 * (np.square(weight.loc) + np.square(weight.scale) - 1.0)
            - np.log(weight.scale)
        )
        for weight in layer.variational_weights
    )


def outputs_of(layer, features):
    kernel, bias = (weight.loc for weight in layer.variational_weights)
    return features @ np.asarray(kernel) + np.asarray(bias)


@pytest.mark.parametrize(
    "dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)]
)
@ALL
def test_elbo_is_the_sum_of_log_likelihoods_less_the_divergence(
    rng, name, dtype
):
    loss, units, targets, log_prob = CASES[name]
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype("float32")
    y = targets(rng)
    # So little noise that all draws are the means.
    layer = dense(units, 1e-11, dtype=dtype)
    model = keras.Sequential([keras.Input((3,), dtype=dtype), layer])
    model.compile("sgd", loss(dtype=dtype))
    expected = log_prob(outputs_of(layer, x), y).sum() - kl(layer)
    rtol = 1e-9 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(
        tfr.elbo(model, x, y, num_samples=2), expected, rtol=rtol
    )
    if dtype == "float32":  # Keras' `evaluate` says the same of one example
        found = model.evaluate(x, y, batch_size=5, verbose=0)
        np.testing.assert_allclose(found, -expected / NUM_EXAMPLES, rtol=rtol)


def tokens_and_tags(rng):
    tokens = rng.integers(1, 9, size=(NUM_EXAMPLES, 5))
    tokens[:, 3:] *= rng.integers(2, size=(NUM_EXAMPLES, 1))
    tokens[4] = 0
    return tokens, np.where(tokens, rng.integers(4, size=tokens.shape), -1)


def tagger(layer, dtype="float32"):
    tokens = keras.Input([5], dtype="int32")
    embedding = keras.layers.Embedding(9, 3, mask_zero=True, dtype=dtype)
    model = keras.Model(tokens, layer(embedding(tokens)))
    model.compile("sgd", tfr.losses.CategoricalNLL(dtype=dtype))
    return model, embedding


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_elbo_sums_over_the_tokens_that_are_not_masked(rng, dtype):
    tokens, tags = tokens_and_tags(rng)
    layer = dense(4, 1e-11, dtype=dtype)
    model, embedding = tagger(layer, dtype)
    features = embedding.get_weights()[0][tokens]
    log_probs = log_softmax(outputs_of(layer, features), np.maximum(tags, 0))
    expected = np.sum(log_probs[tokens != 0]) - kl(layer)
    rtol = 1e-9 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(
        tfr.elbo(model, tokens, tags, num_samples=2), expected, rtol=rtol
    )
    if dtype == "float32":
        found = model.evaluate(tokens, tags, batch_size=12, verbose=0)
        np.testing.assert_allclose(found, -expected / NUM_EXAMPLES, rtol=rtol)


def problem(rng, name):
    """Returns a model of some width with its loss, and data."""
    loss, units, targets, _ = CASES[name]
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype("float32")
    y = targets(rng)
    model = keras.Sequential([keras.Input((3,)), dense(units)])
    model.compile(keras.optimizers.Adam(0.01), loss())
    return model, x, y


def trained(rng, name):
    """Returns the same after some training."""
    model, x, y = problem(rng, name)
    model.fit(x, y, verbose=0)
    return model, x, y


def refine(model, x, y, **kwargs):
    return tfr.refine(
        model, x, y, num_members=2, variance_ratios=(0.7,), steps=3,
        seed=1, verbose=0, **kwargs,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "multilabel",
        pytest.param("ordered_classes", marks=pytest.mark.slow),
        pytest.param("overdispersed_counts", marks=pytest.mark.slow),
    ],
)
def test_all_likelihoods_are_refined_and_saved(rng, name, tmp_path):
    model, x, y = trained(rng, name)
    ensemble = refine(model, x, y)
    draws = ensemble.predict(x, 6, seed=1)
    log_prob = model.loss.predictive(draws).log_prob(y.astype("float32"))
    assert log_prob.shape == (6, *y.shape)
    found = -np.sum(log_prob, axis=tuple(range(2, 1 + y.ndim)))
    for nll, outputs in zip(found, draws, strict=True):
        np.testing.assert_allclose(nll, model.loss.call(y, outputs), rtol=1e-4)
    ensemble.save(tmp_path / "a.posterior")
    restored = tfr.load_posterior(tmp_path / "a.posterior")
    assert restored.link == ensemble.link
    np.testing.assert_array_equal(restored.predict(x, 6, seed=1), draws)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mapping", ["map", pytest.param("vmap", marks=pytest.mark.slow)]
)
def test_a_tagger_is_refined(rng, mapping):
    tokens, tags = tokens_and_tags(rng)
    model, _ = tagger(dense(4))
    model.fit(tokens, tags, verbose=0)
    ensemble = refine(model, tokens, tags, mapping=mapping)
    probs = ensemble.predict_proba(tokens, 4)
    assert probs.shape == (NUM_EXAMPLES, 5, 4)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, rtol=1e-5)
    summary = ensemble.summarize(tokens, 4)
    assert summary.entropy.shape == (NUM_EXAMPLES, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_classes"),
    [("multilabel", 3), ("classes", 4), ("ordered_classes", 4)],
)
def test_classes_have_probabilities(rng, name, num_classes):
    model, x, y = trained(rng, name)
    draws = tfr.predict(model, x, 4, seed=1)
    distribution = model.loss.predictive(draws)
    if name == "multilabel":
        expected = distribution.mean()
    else:
        expected = np.exp(
            distribution.logits
            - special.logsumexp(distribution.logits, axis=-1, keepdims=True)
        )
    probs = tfr.predict_proba(model, x, 4, seed=1)
    assert probs.shape == (NUM_EXAMPLES, num_classes)
    np.testing.assert_allclose(probs, np.mean(expected, axis=0), rtol=1e-4)
    summary = tfr.summarize(model, x, 4, seed=1)
    assert np.all(summary.entropy > 0.0)
    assert np.all(summary.mutual_information >= 0.0)


@pytest.mark.slow
@ALL
def test_ensembles_train_on_all_likelihoods(rng, name):
    loss, units, targets, _ = CASES[name]
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units)])
    model.compile("sgd", loss())
    ensemble = tfr.ensembles.deep_ensemble(
        model, x, targets(rng), num_members=2, steps=2, verbose=0, seed=1
    )
    assert (ensemble.link is None) == (name not in CLASSES)
    assert np.all(np.isfinite(ensemble.predict(x)))


CLASSES = ("multilabel", "classes", "ordered_classes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "instead"),
    [
        ("binary_crossentropy", r"tfr.losses.BernoulliNLL\(\)"),
        (
            keras.losses.BinaryCrossentropy(from_logits=True),
            r"tfr.losses.BernoulliNLL\(\)",
        ),
        ("mse", r"tfr.losses.GaussianNLL\(scale\)"),
        (keras.losses.MeanSquaredError(), r"tfr.losses.GaussianNLL\(scale\)"),
        ("poisson", r"tfr.losses.PoissonNLL\(\)"),
        ("mae", r"tfr.losses.StudentTNLL\(\)"),
    ],
)
def test_means_over_outputs_are_no_log_likelihood(rng, loss, instead):
    x, y = np.ones((NUM_EXAMPLES, 3)), np.ones((NUM_EXAMPLES, 2))
    model = keras.Sequential([keras.Input((3,)), dense(2)])
    model.compile("sgd", loss)
    for function in (tfr.elbo, refine):
        with pytest.raises(ValueError, match=f"mean over the 2 .*{instead}"):
            function(model, x, y)
        with pytest.raises(ValueError, match=instead):
            function(model, x, y, loss=keras.losses.get(loss))
    # Of one output, the mean is the sum.
    model = keras.Sequential([keras.Input((3,)), dense(1)])
    model.compile("sgd", loss)
    tfr.elbo(model, x, y[:, :1], seed=1)


@pytest.mark.parametrize(
    ("loss", "units"),
    [
        ("hinge", 1),
        ("huber", 1),
        ("mape", 1),
        ("msle", 1),
        ("binary_focal_crossentropy", 1),
        ("categorical_focal_crossentropy", 3),
        (keras.losses.CategoricalCrossentropy(label_smoothing=0.1), 3),
        (keras.losses.BinaryCrossentropy(label_smoothing=0.1), 1),
    ],
)
def test_losses_of_keras_that_are_no_log_likelihoods_are_refused(loss, units):
    x = np.ones((NUM_EXAMPLES, 3))
    y = np.zeros((NUM_EXAMPLES, units))
    y[:, 0] = 1.0
    model = keras.Sequential([keras.Input((3,)), dense(units)])
    model.compile("sgd", loss)
    for function in (tfr.elbo, refine):
        with pytest.raises(ValueError, match="log likelihood.*Received: loss="):
            function(model, x, y)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("multilabel", 0.5),
        ("classes", 4),
        ("ordered_classes", 1.5),
        ("counts", -1),
        ("counts", 0.5),
    ],
)
def test_impossible_targets_are_refused_before_long_work(rng, name, bad):
    model, x, y = problem(rng, name)
    y = y.astype("float32")
    y.flat[-1] = bad  # not among the first examples
    for function in (tfr.elbo, refine):
        with pytest.raises(ValueError, match=f"targets of .*Received: {bad:g}"):
            function(model, x, y)


def test_impossible_tags_are_refused_where_they_count(rng):
    tokens, tags = tokens_and_tags(rng)
    model, _ = tagger(dense(4))
    tokens[-1, 0], tags[-1, 0] = 1, 4
    with pytest.raises(ValueError, match=r"\[0, 4\).*Received: 4"):
        refine(model, tokens, tags)


def test_tokens_of_keras_losses_are_refused(rng):
    tokens, tags = tokens_and_tags(rng)
    model, _ = tagger(dense(4))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for function in (tfr.elbo, refine):
        with pytest.raises(ValueError, match="tfr.losses.CategoricalNLL"):
            function(model, tokens, np.maximum(tags, 0), loss=loss)


@pytest.mark.parametrize("y", [[0, 1, 0.5, 0], [0.0, 1.0, 2.0, 1.5]])
def test_fractional_class_numbers_are_refused(y):
    model = keras.Sequential([keras.Input((3,)), dense(3)])
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    with pytest.raises(
        ValueError, match=f"whole numbers.*{y[-2 + (y[-1] > 0)]:g}"
    ):
        tfr.elbo(model, np.ones((12, 3)), np.repeat(y, 3))


@pytest.mark.slow
def test_two_heads_have_the_sum_of_their_likelihoods(rng):
    heads = {name: dense(2, 1e-11, dtype="float64") for name in ("a", "b")}
    inputs = keras.Input((3,), dtype="float64")
    model = keras.Model(inputs, {k: head(inputs) for k, head in heads.items()})
    names = {"a": "multilabel", "b": "counts"}
    nll = {k: CASES[name][0](dtype="float64") for k, name in names.items()}
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype("float32")
    y = {
        "a": rng.integers(2, size=(NUM_EXAMPLES, 2)),
        "b": rng.integers(7, size=(NUM_EXAMPLES, 2)),
    }
    model.compile("sgd", nll)

    def loss(y_true, y_pred):
        return sum(nll[k].call(y_true[k], y_pred[k]) for k in nll)

    expected = sum(
        CASES[names[k]][3](outputs_of(head, x), y[k]).sum() - kl(head)
        for k, head in heads.items()
    )
    for given in (loss, None):
        found = tfr.elbo(model, x, y, loss=given, num_samples=2)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
