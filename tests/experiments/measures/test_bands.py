"""Predictions of a function of one variable."""

import types

import numpy as np
import pytest

from tfp_refine.experiments.data import functions
from tfp_refine.experiments.measures import bands
from tfp_refine.math import softplus


@pytest.fixture
def data():
    return functions.load(np.sin, 30, 0, reach=2.0, noise=0.5, end=3.0)


def _draws(data, offsets):
    """Returns draws that are off the truth by so many units."""
    loc = data.scaler.transform(
        (data.truth + np.asarray(offsets)[:, np.newaxis])[..., np.newaxis]
    )
    raw = softplus.inverse_of_float(0.5 / data.scaler.scale[0])
    return np.concatenate([loc, np.full_like(loc, raw)], axis=-1)


def test_predictions_are_in_original_units(data):
    band, rmse = bands.predict(_draws(data, [1.0, 3.0]), data)
    np.testing.assert_allclose(band["mean"], data.truth + 2.0, rtol=1e-5)
    # The variance of 1 and 3, and that of the noise.
    np.testing.assert_allclose(band["scale"], np.sqrt(1.0 + 0.25), rtol=1e-5)
    assert rmse == pytest.approx(2.0, rel=1e-5)


def test_the_ends_are_apart_from_the_data(data):
    draws = _draws(data, [-1.0, 1.0])
    far = np.abs(data.grid) > data.reach
    middle = data.scaler.transform(data.truth[:, np.newaxis])
    draws[:, ~far, :1] = middle[~far]
    subject = types.SimpleNamespace(
        data=data, draws=lambda x: draws if x is data.grid_inputs else None
    )
    found, details = bands.measure(subject)
    assert found["rmse_at_data"] == pytest.approx(0.0, abs=1e-6)
    assert found["scale_at_data"] == pytest.approx(0.5, rel=1e-5)
    assert found["scale_far"] == pytest.approx(np.sqrt(1.25), rel=1e-5)
    assert len(details["bands"]["mean"]) == len(data.grid)
