import numpy as np
import pytest
from scipy import stats

from tfp_refine import datasets


@pytest.fixture
def images(rng):
    return rng.integers(0, 100, size=(50, 12, 10, 3)).astype(np.uint8)


@pytest.mark.parametrize("fraction", [0.02, 0.3])
def test_the_fraction_of_pixels_is_inverted_in_all_channels(images, fraction):
    flipped = datasets.flip_pixels(images, fraction, seed=1)
    inverted = flipped != images
    assert np.all(inverted == inverted[..., :1])
    np.testing.assert_array_equal(
        flipped[inverted], 255 - images[inverted].astype(int)
    )
    count = inverted[..., 0].sum()
    low, high = stats.binom(6000, fraction).ppf([5e-10, 1 - 5e-10])
    assert low <= count <= high
    # Not the same pixels in each image.
    assert inverted[0].tolist() != inverted[1].tolist()


def test_none_and_all_of_the_pixels(images):
    np.testing.assert_array_equal(datasets.flip_pixels(images, 0.0), images)
    everything = datasets.flip_pixels(images, 1.0)
    np.testing.assert_array_equal(everything, 255 - images)
    assert everything.dtype == np.uint8


def test_the_seed_fixes_the_pixels(images):
    one, same, other = (
        datasets.flip_pixels(images, 0.5, seed) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.any(one != other)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan"), "x", None])
def test_a_fraction_that_is_no_probability_is_refused(images, fraction):
    with pytest.raises(ValueError, match=r"`fraction` must be in \[0, 1\]"):
        datasets.flip_pixels(images, fraction)


def test_images_that_are_no_pixels_are_refused(images):
    with pytest.raises(ValueError, match="uint8"):
        datasets.flip_pixels(images.astype(np.float32), 0.1)
