import keras
import numpy as np
import pytest

from tfp_refine import posteriors
from tfp_refine import sampling
from tfp_refine.laplace import LastLayerLaplace

STEPS, CHAINS, SIZE = 1000, 4, 6


@pytest.fixture
def model(rng):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(2, activation="softmax")]
    )
    model.layers[0].set_weights(
        [rng.standard_normal((2, 2)), rng.standard_normal(2)]
    )
    return model


def make(model, theta, num_divergences=3, mean_leapfrogs=5.5):
    return sampling.WeightSamples(
        posteriors.LastLayer(model),
        posteriors.likelihoods.Categorical(),
        "softmax",
        theta,
        num_divergences,
        mean_leapfrogs,
    )


@pytest.fixture
def theta(rng):
    return rng.standard_normal((STEPS, CHAINS, SIZE))


def sorted_rows(array):
    return np.unique(np.reshape(array, (-1, array.shape[-1])), axis=0)


def test_all_are_drawn_once(model, theta):
    drawn = make(model, theta).sample(STEPS * CHAINS, seed=0)
    assert drawn.shape == (STEPS * CHAINS, SIZE)
    assert drawn.dtype == np.float64
    np.testing.assert_array_equal(sorted_rows(drawn), sorted_rows(theta))
    assert len(sorted_rows(drawn)) == STEPS * CHAINS
    # They are shuffled.
    assert (drawn[:CHAINS] != theta[0]).any()


def test_few_are_drawn_without_replacement(model, theta):
    drawn = make(model, theta[:20]).sample(60, seed=0)
    assert len(sorted_rows(drawn)) == 60


def test_more_than_there_are_begin_again(model, theta):
    drawn = make(model, theta[:5]).sample(50, seed=0)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert set(counts) == {2, 3}
    assert len(counts) == 20


def test_seeds_fix_draws(model, theta):
    samples = make(model, theta)
    one, same, other = (samples.sample(7, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert (samples.sample(7) != samples.sample(7)).any()


@pytest.mark.parametrize("number", [0, -1, 2.0, True])
def test_bad_numbers_of_draws_are_refused(model, theta, number):
    with pytest.raises(ValueError, match="num_samples"):
        make(model, theta).sample(number)


def test_predictions_are_of_the_drawn_weights(model, theta, rng):
    x = rng.standard_normal((5, 2)).astype(np.float32)
    samples = make(model, theta)
    drawn = samples.sample(9, seed=3).reshape(9, 2, 3)
    logits = np.einsum("scp,np->snc", drawn[..., :2], x)
    logits += drawn[:, np.newaxis, :, 2]
    expected = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    found = samples.predict(x, num_samples=9, seed=3)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(
        samples.predict(x, num_samples=9, seed=3, average=True),
        expected.mean(axis=0, keepdims=True),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        samples.predictive_draws(x, 9, seed=3), expected, rtol=1e-5
    )


def test_independent_draws_are_worth_their_number(model, theta):
    samples = make(model, theta)
    assert samples.r_hat.shape == samples.effective_sample_size.shape == (SIZE,)
    assert (np.abs(samples.r_hat - 1) < 5e-3).all()
    ratio = samples.effective_sample_size / (STEPS * CHAINS)
    # The relative error of the estimate is some hundredths.
    assert ((ratio > 0.8) & (ratio < 1.2)).all()


def test_float32_samples_are_compared_in_float64(model, theta):
    """A spread that is small beside the mean, as of well-known weights."""
    far = 1.0 + 1e-4 * theta
    samples = make(model, far.astype(np.float32))
    np.testing.assert_allclose(samples.r_hat, make(model, far).r_hat, rtol=1e-3)


def test_repeated_draws_are_worth_less(model, theta):
    repeated = np.repeat(theta[: STEPS // 10], 10, axis=0)
    size = make(model, repeated).effective_sample_size
    assert (size < 0.2 * STEPS * CHAINS).all()
    assert (size > 0.05 * STEPS * CHAINS).all()


def test_chains_that_disagree_are_seen(model, theta):
    theta[:, 0, 2] += 5.0
    samples = make(model, theta)
    assert samples.r_hat[2] > 1.5
    assert (np.delete(samples.r_hat, 2) < 1.01).all()
    assert samples.effective_sample_size[2] < 50


def test_chains_that_wander_are_seen(model, theta):
    """All alike, so that only the halves of each chain disagree."""
    theta[..., 1] += np.linspace(0.0, 5.0, STEPS)[:, np.newaxis]
    samples = make(model, theta)
    assert samples.r_hat[1] > 1.2
    assert samples.effective_sample_size[1] < 100


def test_halves_of_a_single_chain_are_compared(model, theta):
    one = theta[:, :1].copy()
    assert (np.abs(make(model, one).r_hat - 1) < 0.02).all()
    one[STEPS // 2 :, :, 3] += 3.0
    r_hat = make(model, one).r_hat
    assert r_hat[3] > 1.5
    assert (np.delete(r_hat, 3) < 1.02).all()


def test_saved_samples_are_loaded(model, theta, tmp_path, rng):
    samples = make(model, theta)
    path = tmp_path / "samples.npz"
    samples.save(path)
    loaded = sampling.WeightSamples.load(path, model)
    np.testing.assert_array_equal(loaded.theta, theta)
    np.testing.assert_array_equal(loaded.r_hat, samples.r_hat)
    assert loaded.num_divergences == 3
    assert loaded.mean_leapfrogs == 5.5
    assert loaded.activation == "softmax"
    assert loaded.likelihood == samples.likelihood
    x = rng.standard_normal((5, 2)).astype(np.float32)
    np.testing.assert_array_equal(
        loaded.predict(x, 6, seed=0), samples.predict(x, 6, seed=0)
    )


def test_files_of_something_else_are_refused(model, theta, tmp_path, rng):
    path = tmp_path / "samples.npz"
    make(model, theta).save(path)
    with pytest.raises(ValueError, match="WeightSamples"):
        LastLayerLaplace.load(path, model)
    laplace = LastLayerLaplace(model, "classification").fit(
        rng.standard_normal((6, 2)), np.arange(6) % 2, verbose=0
    )
    laplace.save(path)
    with pytest.raises(ValueError, match="LastLayerLaplace"):
        sampling.WeightSamples.load(path, model)


def test_samples_of_other_weights_are_refused(model, theta, tmp_path):
    path = tmp_path / "samples.npz"
    make(model, theta).save(path)
    model.layers[0].bias.assign_add([0.0, 1e-3])
    with pytest.raises(ValueError, match="other weights"):
        sampling.WeightSamples.load(path, model)


def test_path_that_cannot_be_written_is_named(model, theta, tmp_path):
    with pytest.raises(ValueError, match="path"):
        make(model, theta).save(tmp_path / "missing" / "samples.npz")


def test_draws_that_alternate_are_worth_more(model, theta):
    """A chain whose neighbours lie on opposite sides of the mean."""
    for step in range(1, STEPS):
        theta[step] -= 0.5 * theta[step - 1]
    size = make(model, theta).effective_sample_size
    # (1 + 0.5) / (1 - 0.5) times their number.
    assert (size > 2.0 * STEPS * CHAINS).all()


def test_float32_samples_count_as_the_same_in_float64(model, theta):
    single = (1.0 + 1e-4 * theta).astype(np.float32)
    found, expected = make(model, single), make(model, single.astype(float))
    for name in ("r_hat", "effective_sample_size"):
        value = getattr(found, name)
        assert value.dtype == np.float64
        np.testing.assert_array_equal(value, getattr(expected, name))
    assert found.theta.dtype == np.float32
