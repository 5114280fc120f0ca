import keras
import numpy as np
import pytest
import sklearn.metrics

from tfp_refine import metrics


@pytest.fixture
def y_true(rng):
    return rng.normal(size=(9, 2))


@pytest.fixture
def loc(rng):
    return rng.normal(size=(4, 9, 2))


def test_error_is_that_of_the_mean_over_draws(y_true, loc):
    expected = np.sqrt(sklearn.metrics.mean_squared_error(y_true, loc.mean(0)))
    rmse = metrics.root_mean_squared_error(y_true, loc)
    assert isinstance(rmse, float)
    np.testing.assert_allclose(rmse, expected, rtol=1e-12)
    np.testing.assert_allclose(
        metrics.root_mean_squared_error(y_true, loc.mean(axis=0)),
        expected,
        rtol=1e-12,
    )


def test_draws_on_either_side_of_the_target_cancel(y_true):
    draws = np.stack([y_true + 3.0, y_true - 3.0])
    assert metrics.root_mean_squared_error(y_true, draws) < 1e-12


def test_constant_error_is_its_size_in_the_units_of_the_target(y_true):
    np.testing.assert_allclose(
        metrics.root_mean_squared_error(y_true, y_true - 0.7), 0.7, rtol=1e-12
    )
    np.testing.assert_allclose(
        metrics.root_mean_squared_error(y_true * 1e3, y_true * 1e3 + 700.0),
        700.0,
        rtol=1e-12,
    )


def test_flat_targets_are_a_column_and_never_a_table(y_true):
    column = y_true[:, :1]
    assert metrics.root_mean_squared_error(column[:, 0], column) == 0.0


def test_single_precision_tensors_are_averaged_in_double():
    y_true = np.zeros((1, 1), np.float32)
    draws = np.array([[[1e8]], [[1.0]], [[-1e8]]], np.float32)
    rmse = metrics.root_mean_squared_error(
        keras.ops.convert_to_tensor(y_true), keras.ops.convert_to_tensor(draws)
    )
    np.testing.assert_allclose(rmse, 1.0 / 3.0, rtol=1e-7)


@pytest.mark.parametrize(
    ("y_true", "loc", "message"),
    [
        (np.zeros(3), np.zeros(3), r"`loc` must have 3 axes.*\(3,\)"),
        (np.zeros(3), np.zeros((4, 1)), r"shape \(4, 1\).*shape \(3,\)"),
        (np.zeros(4), np.zeros((4, 2)), r"shape \(4, 2\).*shape \(4,\)"),
        (np.zeros((1, 4)), np.zeros((4, 1)), r"shape \(4, 1\).*\(1, 4\)"),
        (np.zeros((2, 4, 1)), np.zeros((2, 4, 1)), r"\(4, 1\).*\(2, 4, 1\)"),
        (0.0, np.zeros((1, 1)), r"shape \(1, 1\).*shape \(\)"),
        ([np.nan], np.zeros((1, 1)), "`y_true` must be finite"),
        ([0.0], [[np.inf]], "`loc` must be finite"),
        (np.zeros((0, 1)), np.zeros((0, 1)), "must not be empty"),
    ],
)
def test_root_mean_squared_error_rejects(y_true, loc, message):
    with pytest.raises(ValueError, match=message):
        metrics.root_mean_squared_error(y_true, loc)


def test_the_error_of_large_numbers_is_finite():
    y = np.full((2, 1), 1e300)
    assert metrics.root_mean_squared_error(y, -y) == 2e300


def test_the_score_of_tiny_scales_is_the_absolute_error():
    y, loc = np.zeros((2, 1)), np.full((2, 1), 3.0)
    np.testing.assert_allclose(metrics.crps(y, loc, 1e-300), 3.0)
    np.testing.assert_array_equal(metrics.predictive_cdf(y, loc, 1e-300), 0.0)
