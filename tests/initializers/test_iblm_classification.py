import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine.initializers import iblm
from tfp_refine.initializers import targets

PRIOR = {"prior_variance": 0.3, "bias_prior_variance": 2.0}
VARIANCES = [0.3] * 4 + [2.0]


@pytest.fixture
def data(rng):
    x = bayesian_linear.float32(rng.normal(size=(30, 4)))
    return x, rng.integers(3, size=30)


def initialize(model, x, y, make=initializers.IBLM, **arguments):
    make(**PRIOR, **arguments, seed=0, verbose=False)(model, x, y)
    return bayesian_linear.read(model.get_layer("linear"))


def assert_close(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-8)


def regress(x, loc, variance):
    mean, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), loc, variance, VARIANCES
    )
    return mean, bayesian_linear.inverse_diagonals(precision)


@pytest.mark.parametrize("concentration", [0.01, 0.3])
def test_each_unit_is_fitted_to_the_logit_of_its_class(concentration, data):
    x, labels = data
    found = initialize(
        bayesian_linear.dense_model(4, 3),
        x,
        labels,
        concentration=concentration,
    )
    expected = bayesian_linear.class_targets(np.eye(3)[labels], concentration)
    assert_close(found, regress(x, *expected))


def test_logits_need_not_be_centered(data):
    x, labels = data
    make = bayesian_linear.iblm(center=False)
    found = initialize(bayesian_linear.dense_model(4, 3), x, labels, make)
    alpha = np.eye(3)[labels] + 0.01
    variance = np.log1p(1.0 / alpha)
    assert_close(found, regress(x, np.log(alpha) - variance / 2.0, variance))


def test_permuted_classes_permute_the_columns(data):
    x, labels = data
    order = np.array([2, 0, 1])
    expected = initialize(bayesian_linear.dense_model(4, 3), x, labels)
    found = initialize(bayesian_linear.dense_model(4, 3), x, order[labels])
    assert_close([part[:, order] for part in found], expected)


@pytest.mark.parametrize(
    "form",
    [
        lambda labels: labels[:, np.newaxis],
        lambda labels: np.eye(3)[labels],
        lambda labels: np.eye(3, dtype=np.int64)[labels],
        lambda labels: labels.astype(np.uint8),
    ],
)
def test_labels_may_be_integers_or_one_hot(form, data):
    x, labels = data
    expected = initialize(bayesian_linear.dense_model(4, 3), x, labels)
    found = initialize(bayesian_linear.dense_model(4, 3), x, form(labels))
    assert_close(found, expected)


@pytest.mark.parametrize("source", ["loss", "task"])
def test_labels_may_be_floats_if_the_task_is_known(source, data):
    x, labels = data
    expected = initialize(bayesian_linear.dense_model(4, 3), x, labels)
    model, arguments = bayesian_linear.dense_model(4, 3), {}
    if source == "loss":
        model.compile("sgd", "sparse_categorical_crossentropy")
    else:
        arguments = {"task": "classification"}
    found = initialize(model, x, labels.astype("float32"), **arguments)
    assert_close(found, expected)


@pytest.mark.parametrize("form", ["integers", "floats", "one_hot"])
@pytest.mark.parametrize("center", [True, False])
def test_one_logit_is_that_of_one_class_against_the_other(form, center, data):
    x, labels = data
    labels = labels % 2
    y = {
        "integers": labels,
        "floats": labels.astype("float32"),
        "one_hot": np.eye(2)[labels],
    }[form]
    model = bayesian_linear.dense_model(4, 1)
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    found = initialize(model, x, y, bayesian_linear.iblm(center=center))
    alpha = np.eye(2)[labels] + 0.01
    variance = np.log1p(1.0 / alpha)
    loc = np.log(alpha) - variance / 2.0
    expected = regress(
        x, loc[:, 1:] - loc[:, :1], np.sum(variance, axis=1, keepdims=True)
    )
    assert_close(found, expected)


def test_zeros_and_ones_for_one_output_are_classes(data):
    x, labels = data
    model = bayesian_linear.dense_model(4, 1)
    found = initialize(model, x, labels % 2)
    model.compile("sgd", "binary_crossentropy")
    assert_close(found, initialize(model, x, labels % 2))


@pytest.mark.parametrize(
    ("num_outputs", "center"), [(1, True), (3, True), (3, False), (1, False)]
)
def test_hidden_targets_are_centered_class_by_class(num_outputs, center):
    labels = np.array([0] * 20 + [1] * 5 + [2] * 5) % max(num_outputs, 2)
    found = targets.of_classes(
        labels[:, None], np.ones((len(labels), 1)), num_outputs, 0.01, center
    )
    np.testing.assert_array_equal(found.hidden.variance, found.output.variance)
    means = [
        np.average(each.loc, weights=1.0 / each.variance, axis=0)
        for each in (found.hidden, found.output)
    ]
    # Classes are not equally frequent, and the output has to know.
    assert np.all(np.abs(means[1]) > 0.01)
    expected = np.zeros(num_outputs) if center else means[1]
    np.testing.assert_allclose(means[0], expected, atol=1e-12)


