import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import pairwise

from tfp_refine import metrics

N, M, D = 70, 90, 3


@pytest.fixture
def reference(rng):
    return rng.normal(size=(N, D))


@pytest.fixture
def samples(rng):
    return rng.normal(0.5, 1.3, size=(M, D))


def of_sklearn(reference, samples, bandwidth):
    def mean_kernel(first, second):
        return np.mean(pairwise.rbf_kernel(first, second, bandwidth**-2))

    return (
        mean_kernel(reference, reference)
        + mean_kernel(samples, samples)
        - 2.0 * mean_kernel(reference, samples)
    )


def median_distance(points):
    distances = pairwise.euclidean_distances(points)
    return np.median(distances[np.triu_indices(len(points), 1)])


# Values.


@pytest.mark.parametrize("bandwidth", [0.3, 1, 4.0])
def test_the_discrepancy_is_by_the_kernel_of_sklearn(
    reference, samples, bandwidth
):
    found = metrics.mmd(reference, samples, bandwidth)
    assert isinstance(found, float)
    expected = of_sklearn(reference, samples, bandwidth)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_median_distance_of_the_reference_is_the_bandwidth(
    reference, samples
):
    bandwidth = median_distance(reference)
    for other in (samples, 3.0 * samples + 1.0):
        expected = of_sklearn(reference, other, bandwidth)
        found = metrics.mmd(reference, other)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_of_the_paper_the_bandwidth_is_of_the_first_samples_of_both(
    reference, samples
):
    reference[50:] *= 5.0
    samples[50:] *= 5.0
    pooled = np.concatenate([reference[:50], samples[:50]])
    expected = of_sklearn(reference, samples, median_distance(pooled))
    found = metrics.mmd(reference, samples, bandwidth="paper")
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_of_two_places_the_discrepancy_is_known():
    # Two points in the same place, and one at the bandwidth from them.
    found = metrics.mmd([[0.0], [0.0]], [[2.0]], bandwidth=2.0)
    np.testing.assert_allclose(found, 2.0 - 2.0 * np.exp(-1.0), rtol=1e-14)


def test_far_apart_points_have_a_discrepancy_of_two():
    found = metrics.mmd(np.zeros([3, 2]), np.full([4, 2], 1e3), bandwidth=1.0)
    np.testing.assert_allclose(found, 2.0, rtol=1e-14)


@pytest.mark.parametrize("bandwidth", [None, 0.2, "paper"])
def test_equal_sets_have_no_discrepancy(rng, reference, bandwidth):
    assert metrics.mmd(reference, reference, bandwidth) == 0.0
    shuffled = rng.permutation(reference)
    found = metrics.mmd(reference, shuffled, bandwidth)
    np.testing.assert_allclose(found, 0.0, atol=1e-14)


def test_the_discrepancy_is_symmetric_for_a_given_bandwidth(reference, samples):
    np.testing.assert_allclose(
        metrics.mmd(reference, samples, 1.5),
        metrics.mmd(samples, reference, 1.5),
        rtol=1e-12,
    )


def test_the_discrepancy_is_never_negative(rng):
    # Rounding may make it so, of sets that are the same or almost.
    for size in range(2, 40):
        reference = rng.normal(size=(size, 2))
        samples = rng.permutation(reference)
        assert metrics.mmd(reference, samples) >= 0.0
        samples += 1e-9 * rng.normal(size=samples.shape)
        assert metrics.mmd(reference, samples) >= 0.0


@pytest.mark.parametrize(("n", "m"), [(50, 50), (50, 400), (400, 400)])
def test_of_one_distribution_the_noise_is_as_documented(rng, n, m):
    found = [
        metrics.mmd(rng.normal(size=(n, 2)), rng.normal(size=(m, 2)), 1.5)
        for _ in range(40)
    ]
    # E k(x, x) - E k(x, y), with |x - y|^2 = 4 chi^2 / 2 in two dimensions.
    expected = (1.0 - 1.0 / (1.0 + 4.0 / 1.5**2)) * (1.0 / n + 1.0 / m)
    np.testing.assert_allclose(np.mean(found), expected, rtol=0.25)


def test_another_distribution_is_above_the_noise(rng):
    reference = rng.normal(size=(400, 2))
    same, shifted, wide = (
        metrics.mmd(reference, rng.normal(loc, scale, size=(400, 2)))
        for loc, scale in ((0.0, 1.0), (0.5, 1.0), (0.0, 2.0))
    )
    assert shifted > 5.0 * same
    assert wide > 5.0 * same


