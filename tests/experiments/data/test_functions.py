"""Noisy values of functions of one variable."""

import numpy as np
import pytest

from tests.support import statistics
from tfp_refine.experiments.data import functions


def _load(num_points=50, seed=0):
    return functions.load(
        np.square, num_points, seed, reach=2.0, noise=0.5, end=3.0
    )


def test_inputs_and_targets_can_be_scaled_back():
    data = _load()
    x, y = data.train
    np.testing.assert_allclose(data.scaler.inverse(y)[:, 0], data.y, rtol=1e-5)
    np.testing.assert_allclose(x[:, 0] * 2.0 / 3**0.5, data.x, rtol=1e-5)
    np.testing.assert_allclose(data.truth, data.grid**2)
    np.testing.assert_allclose(
        data.grid_inputs[[0, -1], 0], [-(27**0.5) / 2, 27**0.5 / 2], rtol=1e-6
    )
    assert np.max(np.abs(data.x)) <= 2.0
    assert not len(data.validation[1])
    assert data.is_regression


def test_targets_have_unit_variance_and_known_noise():
    data = _load(20000)
    y = data.train[1][:, 0].astype(np.float64)
    # x**2 of uniform x has the variance 16 * 4 / 45, the noise 0.25.
    (scale,) = functions.scale_of(np.square, 2.0, 0.5)
    assert scale == pytest.approx(np.sqrt(64 / 45 + 0.25), rel=1e-3)
    assert data.scaler.scale[0] == scale
    statistics.assert_mean(y, 0.0, 1.0, resolves=0.1, fpr=1e-6, fnr=1e-6)
    noise = data.y - data.x**2
    statistics.assert_mean(noise, 0.0, 0.5, resolves=0.1, fpr=1e-6, fnr=1e-6)
    statistics.assert_mean(
        noise**2, 0.25, 0.25 * 2**0.5, resolves=0.05, fpr=1e-6, fnr=1e-6
    )


def test_seeds_fix_the_data():
    assert _load().digest == _load().digest != _load(seed=1).digest
