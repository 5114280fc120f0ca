import numpy as np
import pytest
from scipy import stats

from tests.support.statistics import assert_mean
from tests.support.statistics import assert_variance

NUM_TRIALS = 2000


def count_alarms(check, num_trials=NUM_TRIALS):
    """Counts in how many trials `check()` raises an `AssertionError`."""
    alarms = 0
    for _ in range(num_trials):
        try:
            check()
        except AssertionError:
            alarms += 1
    return alarms


def assert_rate(alarms, rate, num_trials=NUM_TRIALS):
    """Asserts that a count is binomial, wrong once in a million times."""
    low, high = stats.binom(num_trials, rate).interval(1 - 1e-6)
    assert low <= alarms <= high, (low, alarms, high)


@pytest.mark.slow
@pytest.mark.parametrize("fpr", [0.05, 0.2])
@pytest.mark.parametrize("stddev", [2.0, None])
def test_mean_alarms_falsely_at_the_stated_rate(rng, fpr, stddev):
    def check():
        draws = rng.normal(3.0, 2.0, [5, 4])
        assert_mean(draws, 3.0, stddev, resolves=99.0, fpr=fpr, fnr=0.5)

    assert_rate(count_alarms(check), 1 - (1 - fpr / 4) ** 4)


def test_mean_off_by_what_it_resolves_goes_unseen_at_the_stated_rate(rng):
    num, fpr, fnr = 50, 0.01, 0.1
    z = stats.norm.isf(fpr / 2) + stats.norm.isf(fnr)
    resolves = z / np.sqrt(num) + 1e-9

    def check():
        draws = rng.normal(resolves, 1.0, num)
        assert_mean(draws, 0.0, 1.0, resolves=resolves, fpr=fpr, fnr=fnr)

    assert_rate(count_alarms(check), 1 - fnr)


@pytest.mark.parametrize("stddev", [1.0, None])
def test_mean_refuses_too_few_draws_and_accepts_as_many_as_it_asks_for(
    rng, stddev
):
    with pytest.raises(ValueError, match=r"too few.*take about \d+") as error:
        assert_mean(rng.normal(size=200), 0.0, stddev, resolves=0.2)
    enough = int(1.1 * int(str(error.value).rstrip(".").split()[-1]))
    assert_mean(rng.normal(size=enough), 0.0, stddev, resolves=0.2)


def test_mean_names_the_element_that_is_off(rng):
    draws = rng.normal(size=[500, 2, 3])
    draws[:, 1, 2] += 1.0
    with pytest.raises(AssertionError, match=r"1 of 6 elements. At \(1, 2\)"):
        assert_mean(draws, np.zeros([2, 3]), 1.0, resolves=0.7)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_draw_that_is_not_finite_is_an_alarm(rng, bad):
    draws = rng.normal(size=[1000, 2])
    draws[3, 1] = bad
    with pytest.raises(AssertionError, match=r"At \(1,\)"):
        assert_mean(draws, 0.0, 1.0, resolves=0.5)
    with (
        np.errstate(invalid="ignore"),
        pytest.raises(AssertionError, match=r"At \(1,\)"),
    ):
        assert_variance(draws, 1.0, resolves_ratio=2.0)


def test_mean_refuses_draws_that_do_not_vary():
    with pytest.raises(ValueError, match="`stddev` must be positive"):
        assert_mean(np.ones(100), 1.0, resolves=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("fpr", [0.05, 0.2])
def test_variance_alarms_falsely_at_the_stated_rate(rng, fpr):
    def check():
        draws = rng.normal(3.0, 2.0, [5, 4])
        assert_variance(draws, 4.0, resolves_ratio=1e3, fpr=fpr, fnr=0.5)

    assert_rate(count_alarms(check), 1 - (1 - fpr / 4) ** 4)


@pytest.mark.parametrize("tail", [0.01, 0.99])
def test_variance_alarms_at_the_quantiles_of_an_unbiased_estimate(tail):
    # Two draws: their unbiased variance, 2, over the true one is chi2(1).
    edge = 2.0 / stats.chi2.ppf(tail, 1)
    outwards = 1.001 if tail < 0.5 else 0.999
    options = {"resolves_ratio": 1e9, "fpr": 0.02, "fnr": 0.5}
    assert_variance([-1.0, 1.0], edge / outwards, **options)
    with pytest.raises(AssertionError, match="variance is off"):
        assert_variance([-1.0, 1.0], edge * outwards, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "kurtosis"),
    [
        (lambda rng, size: rng.laplace(0.0, np.sqrt(0.5), size), 6.0),
        (lambda rng, size: rng.uniform(-np.sqrt(3), np.sqrt(3), size), 1.8),
    ],
)
def test_kurtosis_corrects_the_rate_of_false_alarms(rng, draw, kurtosis):
    def alarms(stated_kurtosis):
        return count_alarms(
            lambda: assert_variance(
                draw(rng, 400),
                1.0,
                resolves_ratio=3.0,
                fpr=0.05,
                fnr=0.5,
                kurtosis=stated_kurtosis,
            )
        )

    # The chi-square matches two moments only: near 0.05, not at it.
    assert 0.03 < alarms(kurtosis) / NUM_TRIALS < 0.07
    assert not 0.03 < alarms(3.0) / NUM_TRIALS < 0.07


@pytest.mark.parametrize("ratio", [1.5, 1 / 1.5])
def test_variance_off_by_what_it_resolves_is_seen(rng, ratio):
    draws = rng.normal(0.0, np.sqrt(ratio), [3000, 2])
    assert_variance(draws, ratio, resolves_ratio=1.5)
    with pytest.raises(AssertionError, match="2 of 2 elements"):
        assert_variance(draws, 1.0, resolves_ratio=1.5)


@pytest.mark.parametrize("kurtosis", [3.0, 6.0])
def test_variance_refuses_exactly_when_the_error_goes_unseen_too_often(
    rng, kurtosis
):
    def accepts(num):
        try:
            assert_variance(
                rng.normal(size=num),
                1.0,
                resolves_ratio=1.5,
                kurtosis=kurtosis,
            )
        except ValueError as error:
            assert "too few" in str(error)  # noqa: PT017
            return False
        return True

    # z-scores of both tails, about (6.1 + 6.0) * sqrt((kurtosis - 1) / S),
    # reach the log of the ratio.
    num = (kurtosis - 1) * (12.1 / np.log(1.5)) ** 2
    assert not accepts(int(0.9 * num))
    assert accepts(int(1.1 * num))


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: assert_mean(1.0, 1.0, resolves=1.0), "at least 2 draws"),
        (lambda: assert_mean([[], []], 1.0, resolves=1.0), "at least one"),
        (
            lambda: assert_mean(np.ones([9, 3]), np.ones([2, 3]), resolves=1.0),
            "`expected` must broadcast to the shape of one draw",
        ),
        (
            lambda: assert_mean(np.ones([9, 3]), 1.0, np.ones(4), resolves=1.0),
            "`stddev` must broadcast",
        ),
        (
            lambda: assert_mean(np.ones([9, 3]), 1.0, 1.0, resolves=0.0),
            "`resolves` must be positive",
        ),
        (
            lambda: assert_variance(np.ones(9), 0.0, resolves_ratio=2.0),
            "`expected` must be positive",
        ),
        (
            lambda: assert_variance(np.ones(9), 1.0, resolves_ratio=0.5),
            "`resolves_ratio` must exceed 1",
        ),
    ],
)
def test_bad_input_is_refused(check, message):
    with pytest.raises(ValueError, match=message):
        check()