@pytest.mark.parametrize("bandwidth", [None, 1.0])
def test_a_repeated_sample_may_be_given_once(rng, reference, bandwidth):
    point = rng.normal(size=(1, D))
    once = metrics.mmd(reference, point, bandwidth)
    found = metrics.mmd(reference, np.repeat(point, 9, axis=0), bandwidth)
    np.testing.assert_allclose(found, once, rtol=1e-12)


def test_scale_and_place_do_not_matter_to_the_median(reference, samples):
    expected = metrics.mmd(reference, samples)
    found = metrics.mmd(7.0 * reference + 3.0, 7.0 * samples + 3.0)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_tensors_and_lists_are_read_in_float64(reference, samples):
    reference, samples = reference.astype("float32"), samples.astype("float32")
    expected = metrics.mmd(reference.astype("float64"), samples)
    for kind in (tf.constant, np.ndarray.tolist):
        found = metrics.mmd(kind(reference), kind(samples))
        np.testing.assert_allclose(found, expected, rtol=1e-13)


# Errors.


@pytest.mark.parametrize(
    "bandwidth",
    [0.0, -1.0, np.nan, np.inf, "median", "Paper", "", [1.0], np.ones(2)],
)
def test_a_bandwidth_that_is_none_is_rejected(reference, samples, bandwidth):
    with pytest.raises(ValueError, match="`bandwidth` must be None, 'paper'"):
        metrics.mmd(reference, samples, bandwidth)


@pytest.mark.parametrize(("bandwidth", "expected"), [(1e-200, 2.0), (1e200, 0)])
def test_bandwidths_of_any_size_do(bandwidth, expected):
    found = metrics.mmd([[0.0], [0.0]], [[2.0]], bandwidth)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_reference_without_spread_has_no_bandwidth(samples):
    same = np.ones([5, D])
    with pytest.raises(ValueError, match="that it is taken from must differ"):
        metrics.mmd(same, samples)
    with pytest.raises(ValueError, match="that it is taken from must differ"):
        metrics.mmd(same, same, "paper")
    assert metrics.mmd(same, samples, 1.0) > 0.0


@pytest.mark.parametrize(
    "shapes",
    [
        [(N, D), (M, D + 1)],
        [(N, D), (M, 1)],
        [(N,), (M,)],
        [(N, D), (D,)],
        [(N,), (M, D)],
        [(2, N, D), (M, D)],
        [(N, D), (2, M, D)],
    ],
)
def test_shapes_that_do_not_fit_are_rejected(shapes):
    with pytest.raises(ValueError, match=r"shapes \[N, D\] and \[M, D\]"):
        metrics.mmd(*map(np.ones, shapes), 1.0)


@pytest.mark.parametrize("bandwidth", [None, 1.0, "paper"])
def test_one_reference_sample_is_rejected(samples, bandwidth):
    with pytest.raises(ValueError, match="must hold 2 samples or more"):
        metrics.mmd(samples[:1], samples, bandwidth)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["reference", "samples"])
def test_values_that_are_not_finite_are_rejected(
    reference, samples, name, value
):
    sets = {"reference": reference, "samples": samples}
    sets[name][3, 1] = value
    with pytest.raises(ValueError, match=f"`{name}` must be finite"):
        metrics.mmd(**sets)


@pytest.mark.parametrize("shape", [(0, D), (N, 0)])
@pytest.mark.parametrize("name", ["reference", "samples"])
def test_empty_sets_are_rejected(reference, samples, name, shape):
    sets = {"reference": reference, "samples": samples, name: np.ones(shape)}
    with pytest.raises(ValueError, match=f"`{name}` must not be empty"):
        metrics.mmd(**sets)


@pytest.mark.parametrize(
    "bandwidth", [True, 10**400, "median", [1.0]], ids=type
)
def test_other_bandwidths_are_refused(reference, samples, bandwidth):
    with pytest.raises(ValueError, match="`bandwidth` must be.*Received: band"):
        metrics.mmd(reference, samples, bandwidth)


def test_an_integer_of_any_size_is_a_bandwidth(reference, samples):
    assert metrics.mmd(reference, samples, 10**30) == 0.0
