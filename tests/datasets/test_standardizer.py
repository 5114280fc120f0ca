import numpy as np
import pytest
from scipy import stats

from tfp_refine.datasets import Standardizer


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal([3.0, -200.0, 0.0], [0.1, 50.0, 1e4], size=(40, 3))


def test_fitted_rows_become_centered_with_unit_population_deviation(rows):
    z = Standardizer.fit(rows).transform(rows)
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.mean(z**2, axis=0), 1.0, rtol=1e-12)


def test_inverse_undoes_transform_on_rows_it_has_not_seen(rows):
    scaler = Standardizer.fit(rows[:10])
    np.testing.assert_allclose(
        scaler.inverse(scaler.transform(rows)), rows, rtol=1e-12, atol=1e-9
    )


def test_inverse_takes_draws_with_a_leading_axis(rows):
    scaler = Standardizer.fit(rows)
    draws = np.stack([np.zeros_like(rows), np.ones_like(rows)])
    original = scaler.inverse(draws)
    np.testing.assert_allclose(original[0, 5], rows.mean(axis=0))
    np.testing.assert_allclose(
        original[1] - original[0], rows.std(0) + 0 * rows
    )


@pytest.mark.parametrize("value", [0.0, 7.0, 0.1, 1e9 / 3.0])
def test_constant_column_becomes_zeros_and_keeps_unit_scale(value):
    # np.std of 23 times 0.1 is 1e-17, not 0.
    x = np.full((23, 1), value)
    scaler = Standardizer.fit(x)
    assert scaler.scale.tolist() == [1.0]
    np.testing.assert_allclose(scaler.transform(x), 0.0, atol=1e-6)
    np.testing.assert_allclose(scaler.inverse(scaler.transform(x)), x)


def test_column_whose_variance_underflows_keeps_unit_scale():
    scaler = Standardizer.fit(np.array([[0.0], [1e-200]]))
    assert scaler.scale.tolist() == [1.0]


def test_constant_column_leaves_the_others_alone(rows):
    padded = np.column_stack([rows, np.ones(len(rows))])
    np.testing.assert_array_equal(
        Standardizer.fit(padded).transform(padded)[:, :3],
        Standardizer.fit(rows).transform(rows),
    )


def test_log_likelihood_in_original_units_is_the_density_of_the_original(rows):
    scaler = Standardizer.fit(rows)
    z = scaler.transform(rows)
    standardized = stats.norm(0.2, 0.7).logpdf(z).sum(axis=1)
    original = stats.norm(
        scaler.loc + 0.2 * scaler.scale, 0.7 * scaler.scale
    ).logpdf(rows)
    np.testing.assert_allclose(
        scaler.inverse_log_likelihood(standardized),
        original.sum(axis=1),
        rtol=1e-10,
    )


def test_integers_are_fitted_in_double_precision():
    scaler = Standardizer.fit(np.array([[1], [2]], dtype=np.int8))
    assert scaler.loc.dtype == np.float64
    np.testing.assert_allclose(scaler.loc, 1.5)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(3), r"shape \[N, P\].*Received: shape \(3,\)"),
        (np.zeros((0, 3)), r"N >= 1.*Received: shape \(0, 3\)"),
        ([[1.0, 2.0], [3.0, np.nan]], r"finite.*nan at row, column \(1, 1\)"),
        ([[np.inf], [0.0]], r"finite.*inf at row, column \(0, 0\)"),
    ],
)
def test_fit_rejects(x, message):
    with pytest.raises(ValueError, match=message):
        Standardizer.fit(x)


@pytest.mark.parametrize("method", ["transform", "inverse"])
@pytest.mark.parametrize("x", [np.zeros((5, 1)), np.zeros((5, 4)), 0.0])
def test_rows_of_another_width_are_rejected(rows, method, x):
    scaler = Standardizer.fit(rows)
    with pytest.raises(ValueError, match="must have 3 columns"):
        getattr(scaler, method)(x)
