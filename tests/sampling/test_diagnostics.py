"""R-hat and effective sample sizes, from the formulas of Vehtari et al."""

import numpy as np
import pytest
import scipy.stats

from tfp_refine import sampling

STEPS, CHAINS, SIZE = 1000, 4, 6


def halves_of(chains):
    """Returns the halves of chains `[T, chains]`, a list of vectors."""
    half = len(chains) // 2
    return [part for c in chains.T for part in (c[:half], c[len(c) - half :])]


def plain_r_hat(parts):
    """Eqs. 1 to 4, for chains that are split already."""
    count, length = len(parts), len(parts[0])
    means = [sum(part) / length for part in parts]
    grand = sum(means) / count
    between = length / (count - 1) * sum((m - grand) ** 2 for m in means)
    within = 0.0
    for part, mean in zip(parts, means, strict=True):
        within += sum((part - mean) ** 2) / (length - 1) / count
    variance = (length - 1) / length * within + between / length
    return np.sqrt(variance / within)


def normal_scores(parts):
    """Eq. 14, in which ranks of equal values are averaged."""
    values = np.concatenate(parts)
    ranks = np.array(
        [np.sum(values < v) + (np.sum(values == v) + 1) / 2 for v in values]
    )
    scores = scipy.stats.norm.ppf((ranks - 3 / 8) / (len(values) + 1 / 4))
    return np.split(scores, len(parts))


def reference_r_hat(chains):
    parts = halves_of(chains)
    median = np.median(np.concatenate(parts))
    folded = [np.abs(part - median) for part in parts]
    return max(plain_r_hat(normal_scores(p)) for p in (parts, folded))


def reference_size(chains):
    """Eqs. 10 to 13, with Geyer's initial monotone sequence."""
    parts = np.array(halves_of(chains))
    count, length = parts.shape
    centered = parts - parts.mean(axis=1, keepdims=True)
    lagged = [
        np.mean([np.dot(c[: length - lag], c[lag:]) / length for c in centered])
        for lag in range(length)
    ]
    within = lagged[0] * length / (length - 1)
    variance = lagged[0] + np.var(parts.mean(axis=1), ddof=1)
    rho = [1.0] + [1.0 - (within - value) / variance for value in lagged[1:]]
    time, before, lag = -1.0, np.inf, 0
    while True:
        even, odd = rho[lag], rho[lag + 1]
        if even + odd <= 0.0 or lag + 4 >= length:
            time += max(even, 0.0)
            break
        before = min(before, even + odd)
        time += 2.0 * before
        lag += 2
    total = count * length
    return total / max(time, 1.0 / np.log10(total))


def autoregressive(rng, steps, chains, coefficients):
    samples = rng.standard_normal((steps, chains, len(coefficients)))
    for step in range(1, steps):
        samples[step] += coefficients * samples[step - 1]
    return samples


@pytest.mark.parametrize(
    ("steps", "chains"), [(200, 4), (101, 3), (60, 1), (9, 2), (4, 2)]
)
def test_both_are_those_of_the_paper(rng, steps, chains):
    samples = autoregressive(
        rng, steps, chains, np.array([-0.7, 0.0, 0.5, 0.95])
    )
    samples[:, 0] += [0.0, 0.3, 0.0, 1.0]
    samples[..., 1] = np.round(samples[..., 1])  # equal ranks
    r_hat = sampling.r_hat(samples)
    size = sampling.effective_sample_size(samples)
    assert r_hat.dtype == size.dtype == np.float64
    for index in range(4):
        np.testing.assert_allclose(
            r_hat[index], reference_r_hat(samples[..., index]), rtol=1e-10
        )
        np.testing.assert_allclose(
            size[index], reference_size(samples[..., index]), rtol=1e-10
        )


