import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import ensembles
from tfp_refine import laplace
from tfp_refine import losses
from tfp_refine.functional import likelihoods

NOISES = (0.3, 1.0, 2.5)


def cases():
    yield likelihoods.Categorical(), 4
    yield likelihoods.Bernoulli(), 1
    yield likelihoods.Multilabel(), 3
    for noise in NOISES:
        yield likelihoods.Gaussian(noise), 3


every_likelihood = pytest.mark.parametrize(
    ("likelihood", "num_outputs"),
    list(cases()),
    ids=[
        "categorical",
        "bernoulli",
        "multilabel",
        *(f"gaussian-{n}" for n in NOISES),
    ],
)


def make_data(rng, likelihood, num_outputs, num=6):
    outputs = tf.constant(2 * rng.standard_normal((num, num_outputs)))
    if likelihood.kind == "regression":
        y = rng.standard_normal((num, num_outputs))
    elif likelihood.kind == "multilabel":
        y = rng.integers(2, size=(num, num_outputs))
    else:
        y = rng.integers(max(num_outputs, 2), size=num)
    return likelihood.targets(y, num_outputs), outputs


def reference(likelihood, targets, outputs):
    tfd = tfp.distributions
    if isinstance(likelihood, likelihoods.Categorical):
        return tfd.Categorical(outputs).log_prob(targets)
    if isinstance(likelihood, likelihoods.Bernoulli):
        return tfd.Bernoulli(outputs[..., 0], dtype=tf.int32).log_prob(targets)
    if isinstance(likelihood, likelihoods.Multilabel):
        labels = tfd.Bernoulli(outputs, dtype=tf.float64)
        return tf.reduce_sum(labels.log_prob(targets), axis=-1)
    noise = tf.constant(likelihood.noise_scale, outputs.dtype)
    return tfd.Independent(
        tfd.Normal(outputs, noise), reinterpreted_batch_ndims=1
    ).log_prob(targets)


@every_likelihood
def test_log_prob_is_that_of_the_distribution(likelihood, num_outputs, rng):
    targets, outputs = make_data(rng, likelihood, num_outputs)
    np.testing.assert_allclose(
        likelihood.log_prob(targets, outputs),
        reference(likelihood, targets, outputs),
        rtol=1e-12,
    )


@every_likelihood
def test_log_prob_of_many_draws_is_that_of_each(likelihood, num_outputs, rng):
    targets, outputs = make_data(rng, likelihood, num_outputs)
    many = outputs + rng.standard_normal((2, 3, 1, 1))
    found = likelihood.log_prob(targets, many)
    assert found.shape == (2, 3, 6)
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(
            found[index], reference(likelihood, targets, many[index])
        )


@pytest.mark.parametrize("logit", [-1e3, 1e3])
def test_log_prob_of_extreme_logits_is_finite(logit):
    zero = tf.zeros([1, 1], tf.float64)
    one = zero + logit
    for label in (0, 1):
        expected = -1e3 if (label == 1) == (logit < 0) else 0.0
        found = [
            likelihoods.Bernoulli().log_prob([label], one),
            likelihoods.Categorical().log_prob(
                [label], tf.concat([zero, one], 1)
            ),
        ]
        np.testing.assert_allclose(found, expected)


@pytest.mark.slow
@every_likelihood
def test_output_hessian_is_the_derivative(likelihood, num_outputs, rng):
    targets, outputs = make_data(rng, likelihood, num_outputs)
    with tf.GradientTape() as outer:
        outer.watch(outputs)
        with tf.GradientTape() as inner:
            inner.watch(outputs)
            loss = -tf.reduce_sum(likelihood.log_prob(targets, outputs))
        gradient = inner.gradient(loss, outputs)
    np.testing.assert_allclose(
        likelihood.output_hessian(outputs),
        outer.batch_jacobian(gradient, outputs),
        atol=1e-12,
    )


