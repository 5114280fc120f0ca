"""The common corruptions of images, at five severities."""

import contextlib
from typing import NamedTuple

import numpy as np

from tfp_refine import _validation
from tfp_refine.datasets import pixels
from tfp_refine.datasets import tfds_sets


class _Corruption(NamedTuple):
    """Needs of a corruption of TFDS: packages, three channels, a least side."""

    packages: tuple[str, ...] = ()
    rgb_only: bool = False
    min_side: int = 4


# Blurs by kernels up to 21 pixels wide, and swaps of pixels up to 4 apart,
# leave nothing of smaller images, or nothing to swap.
_KERNEL_SIDE = 16

# Left out, of the 19 in TFDS:
# - frost, snow, motion_blur: images of 224 pixels alone, with pictures to
#   download or a program called `imagemagick`;
# - elastic_transform: displacements in pixels made for 244, so that it is at
#   its worst at severity 1 where images are small;
# - saturate: takes color away at severities 1 and 2 and adds it from 3 on;
#   nothing happens to gray images;
# - spatter: where it draws no drop, often on small images, it divides by 0.
_CORRUPTIONS = {
    "brightness": _Corruption(("skimage",), rgb_only=True),
    "contrast": _Corruption(),
    "defocus_blur": _Corruption(("cv2",), rgb_only=True, min_side=_KERNEL_SIDE),
    "fog": _Corruption(),
    "gaussian_blur": _Corruption(("skimage",)),
    "gaussian_noise": _Corruption(),
    "glass_blur": _Corruption(("skimage",), min_side=_KERNEL_SIDE),
    "impulse_noise": _Corruption(),
    "jpeg_compression": _Corruption(("PIL.Image",), rgb_only=True),
    "pixelate": _Corruption(("PIL.Image",), rgb_only=True),
    "shot_noise": _Corruption(),
    "speckle_noise": _Corruption(),
    "zoom_blur": _Corruption(),
}

CORRUPTIONS = tuple(_CORRUPTIONS)

# As in TFDS, whose own function draws from a generator without a seed.
_IMPULSE_AMOUNTS = (0.03, 0.06, 0.09, 0.17, 0.27)


def corrupt_images(
    images: np.ndarray, corruption: str, severity: int, seed: int = 0
) -> np.ndarray:
    """Corrupts images by one of the common corruptions.

    The functions are those of TFDS that made `cifar10_corrupted`, at the
    strengths of ImageNet-C. The same seed draws the same noise for
    every severity. Most take less than a millisecond an image of 32 pixels,
    `zoom_blur` 3, `fog` 10 and `glass_blur`, a loop over pixels, 13. On small
    images `fog` is a nearly even veil.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]` with `C` 1 or 3; height and
            width at least 4, and 16 for `defocus_blur` and `glass_blur`.
        corruption: A name in `CORRUPTIONS`.
        severity: 1, 2, 3, 4 or 5.
        seed: Non-negative integer that fixes the random ones. NumPy's global
            generator is used while this runs, and then put back.

    Returns:
        corrupted: Raw pixels, uint8, `[N, H, W, C]`.

    Raises:
        ValueError: If an argument is not as above or a package is missing.

    Example:

    ```python
    images = tfp_refine.datasets.load_images("digits").x_test
    noisy = tfp_refine.datasets.corrupt_images(
        images, "gaussian_noise", severity=3
    )
    ```

    Reference:
        - [Hendrycks and Dietterich, 2019](https://arxiv.org/abs/1903.12261)
    """
    _validation.one_of("corruption", corruption, CORRUPTIONS)
    if _validation.positive_integer("severity", severity) > 5:
        raise ValueError(
            f"`severity` must be at most 5. Received: severity={severity!r}"
        )
    seed = _validation.not_negative_integer("seed", seed)
    images = pixels.check_pixels(images)
    needs = _CORRUPTIONS[corruption]
    if min(images.shape[1:3]) < needs.min_side:
        raise ValueError(
            f"Images for {corruption!r} must have at least {needs.min_side} x "
            f"{needs.min_side} pixels. Received: {images.shape[1]} x "
            f"{images.shape[2]}"
        )
    function = _find_function(corruption, needs.packages)
    gray_as_rgb = needs.rgb_only and images.shape[-1] == 1
    corrupted = np.empty_like(images)
    with _seeded_global_generator(seed):
        for row, image in enumerate(images):
            if gray_as_rgb:
                image = np.repeat(image, 3, axis=-1)
            result = function(image, severity)
            if gray_as_rgb:
                result = pixels.to_uint8(pixels.to_gray(result))
            corrupted[row] = result
    return corrupted


def _find_function(corruption, packages):
    for package in ("tensorflow_datasets", *packages):
        tfds_sets.import_optional(
            package, "corruptions", f"Corruption {corruption!r}"
        )
    if corruption == "impulse_noise":
        return _impulse_noise
    from tensorflow_datasets.image_classification import corruptions

    return getattr(corruptions, corruption)


def _impulse_noise(image, severity):
    """Sets a random part of all values to black or white, half each."""
    # NumPy's global generator, as in the functions of TFDS.
    hit = np.random.uniform(size=image.shape)  # noqa: NPY002
    amount = _IMPULSE_AMOUNTS[severity - 1]
    noisy = np.where(hit < 0.5 * amount, np.uint8(0), image)
    return np.where(hit > 1.0 - 0.5 * amount, np.uint8(255), noisy)


@contextlib.contextmanager
def _seeded_global_generator(seed):
    """Seeds the generator that TFDS draws from, and puts it back."""
    state = np.random.get_state()  # noqa: NPY002
    seeded = np.random.MT19937(np.random.SeedSequence(seed)).state
    np.random.set_state(seeded)  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(state)  # noqa: NPY002