# Accuracy without any training.


def blobs(rng, num_classes, num=600):
    """Draws Gaussian blobs of points that lines separate."""
    angles = 2.0 * np.pi * np.arange(num_classes) / num_classes
    centers = 4.0 * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    labels = rng.integers(num_classes, size=num)
    return centers[labels] + 0.6 * rng.normal(size=(num, 2)), labels


def accuracy(model, x, labels, num_draws=8):
    """Computes that of the mean of predictive draws."""
    outputs = np.mean([model(x) for _ in range(num_draws)], axis=0)
    if outputs.shape[-1] == 1:
        return np.mean((outputs[:, 0] > 0.0) == labels)
    return np.mean(np.argmax(outputs, axis=-1) == labels)


@pytest.mark.parametrize("make", [initializers.IBLM, iblm.PaperIBLM])
@pytest.mark.parametrize("num_outputs", [1, 2])
def test_two_blobs_are_separated_by_a_line(make, num_outputs, rng):
    x, labels = blobs(rng, 2)
    model = models.MLP((2,), num_outputs, hidden=(), seed=1)
    make(seed=0, verbose=False)(model, x, labels)
    assert accuracy(model, x, labels) > 0.95


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_classes", "hidden", "seed"),
    [
        (5, (50,), 0),
        (2, (50, 50, 50), 0),
        (5, (50, 50, 50), 0),
        *(
            pytest.param(
                num_classes, (50, 50, 50), seed, marks=pytest.mark.slow
            )
            for num_classes in (2, 5)
            for seed in (1, 2)
        ),
    ],
)
def test_blobs_are_separated_by_deep_networks(num_classes, hidden, seed, rng):
    x, labels = blobs(rng, num_classes)
    model = models.MLP(
        (2,),
        num_classes,
        hidden=hidden,
        seed=seed,
        kernel_regularizer="gaussian_kl",
    )
    initializers.IBLM(seed=seed, verbose=False)(model, x, labels)
    assert accuracy(model, x, labels) > 0.9
    outputs = model(x, training=True)
    assert np.all(np.isfinite(outputs))


def test_stripes_are_told_apart_by_a_convolutional_network(rng):
    labels = rng.integers(2, size=200)
    rows = rng.normal(size=(200, 6, 1, 1))
    x = np.broadcast_to(rows, (200, 6, 6, 1))
    x = np.where(labels[:, None, None, None] == 1, x, np.swapaxes(x, 1, 2))
    x = x + 0.1 * rng.normal(size=x.shape)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            layers.Conv2DFlipout(32, 3, activation="relu", seed=1),
            keras.layers.GlobalAveragePooling2D(),
            layers.DenseFlipout(2, seed=2),
        ]
    )
    initializers.IBLM(seed=0, verbose=False)(model, x, labels)
    assert np.all(np.isfinite(model(x)))
    assert accuracy(model, x, labels) > 0.7


@pytest.mark.parametrize(
    ("num_outputs", "ours", "keras_loss"),
    [
        (
            3,
            losses.BernoulliNLL(),
            keras.losses.BinaryCrossentropy(from_logits=True),
        ),
        (
            1,
            losses.BernoulliNLL(),
            keras.losses.BinaryCrossentropy(from_logits=True),
        ),
        (
            3,
            losses.CategoricalNLL(),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        ),
    ],
)
def test_losses_of_classes_say_so(data, num_outputs, ours, keras_loss):
    x, labels = data
    y = np.asarray(labels % max(2, num_outputs), "float32")  # no integers
    if num_outputs == 3 and isinstance(ours, losses.BernoulliNLL):
        y = np.stack([labels % 2, labels > 1, labels < 2], axis=-1)
    found = []
    for loss in (ours, keras_loss):
        model = bayesian_linear.dense_model(4, num_outputs)
        model.compile("sgd", loss)
        found.append(initialize(model, x, y))
    assert_close(*found)


def test_other_likelihoods_are_refused_unless_the_task_is_given(data):
    x, labels = data
    model = bayesian_linear.dense_model(4, 1)
    model.compile("sgd", losses.PoissonNLL())
    with pytest.raises(ValueError, match=r"loss=.*PoissonNLL.*`task="):
        initialize(model, x, labels)
    initialize(model, x, np.log1p(labels), task="regression")
