"""Metrics of predictions."""

import types

import numpy as np
import pytest
from scipy import stats

from tfp_refine import datasets
from tfp_refine import losses
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.measures import predictions


def subject(draws, num_members, y):
    """Returns the measured draws: those of means and raw scales."""
    scaler = datasets.Standardizer(np.ones(1), np.full(1, 2.0))
    return types.SimpleNamespace(
        draws=lambda: draws,
        config=types.SimpleNamespace(num_members=num_members),
        data=dataset.Dataset(
            train=(y, y), validation=(y[:0], y[:0]), test=(y, y), scaler=scaler
        ),
    )


@pytest.mark.parametrize("num_members", [1, 3])
def test_few_draws_are_one_of_each_member(rng, num_members):
    draws, y = rng.normal(size=(6, 5, 2)), rng.normal(size=(5, 1))
    found, _ = predictions.on_test_data(subject(draws, num_members, y))
    few, _ = predictions.on_test_data(subject(draws[:num_members], 6, y))
    assert found["nll_few_draws"] == few["nll"] != found["nll"]
    assert "nll_few_draws" not in few


def test_intervals_are_those_of_the_mixture_in_original_units(rng):
    """The CDF of a mixture of Gaussians at their ends is as it should be."""
    draws, y = rng.normal(size=(4, 5, 2)), rng.normal(size=(5, 1))
    _, details = predictions.on_test_data(subject(draws, 6, y))
    found = {k: np.array(v) for k, v in details["intervals"].items()}
    loc, scale = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    for name, level in (("low", 0.025), ("high", 0.975)):
        ends = (found[name] - 1.0) / 2.0
        cdf = stats.norm.cdf(ends[:, np.newaxis], loc, scale).mean(axis=0)
        np.testing.assert_allclose(np.ravel(cdf), level, atol=1e-6)
    for name, values in (("mean", np.mean(loc, axis=0)), ("target", y)):
        np.testing.assert_allclose(found[name], 1.0 + 2.0 * np.ravel(values))
