"""Posteriors of more weights than are held at once."""

import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.posteriors import protocol


@pytest.fixture
def view():
    return functional.WeightView(
        keras.Sequential(
            [
                keras.Input((2,)),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(2),
            ]
        )
    )


def gaussian(view, rng):
    size = view.size
    covariance = posteriors.covariances.LowRank(
        np.ones(size), rng.normal(size=(3, size))
    )
    loc = rng.normal(size=size)
    return posteriors.GaussianPosterior(view, loc, covariance, view.fixed())


def mixture(view, rng):
    return posteriors.MixturePosterior([gaussian(view, rng) for _ in range(3)])


def ensemble(view, rng, num_members=3, stacked=True):
    params = rng.normal(size=(num_members, view.size)).astype(np.float32)
    fixed = [np.array(value) for value in view.fixed()]
    if stacked:
        fixed = [
            rng.uniform(1.0, 2.0, size=(num_members, *value.shape))
            for value in fixed
        ]
    return posteriors.EnsemblePosterior(view, params, fixed, stacked=stacked)


def large_ensemble(view, rng):
    return ensemble(view, rng, num_members=7)


def large_ensemble_with_the_same_fixed_weights(view, rng):
    return ensemble(view, rng, num_members=7, stacked=False)


@pytest.mark.parametrize(
    "make",
    [
        gaussian,
        mixture,
        ensemble,
        large_ensemble,
        large_ensemble_with_the_same_fixed_weights,
    ],
)
def test_draws_in_parts_are_the_same(view, rng, tmp_path, monkeypatch, make):
    posterior = make(view, rng)
    x = rng.normal(size=(5, 2)).astype(np.float32)
    draws = posterior.predict(x, 10, seed=1)
    weights = posterior.sample(10, seed=1)
    monkeypatch.setattr(protocol, "MAX_NUMBERS", 4 * view.size)
    np.testing.assert_array_equal(posterior.predict(x, 10, seed=1), draws)
    np.testing.assert_array_equal(posterior.sample(10, seed=1), weights)
    posterior.export(tmp_path, 10, seed=1)
    served = tf.saved_model.load(tmp_path)
    np.testing.assert_allclose(served.serve(x), draws, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [gaussian, large_ensemble])
def test_parts_are_not_held_together(view, rng, monkeypatch, make):
    monkeypatch.setattr(protocol, "MAX_NUMBERS", 2 * view.size)
    posterior, parts, held = make(view, rng), [], []
    draw = posterior._draw

    def watched(*arguments):
        for draws in draw(*arguments):
            params = np.array(draws.params)
            parts.append(weakref.ref(params))
            held.append(sum(part() is not None for part in parts))
            yield draws._replace(params=params)

    monkeypatch.setattr(posterior, "_draw", watched)
    posterior.predict(rng.normal(size=(5, 2)), 20, seed=1)
    assert len(parts) >= 10
    assert max(held) <= 3
