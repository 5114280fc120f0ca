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
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    )


def gaussian(view, rng):
    size = view.size
    covariance = posteriors.covariances.LowRank(
        np.ones(size), rng.normal(size=(3, size))
    )
    loc = rng.normal(size=size)
    return posteriors.GaussianPosterior(view, loc, covariance, view.fixed())


@pytest.mark.parametrize("num_members", [None, 3])
def test_draws_in_parts_are_the_same(
    view, rng, tmp_path, monkeypatch, num_members
):
    posterior = gaussian(view, rng)
    if num_members is not None:
        posterior = posteriors.MixturePosterior(
            [gaussian(view, rng) for _ in range(num_members)]
        )
    x = rng.normal(size=(5, 2)).astype(np.float32)
    draws = posterior.predict(x, 10, seed=1)
    weights = posterior.sample(10, seed=1)
    monkeypatch.setattr(protocol, "MAX_NUMBERS", 4 * view.size)
    np.testing.assert_array_equal(posterior.predict(x, 10, seed=1), draws)
    np.testing.assert_array_equal(posterior.sample(10, seed=1), weights)
    posterior.export(tmp_path, 10, seed=1)
    served = tf.saved_model.load(tmp_path)
    np.testing.assert_allclose(served.serve(x), draws, rtol=1e-4, atol=1e-6)


def test_parts_are_not_held_together(view, rng, monkeypatch):
    monkeypatch.setattr(protocol, "MAX_NUMBERS", 2 * view.size)
    posterior, parts, held = gaussian(view, rng), [], []
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
