import keras
import numpy as np
import pytest

from tfp_refine import functional
from tfp_refine import posteriors

STEPS, CHAINS = 100, 4


@pytest.fixture
def view():
    return functional.WeightView(
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    )


@pytest.fixture
def samples(rng):
    return rng.standard_normal((STEPS, CHAINS, 6)).astype(np.float32)


def make(view, samples):
    return posteriors.SamplePosterior(view, samples, view.fixed())


def sorted_rows(array):
    return np.unique(np.reshape(array, (-1, array.shape[-1])), axis=0)


def test_all_are_drawn_once(view, samples):
    drawn = make(view, samples).sample(STEPS * CHAINS, seed=0)
    assert drawn.shape == (STEPS * CHAINS, 6)
    np.testing.assert_array_equal(sorted_rows(drawn), sorted_rows(samples))
    assert len(sorted_rows(drawn)) == STEPS * CHAINS
    # They are shuffled.
    assert (drawn[:CHAINS] != samples[0]).any()


def test_few_are_drawn_without_replacement(view, samples):
    drawn = make(view, samples[:20]).sample(60, seed=0)
    assert len(sorted_rows(drawn)) == 60


def test_more_than_there_are_begin_again(view, samples):
    drawn = make(view, samples[:5]).sample(50, seed=0)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert set(counts) == {2, 3}
    assert len(counts) == 20


def test_predictions_are_of_the_drawn_weights(view, samples, rng):
    x = rng.standard_normal((5, 2)).astype(np.float32)
    posterior = make(view, samples)
    drawn = posterior.sample(9, seed=3)
    kernels, biases = drawn[:, :4].reshape(9, 2, 2), drawn[:, np.newaxis, 4:]
    np.testing.assert_allclose(
        posterior.predict(x, 9, seed=3), x @ kernels + biases, rtol=1e-4,
        atol=1e-5,
    )  # fmt: skip
