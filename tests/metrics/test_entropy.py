import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats

from tfp_refine import metrics

S, N, C = 5, 60, 4


@pytest.fixture
def logits(rng):
    return rng.normal(0.0, 3.0, size=(S, N, C))


@pytest.fixture
def probs(logits):
    return scipy.special.softmax(logits, axis=-1)


ENTROPIES = [
    metrics.predictive_entropy,
    metrics.expected_entropy,
    metrics.mutual_information,
]


def test_predictive_entropy_is_that_of_the_averaged_probabilities(probs):
    averaged = probs.mean(axis=0)
    expected = scipy.stats.entropy(averaged, axis=-1)
    for values in (probs, averaged):
        entropy = metrics.predictive_entropy(values)
        assert isinstance(entropy, np.ndarray)
        assert entropy.shape == (N,)
        assert entropy.dtype == np.float64
        np.testing.assert_allclose(entropy, expected, rtol=1e-12)


def test_expected_entropy_is_the_mean_over_draws(probs):
    expected = [scipy.stats.entropy(draw, axis=-1) for draw in probs]
    entropy = metrics.expected_entropy(probs)
    assert isinstance(entropy, np.ndarray)
    np.testing.assert_allclose(entropy, np.mean(expected, axis=0), rtol=1e-12)


def test_mutual_information_is_the_mean_divergence_from_the_average(probs):
    averaged = np.broadcast_to(probs.mean(axis=0), probs.shape)
    divergence = scipy.stats.entropy(probs, averaged, axis=-1)  # [S, N]
    information = metrics.mutual_information(probs)
    assert isinstance(information, np.ndarray)
    np.testing.assert_allclose(information, divergence.mean(axis=0), rtol=1e-10)


def test_total_is_aleatoric_plus_epistemic(probs):
    np.testing.assert_allclose(
        metrics.predictive_entropy(probs),
        metrics.expected_entropy(probs) + metrics.mutual_information(probs),
        rtol=1e-12,
    )


@pytest.mark.parametrize("entropy", ENTROPIES)
def test_logits_and_tensors_give_the_same(entropy, logits, probs):
    expected = entropy(probs)
    np.testing.assert_allclose(
        entropy(logits, from_logits=True), expected, rtol=1e-10
    )
    tensor = keras.ops.convert_to_tensor(probs, dtype="float64")
    np.testing.assert_allclose(entropy(tensor), expected, rtol=1e-12)


@pytest.mark.parametrize("num_classes", [2, 10])
def test_uniform_probabilities_give_log_c(num_classes):
    uniform = np.full((3, 5, num_classes), 1.0 / num_classes)
    for entropy in (metrics.predictive_entropy, metrics.expected_entropy):
        np.testing.assert_allclose(
            entropy(uniform), [np.log(num_classes)] * 5, rtol=1e-12
        )


def test_sure_predictions_have_no_entropy():
    draws = np.stack([np.eye(3)] * 2)
    for entropy in ENTROPIES:
        np.testing.assert_array_equal(entropy(draws), np.zeros(3))


@pytest.mark.parametrize("entropy", ENTROPIES)
def test_no_entropy_is_negative_where_rounding_lifts_a_probability_above_one(
    entropy,
):
    draws = np.array([[[1.0000001, 0.0]], [[1.0, 0.0]]])
    np.testing.assert_array_equal(entropy(draws), [0.0])


@pytest.mark.parametrize("num_classes", [2, 10])
def test_sure_draws_that_all_differ_tell_log_c(num_classes):
    draws = np.eye(num_classes)[:, None, :]
    log_c = [np.log(num_classes)]
    np.testing.assert_allclose(metrics.predictive_entropy(draws), log_c)
    np.testing.assert_array_equal(metrics.expected_entropy(draws), [0.0])
    np.testing.assert_allclose(metrics.mutual_information(draws), log_c)


def test_one_draw_tells_exactly_nothing(probs):
    np.testing.assert_array_equal(
        metrics.mutual_information(probs[:1]), np.zeros(N)
    )


def test_equal_draws_tell_nothing_and_never_less(rng):
    draw = rng.dirichlet(np.ones(C), size=1000)
    information = metrics.mutual_information(np.repeat(draw[None], 7, axis=0))
    assert np.all(information >= 0.0)
    np.testing.assert_allclose(information, 0.0, atol=1e-14)


@pytest.mark.parametrize("entropy", ENTROPIES)
def test_extreme_logits_stay_finite(entropy):
    draws = np.array([[[1e4, -1e4]], [[-1e4, 1e4]]])
    expected = 0.0 if entropy is metrics.expected_entropy else np.log(2.0)
    np.testing.assert_allclose(
        entropy(draws, from_logits=True), [expected], rtol=1e-12
    )


@pytest.mark.parametrize(
    "entropy", [metrics.expected_entropy, metrics.mutual_information]
)
def test_averaged_probabilities_are_no_draw(entropy):
    with pytest.raises(ValueError, match=r"\[S, N, C\].*shape \(1, 2\)"):
        entropy([[0.5, 0.5]])
