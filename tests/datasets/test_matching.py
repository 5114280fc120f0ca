import numpy as np
import pytest

from tfp_refine.datasets import match_images
from tfp_refine.datasets import matching

RNG = np.random.default_rng(0)
RGB = RNG.integers(0, 256, (5, 8, 6, 3), dtype=np.uint8)
GRAY = RGB[..., :1]


@pytest.mark.parametrize("images", [RGB, GRAY])
def test_equal_shapes_keep_every_value_in_a_copy(images):
    matched = match_images(images, images.shape[1:])
    np.testing.assert_array_equal(matched, images)
    assert not np.shares_memory(matched, images)


def test_gray_becomes_rgb_and_back():
    rgb = match_images(GRAY, (8, 6, 3))
    for channel in range(3):
        np.testing.assert_array_equal(rgb[..., channel], GRAY[..., 0])
    np.testing.assert_array_equal(match_images(rgb, (8, 6, 1)), GRAY)


def test_gray_of_primary_colors_is_their_luma():
    primaries = np.zeros((3, 1, 1, 3), np.uint8)
    primaries[range(3), 0, 0, range(3)] = 255
    gray = match_images(primaries, (1, 1, 1))
    np.testing.assert_array_equal(
        gray.ravel(), np.rint([0.299 * 255, 0.587 * 255, 0.114 * 255])
    )


@pytest.mark.parametrize("shape", [(4, 3, 3), (16, 12, 1), (5, 11, 3)])
def test_flat_images_stay_flat(shape):
    flat = np.full((2, 8, 6, 1), 255, np.uint8)
    matched = match_images(flat, shape)
    assert matched.shape == (2, *shape)
    assert matched.dtype == np.uint8
    assert np.all(matched == 255)


def test_linear_ramp_stays_linear_when_enlarged():
    ramp = np.broadcast_to(
        np.arange(0, 250, 10, dtype=np.uint8)[:, None, None], (1, 25, 4, 1)
    )
    column = match_images(ramp, (50, 8, 1))[0, :, 0, 0]
    # Centers of pixels: half a new pixel is a quarter of an old one.
    expected = 10.0 * ((np.arange(50) + 0.5) / 2.0 - 0.5)
    np.testing.assert_allclose(column[1:-1], expected[1:-1], atol=0.51)


def test_shrinking_averages_instead_of_leaving_out():
    # Lines of one pixel in four: without antialiasing none would remain, as
    # new centers lie between the two pixels in the middle.
    lines = np.zeros((1, 32, 32, 1), np.uint8)
    lines[:, ::4] = 200
    shrunk = match_images(lines, (8, 8, 1))
    np.testing.assert_allclose(shrunk[0, 1:-1], 50.0, atol=8.0)


def test_many_images_are_matched_one_by_one(monkeypatch):
    whole = match_images(RGB, (10, 9, 1))
    monkeypatch.setattr(matching, "_BATCH", 2)
    np.testing.assert_array_equal(match_images(RGB, (10, 9, 1)), whole)
    np.testing.assert_array_equal(
        match_images(RGB[3:4], (10, 9, 1))[0], whole[3]
    )


@pytest.mark.parametrize(
    ("images", "shape", "message"),
    [
        (RGB / 255.0, (8, 6, 3), "uint8.*Received: .*float64"),
        (RGB[0], (8, 6, 3), r"\[N, H, W, C\].*\(8, 6, 3\)"),
        (RGB[..., :2], (8, 6, 3), r"1 or 3 channels.*\(5, 8, 6, 2\)"),
        (RGB, (8, 6), r"`shape` must be \(H, W, C\).*\(8, 6\)"),
        (RGB, (8, 6, 4), "C 1 or 3"),
        (RGB, (0, 6, 3), "positive H and W"),
        (RGB, 8, "shape=8"),
    ],
)
def test_rejects(images, shape, message):
    with pytest.raises(ValueError, match=message):
        match_images(images, shape)
