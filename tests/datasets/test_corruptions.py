import sys

import numpy as np
import pytest

from tfp_refine.datasets import CORRUPTIONS
from tfp_refine.datasets import corrupt_images

for package in ("tensorflow_datasets", "cv2", "skimage", "PIL"):
    pytest.importorskip(package)

RANDOM = (
    "fog",
    "gaussian_noise",
    "glass_blur",
    "impulse_noise",
    "shot_noise",
    "speckle_noise",
)


def make_images(channels, side=24, count=3):
    """Makes colored strokes on dark ground, each image in its own place."""
    y, x = np.mgrid[:side, :side] / side
    images = [
        np.stack(
            [
                ((x - 0.3 - 0.1 * k) ** 2 + (y - 0.5) ** 2 < 0.05 + 0.03 * c)
                * (180 + 30 * c)
                + 20 * y
                for c in range(channels)
            ],
            axis=-1,
        )
        for k in range(count)
    ]
    return np.stack(images).astype(np.uint8)


def distance(a, b):
    return np.sqrt(np.mean(np.square(a.astype(float) - b), axis=(1, 2, 3)))


def test_names_are_sorted_and_without_those_that_do_not_work():
    assert list(CORRUPTIONS) == sorted(CORRUPTIONS)
    assert len(CORRUPTIONS) == 13
    assert set(RANDOM) < set(CORRUPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_severity_takes_images_away_from_the_original(corruption, channels):
    # How dense a fog comes out is random: only many images tell.
    images = make_images(channels)
    images = np.concatenate([images] * (30 if corruption == "fog" else 1))
    kept = images.copy()
    mild, severe = (corrupt_images(images, corruption, s) for s in (1, 5))
    for corrupted in (mild, severe):
        assert corrupted.shape == images.shape
        assert corrupted.dtype == np.uint8
    assert np.all(distance(mild, images) > 1.0)
    assert distance(severe, images).mean() > distance(mild, images).mean()
    np.testing.assert_array_equal(images, kept)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_every_severity_differs_from_the_others(corruption):
    images = make_images(3, count=1)
    made = {
        corrupt_images(images, corruption, s).tobytes() for s in range(1, 6)
    }
    assert len(made) == 5


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_seed_fixes_random_corruptions_and_nothing_else_matters(corruption):
    images = make_images(1)
    np.random.seed(0)  # noqa: NPY002
    first = corrupt_images(images, corruption, 3, seed=1)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(
        corrupt_images(images, corruption, 3, seed=1), first
    )
    other = corrupt_images(images, corruption, 3, seed=2)
    assert np.array_equal(other, first) == (corruption not in RANDOM)


@pytest.mark.parametrize("corruption", RANDOM)
def test_images_of_a_set_are_corrupted_each_in_its_own_way(corruption):
    images = np.repeat(make_images(1, count=1), 2, axis=0)
    first, second = corrupt_images(images, corruption, 5)
    assert not np.array_equal(first, second)


def global_state():
    _, keys, *rest = np.random.get_state()  # noqa: NPY002
    return (*keys.tolist(), *rest)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_global_generator_is_put_back(corruption):
    np.random.seed(3)  # noqa: NPY002
    np.random.normal()  # noqa: NPY002 - half of a pair is kept
    before = global_state()
    corrupt_images(make_images(1), corruption, 2)
    assert global_state() == before


def test_global_generator_is_put_back_after_an_error(monkeypatch):
    from tensorflow_datasets.image_classification import corruptions

    def fail(image, severity):
        np.random.normal(size=9)  # noqa: NPY002
        raise RuntimeError("half way")

    monkeypatch.setattr(corruptions, "contrast", fail)
    before = global_state()
    with pytest.raises(RuntimeError, match="half way"):
        corrupt_images(make_images(1), "contrast", 2)
    assert global_state() == before


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_gray_images_are_corrupted_like_rgb_images_of_no_color(corruption):
    if corruption.endswith("_noise"):
        pytest.skip("noise of its own in each color")
    gray = make_images(1)
    rgb = corrupt_images(np.repeat(gray, 3, axis=-1), corruption, 4)
    np.testing.assert_array_equal(
        rgb[..., :1], corrupt_images(gray, corruption, 4)
    )


@pytest.mark.parametrize(
    ("severity", "amount"),
    [(1, 0.03), (2, 0.06), (3, 0.09), (4, 0.17), (5, 0.27)],
)
def test_impulses_hit_the_published_part_of_pixels(severity, amount):
    images = np.full((1, 200, 200, 3), 100, np.uint8)
    corrupted = corrupt_images(images, "impulse_noise", severity)
    assert set(np.unique(corrupted)) == {0, 100, 255}
    for value in (0, 255):
        hits = np.mean(corrupted == value)
        # Six standard deviations: a false alarm in 5e8.
        tolerance = 6.0 * np.sqrt(amount / 2.0 / corrupted.size)
        assert abs(hits - amount / 2.0) < tolerance


@pytest.mark.parametrize("corruption", CORRUPTIONS)
@pytest.mark.parametrize("shape", [(4, 4, 1), (8, 5, 3), (16, 17, 1)])
def test_small_black_and_white_images_work_or_are_refused(corruption, shape):
    images = np.stack([np.zeros(shape), np.full(shape, 255)]).astype(np.uint8)
    if min(shape[:2]) < 16 and corruption in {"defocus_blur", "glass_blur"}:
        message = rf"at least 16 x 16 .*Received: {shape[0]} x {shape[1]}"
        with pytest.raises(ValueError, match=message):
            corrupt_images(images, corruption, 1)
    else:
        for severity in range(1, 6):
            corrupted = corrupt_images(images, corruption, severity)
            assert corrupted.shape == images.shape


def test_no_images_give_no_images():
    corrupted = corrupt_images(np.zeros((0, 8, 8, 1), np.uint8), "fog", 1)
    assert corrupted.shape == (0, 8, 8, 1)


@pytest.mark.parametrize(
    ("corruption", "package"),
    [
        ("brightness", "skimage"),
        ("defocus_blur", "cv2"),
        ("fog", "tensorflow_datasets"),
        ("gaussian_blur", "skimage"),
        ("glass_blur", "skimage"),
        ("jpeg_compression", "PIL.Image"),
        ("pixelate", "PIL.Image"),
    ],
)
def test_missing_package_is_named_with_its_extra(
    monkeypatch, corruption, package
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError,
        match=rf"'{corruption}'.*`{package}`.*'tfp_refine\[corruptions\]'",
    ):
        corrupt_images(make_images(1), corruption, 1)


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_packages_of_other_corruptions_may_be_missing(monkeypatch, corruption):
    if corruption not in {"brightness", "gaussian_blur", "glass_blur"}:
        monkeypatch.setitem(sys.modules, "skimage", None)
    if corruption != "defocus_blur":
        monkeypatch.setitem(sys.modules, "cv2", None)
    corrupt_images(make_images(1), corruption, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("spatter", 1), "one of 'brightness', .*zoom_blur'. .*'spatter'"),
        ((None, 1), "corruption=None"),
        (("fog", 0), "`severity` must be a positive integer.*=0"),
        (("fog", 6), "severity=6"),
        (("fog", 1.0), "severity=1.0"),
        (("fog", True), "severity=True"),
        (("fog", 1, -1), "`seed` must be an integer, not negative.*=-1"),
        (("fog", 1, 0.5), "seed=0.5"),
    ],
)
def test_rejects_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        corrupt_images(make_images(1), *arguments)


@pytest.mark.parametrize(
    "images",
    [
        np.zeros((2, 8, 8, 1)),
        np.zeros((2, 8, 8), np.uint8),
        np.zeros((2, 8, 8, 4), np.uint8),
    ],
)
def test_rejects_images(images):
    with pytest.raises(ValueError, match="`images` must be raw pixels, uint8"):
        corrupt_images(images, "fog", 1)


def test_rejects_tiny_images():
    with pytest.raises(ValueError, match="at least 4 x 4 .*Received: 3 x 9"):
        corrupt_images(np.zeros((2, 3, 9, 1), np.uint8), "pixelate", 1)
