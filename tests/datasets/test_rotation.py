import numpy as np
import pytest
import scipy.ndimage

from tfp_refine.datasets import rotate_images

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("side", [7, 8])
@pytest.mark.parametrize("quarters", [0, 1, 2, 3, 4, -1, 5])
def test_quarter_turns_move_pixels_counterclockwise(side, quarters, channels):
    images = RNG.integers(0, 256, (3, side, side, channels), dtype=np.uint8)
    np.testing.assert_array_equal(
        rotate_images(images, 90 * quarters),
        np.rot90(images, quarters, axes=(1, 2)),
    )


def test_no_turn_gives_a_copy():
    images = RNG.integers(0, 256, (3, 7, 5, 1), dtype=np.uint8)
    rotated = rotate_images(images, 0.0)
    np.testing.assert_array_equal(rotated, images)
    assert not np.shares_memory(rotated, images)


def test_pixels_are_linear_interpolations_rounded_to_the_nearest():
    images = RNG.integers(0, 256, (2, 9, 9, 1), dtype=np.uint8)
    radians = np.deg2rad(25.0)
    y, x = np.mgrid[-4:5, -4:5]
    source = np.stack(
        [
            np.cos(radians) * y + np.sin(radians) * x + 4.0,
            -np.sin(radians) * y + np.cos(radians) * x + 4.0,
        ]
    )
    for image, rotated in zip(images, rotate_images(images, 25.0), strict=True):
        expected = scipy.ndimage.map_coordinates(
            image[..., 0].astype(float), source, order=1
        )
        np.testing.assert_allclose(rotated[..., 0], expected, atol=0.5 + 1e-6)


def test_corners_of_a_turned_image_are_black_and_the_size_stays():
    images = np.full((1, 20, 30, 1), 255, np.uint8)
    rotated = rotate_images(images, 45.0)
    assert rotated.shape == images.shape
    assert rotated.dtype == np.uint8
    assert np.all(rotated[0, [0, 0, -1, -1], [0, -1, 0, -1]] == 0)
    assert rotated[0, 10, 15, 0] == 255


def test_images_are_turned_one_by_one():
    images = RNG.integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
    np.testing.assert_array_equal(
        rotate_images(images, 10.0)[1:2], rotate_images(images[1:2], 10.0)
    )


@pytest.mark.parametrize(
    ("images", "degrees", "message"),
    [
        (np.zeros((2, 8, 8, 1)), 10, "uint8.*float64"),
        (np.zeros((2, 8, 8), np.uint8), 10, r"\[N, H, W, C\].*\(2, 8, 8\)"),
        (np.zeros((2, 8, 8, 1), np.uint8), np.inf, "degrees=inf"),
        (np.zeros((2, 8, 8, 1), np.uint8), "90", "degrees='90'"),
        (np.zeros((2, 8, 8, 1), np.uint8), True, "degrees=True"),
    ],
)
def test_rejects(images, degrees, message):
    with pytest.raises(ValueError, match=message):
        rotate_images(images, degrees)
