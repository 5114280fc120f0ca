import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine.functional import seeds


def test_keys_are_fixed_by_seed_and_path_alone():
    assert seeds.key(3, 1, 4) == seeds.key(3, 1, 4)
    paths = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (2, 5), (5, 2)]
    keys = [seeds.key(seed, *path) for seed in range(50) for path in paths]
    assert len(set(keys)) == len(keys)
    # A seed of two words is not a seed and a path.
    assert seeds.key(2**32 + 5) != seeds.key(5, 1)
    assert all(0 <= key < 2**31 - 2 for key in keys)
    # Spread over the whole range, not only over the low bits.
    assert np.ptp(keys) > 0.9 * 2**31


def test_a_fresh_seed_differs_each_time():
    assert seeds.check(None) != seeds.check(None)
    assert isinstance(seeds.check(None), int)


def test_a_given_seed_is_kept():
    assert seeds.check(0) == 0
    assert seeds.check(np.int64(7)) == 7
    assert type(seeds.check(np.int64(7))) is int


@pytest.mark.parametrize("seed", ["1", 1.0, True, [1], np.array([1])])
def test_a_seed_must_be_an_integer(seed):
    with pytest.raises(ValueError, match="must be a non-negative integer"):
        seeds.check(seed)


def test_a_seed_must_not_be_negative():
    with pytest.raises(ValueError, match="must not be negative.*seed=-1"):
        seeds.check(-1)


@pytest.fixture
def model():
    posterior = layers.MeanFieldPosterior(1.0)
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.DenseFlipout(3, kernel_posterior=posterior, seed=1),
            layers.DenseFlipout(3, kernel_posterior=posterior, seed=1),
            keras.layers.Dropout(0.5, seed=1),
        ]
    )


def test_only_generators_are_taken_for_generators(model):
    states = [v for v in model.variables if seeds.is_generator_state(v)]
    assert [tuple(v.shape) for v in states] == [(2,)] * 3
    assert not any(seeds.is_generator_state(w) for w in model.weights)


def test_reseeding_repeats_and_seeds_differ(model):
    x = np.ones([4, 3], "float32")

    def draw(seed):
        seeds.reseed(model, seed)
        return np.asarray(model(x, training=True))

    np.testing.assert_array_equal(draw(5), draw(5))
    assert not np.allclose(draw(5), draw(6))
    # Generators that began with one seed go their own ways.
    states = [
        np.asarray(v) for v in model.variables if seeds.is_generator_state(v)
    ]
    assert len({int(state[0]) for state in states}) == 3