def test_quantities_keep_their_shape_whatever_is_computed_at_once(
    rng, monkeypatch
):
    samples = rng.standard_normal((20, 2, 3, 5))
    together = [
        f(samples) for f in (sampling.r_hat, sampling.effective_sample_size)
    ]
    monkeypatch.setattr("tfp_refine.sampling.diagnostics._MAX_NUMBERS", 100)
    for function, expected in zip(
        (sampling.r_hat, sampling.effective_sample_size), together, strict=True
    ):
        assert expected.shape == (3, 5)
        np.testing.assert_array_equal(function(samples), expected)
        np.testing.assert_array_equal(
            function(samples[..., 1, 2]), expected[1, 2]
        )


@pytest.fixture
def samples(rng):
    return rng.standard_normal((STEPS, CHAINS, SIZE))


def test_independent_draws_are_worth_their_number(samples):
    assert (np.abs(sampling.r_hat(samples) - 1) < 5e-3).all()
    ratio = sampling.effective_sample_size(samples) / (STEPS * CHAINS)
    # The relative error of the estimate is some hundredths.
    assert ((ratio > 0.8) & (ratio < 1.2)).all()


def test_autocorrelated_draws_are_worth_what_theory_says(rng):
    coefficients = np.array([-0.5, 0.5, 0.8])
    samples = autoregressive(rng, 20000, CHAINS, coefficients)
    ratio = sampling.effective_sample_size(samples) / (20000 * CHAINS)
    # The relative error of the estimate is some hundredths.
    np.testing.assert_allclose(
        ratio, (1 - coefficients) / (1 + coefficients), rtol=0.2
    )


def test_chains_that_disagree_are_seen(samples):
    samples[:, 0, 2] += 5.0
    r_hat = sampling.r_hat(samples)
    assert r_hat[2] > 1.3
    assert (np.delete(r_hat, 2) < 1.01).all()
    assert sampling.effective_sample_size(samples)[2] < 50


def test_chains_of_other_spreads_are_seen(samples):
    """Chains with equal means and different variances."""
    samples[:, 0, 2] *= 5.0
    r_hat = sampling.r_hat(samples)
    assert r_hat[2] > 1.05
    assert (np.delete(r_hat, 2) < 1.01).all()


def test_heavy_tails_do_not_hide_chains_that_disagree(rng):
    samples = rng.standard_cauchy((STEPS, CHAINS))
    samples[:, 0] += 3.0
    assert sampling.r_hat(samples) > 1.1


def test_chains_that_wander_are_seen(samples):
    """All alike, so that only the halves of each chain disagree."""
    samples[..., 1] += np.linspace(0.0, 5.0, STEPS)[:, np.newaxis]
    assert sampling.r_hat(samples)[1] > 1.2
    assert sampling.effective_sample_size(samples)[1] < 100


def test_halves_of_a_single_chain_are_compared(samples):
    one = samples[:, :1].copy()
    assert (np.abs(sampling.r_hat(one) - 1) < 0.02).all()
    one[STEPS // 2 :, :, 3] += 3.0
    r_hat = sampling.r_hat(one)
    assert r_hat[3] > 1.5
    assert (np.delete(r_hat, 3) < 1.02).all()


def test_float32_samples_count_as_the_same_in_float64(samples):
    """A spread that is small beside the mean, as of well-known weights."""
    far = 1.0 + 1e-4 * samples
    single = far.astype(np.float32)
    for function in (sampling.r_hat, sampling.effective_sample_size):
        np.testing.assert_array_equal(
            function(single), function(single.astype(float))
        )
        np.testing.assert_allclose(function(single), function(far), rtol=1e-2)


def test_chains_that_never_move_have_neither():
    samples = np.ones((10, 2, 3))
    assert np.isnan(sampling.r_hat(samples)).all()
    assert np.isnan(sampling.effective_sample_size(samples)).all()


@pytest.mark.parametrize("shape", [(3, 2), (10,), (0, 2)])
def test_too_few_samples_are_refused(shape):
    for function in (sampling.r_hat, sampling.effective_sample_size):
        with pytest.raises(ValueError, match=r"`samples` must be \[T, chains"):
            function(np.zeros(shape))