@every_likelihood
def test_diagonal_and_sum_are_those_of_the_hessian(
    likelihood, num_outputs, rng
):
    _, outputs = make_data(rng, likelihood, num_outputs)
    hessian = likelihood.output_hessian(outputs).numpy()
    np.testing.assert_allclose(
        likelihood.output_hessian_diagonal(outputs),
        np.diagonal(hessian, axis1=1, axis2=2),
        rtol=1e-12,
    )
    np.testing.assert_allclose(
        likelihood.output_hessian_sum(outputs), hessian.sum(axis=0), atol=1e-12
    )


@every_likelihood
def test_log_likelihood_of_the_statistic_is_the_sum(
    likelihood, num_outputs, rng
):
    targets, outputs = make_data(rng, likelihood, num_outputs)
    statistic = sum(
        likelihood.statistic(targets[rows], outputs[rows])
        for rows in (slice(0, 2), slice(2, 6))
    )
    np.testing.assert_allclose(
        likelihood.log_likelihood(statistic, outputs.numpy().size),
        tf.reduce_sum(likelihood.log_prob(targets, outputs)),
        rtol=1e-12,
    )


def test_statistic_of_gaussian_depends_on_no_noise(rng):
    targets, outputs = make_data(rng, likelihoods.Gaussian(), 3)
    found = [
        likelihoods.Gaussian(noise).statistic(targets, outputs).numpy()
        for noise in NOISES
    ]
    np.testing.assert_allclose(found, np.sum((targets - outputs) ** 2))


def test_bernoulli_is_categorical_with_a_zero_logit(rng):
    one, two = likelihoods.Bernoulli(), likelihoods.Categorical()
    targets, logit = make_data(rng, one, 1)
    logits = tf.concat([tf.zeros_like(logit), logit], axis=1)
    np.testing.assert_allclose(
        one.log_prob(targets, logit), two.log_prob(targets, logits)
    )
    np.testing.assert_allclose(one.predictions(logit), two.predictions(logits))
    np.testing.assert_allclose(
        one.output_hessian(logit)[:, 0, 0],
        two.output_hessian(logits)[:, 1, 1],
    )


@pytest.mark.parametrize(
    ("likelihood", "num_outputs", "num_classes"),
    [(likelihoods.Categorical(), 3, 3), (likelihoods.Bernoulli(), 1, 2)],
    ids=["categorical", "bernoulli"],
)
def test_labels_of_any_form_are_the_same_targets(
    likelihood, num_outputs, num_classes
):
    labels = np.array([0, 1, num_classes - 1, 0])
    for y in (
        labels,
        labels.astype(np.float32),
        labels[:, np.newaxis],
        np.eye(num_classes)[labels],
        tf.constant(labels),
        labels.tolist(),
    ):
        targets = likelihood.targets(y, num_outputs)
        assert targets.dtype == np.int32
        np.testing.assert_array_equal(targets, labels)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1, 3], "class numbers in"),
        ([0, -1, 1], "class numbers in"),
        ([0.0, 0.5, 1.0], "fractions"),
        ([0.0, np.nan, 1.0], "finite"),
        (np.zeros([3, 2]), "shape"),
        (np.zeros([3, 1, 1]), "shape"),
        (np.full([3, 3], 1 / 3), "one-hot"),
        (np.zeros([3, 3]), "one-hot"),
    ],
)
def test_bad_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        likelihoods.Categorical().targets(y, 3)


@pytest.mark.parametrize(
    "y", [[0, 1, 2], [0, 0.5, 1], np.zeros([3, 3]), np.zeros([3, 2])]
)
def test_bad_labels_of_two_classes_are_refused(y):
    with pytest.raises(ValueError, match="y_true"):
        likelihoods.Bernoulli().targets(y, 1)


def test_regression_targets_become_columns():
    for y in ([1.0, 2.0, 3.0], [[1.0], [2.0], [3.0]], [1, 2, 3]):
        targets = likelihoods.Gaussian().targets(y, 1)
        assert targets.dtype == np.float64
        np.testing.assert_array_equal(targets, [[1.0], [2.0], [3.0]])
    two = np.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(likelihoods.Gaussian().targets(two, 2), two)


@pytest.mark.parametrize(
    ("y", "num_outputs"),
    [
        (np.zeros(3), 3),
        (np.zeros([3, 2]), 1),
        (np.zeros([3, 1]), 2),
        (np.zeros([3, 1, 1]), 1),
        ([0.0, np.inf, 1.0], 1),
    ],
)
def test_bad_regression_targets_are_refused(y, num_outputs):
    with pytest.raises(ValueError, match="y_true"):
        likelihoods.Gaussian().targets(y, num_outputs)


def test_predictions_are_probabilities_or_means(rng):
    outputs = tf.constant(rng.standard_normal((2, 5, 3)))
    probs = likelihoods.Categorical().predictions(outputs).numpy()
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0)
    found = likelihoods.Gaussian(0.1).predictions(outputs)
    np.testing.assert_array_equal(found, outputs)
    pair = likelihoods.Bernoulli().predictions(outputs[..., :1]).numpy()
    assert pair.shape == (2, 5, 2)
    np.testing.assert_allclose(pair[..., 1], tf.sigmoid(outputs[..., 0]))
    np.testing.assert_allclose(pair.sum(axis=-1), 1.0)


def test_of_kind_picks_by_name_and_outputs():
    of_kind = likelihoods.of_kind
    assert of_kind("classification", 3) == likelihoods.Categorical()
    assert of_kind("classification", 1) == likelihoods.Bernoulli()
    assert of_kind("regression", 2, 0.5) == likelihoods.Gaussian(0.5)
    with pytest.raises(ValueError, match="likelihood"):
        of_kind("poisson", 1)
    for noise in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match="noise_scale"):
            of_kind("regression", 1, noise)


def compiled(loss, num_outputs):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(num_outputs)]
    )
    model.compile("sgd", loss)
    return model


@pytest.mark.parametrize(
    ("kind", "loss", "num_outputs"),
    [
        ("classification", losses.BernoulliNLL(), 3),
        ("classification", "binary_crossentropy", 3),
        ("classification", losses.OrdinalNLL(), 3),
        ("multilabel", losses.CategoricalNLL(), 3),
        ("regression", losses.CategoricalNLL(), 3),
        ("regression", losses.PoissonNLL(), 1),
        ("regression", losses.StudentTNLL(4.0, 1.0), 1),
    ],
)
def test_another_likelihood_than_that_of_the_loss_is_refused(
    kind, loss, num_outputs
):
    model = compiled(loss, num_outputs)
    with pytest.raises(ValueError, match=f"{num_outputs} outputs .*loss="):
        likelihoods.check_loss(model, kind, num_outputs)
    # Where it matters.
    x = np.ones((4, 2))
    laplace_of = laplace.LastLayerLaplace(model, kind)
    with pytest.raises(ValueError, match="was compiled with loss="):
        laplace_of.fit(x, np.eye(4, num_outputs))
    if isinstance(loss, losses.OrdinalNLL):
        with pytest.raises(ValueError, match="was compiled with loss="):
            ensembles.TemperatureScaling(model)
    elif kind == "classification":
        with pytest.raises(ValueError, match='Take "multilabel"'):
            laplace_of.fit(x, np.eye(4, num_outputs))


@pytest.mark.parametrize(
    ("kind", "loss", "num_outputs"),
    [
        ("classification", losses.CategoricalNLL(), 3),
        ("classification", losses.BernoulliNLL(), 1),
        ("classification", "sparse_categorical_crossentropy", 3),
        ("classification", "mse", 3),
        ("multilabel", losses.BernoulliNLL(), 3),
        ("multilabel", "binary_crossentropy", 3),
        ("classification", None, 3),
        ("regression", losses.GaussianNLL(), 3),
        ("regression", "mse", 1),
        ("regression", None, 1),
    ],
)
def test_the_likelihood_of_the_loss_is_taken(kind, loss, num_outputs):
    likelihoods.check_loss(compiled(loss, num_outputs), kind, num_outputs)
