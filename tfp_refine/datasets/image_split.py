"""Splits off validation images and standardizes pixels by channel."""

import math
import numbers
from typing import NamedTuple

import numpy as np

from tfp_refine import _validation
from tfp_refine.datasets import pixels
from tfp_refine.datasets.image_data import ImageData
from tfp_refine.datasets.standardizer import Standardizer

# Numbers in a chunk, whose copies in double precision stay in the cache.
_CHUNK = 2**16


class ImageSplit(NamedTuple):
    """Images standardized by the training images alone.

    Attributes:
        x_train: Standardized images, float32, `[N, H, W, C]`.
        y_train: Labels, int32, `[N]`.
        x_validation: Standardized images, float32, `[N_validation, H, W, C]`.
        y_validation: Labels, int32, `[N_validation]`.
        x_test: Standardized images, float32, `[N_test, H, W, C]`.
        y_test: Labels, int32, `[N_test]`.
        num_classes: Number of classes.
        scaler: `Standardizer` of the channels, `[C]`. It also takes the images
            of `corrupt_images`, `rotate_images` and `match_images`; see
            `standardize_pixels`.
        train_index: Rows of the original training set that are training
            images, `[N]`.
        validation_index: Those that are validation images, `[N_validation]`.

    Example:

    ```python
    data = tfp_refine.datasets.load_images("digits")
    split = tfp_refine.datasets.standardized_images(data, 0.1)
    split.x_validation.shape  # (144, 8, 8, 1)
    ```
    """

    x_train: np.ndarray
    y_train: np.ndarray
    x_validation: np.ndarray
    y_validation: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
    scaler: Standardizer
    train_index: np.ndarray
    validation_index: np.ndarray


def standardized_images(
    data: ImageData, validation_fraction: float | int = 0.0, seed: int = 0
) -> ImageSplit:
    """Splits off validation images and standardizes each channel.

    The training set is shuffled; its first images become the validation set.
    So `seed` fixes one order, of which a larger validation set contains a
    smaller one. Mean and standard deviation of each channel are those of all
    pixels of the remaining training images; a constant channel keeps scale 1.

    Args:
        data: `ImageData`, which keeps the raw pixels.
        validation_fraction: Fraction of the training set in `[0, 1)`, rounded
            up to whole images, or their number as an `int`.
        seed: Non-negative integer that fixes the shuffle.

    Returns:
        split: `ImageSplit`. Without validation images, that part is empty.

    Raises:
        ValueError: If the data fail the check of `ImageData.from_arrays`, or
            `validation_fraction` or `seed` is not as above.

    Example:

    ```python
    data = tfp_refine.datasets.load_images("digits")
    split = tfp_refine.datasets.standardized_images(data, 0.1, seed=1)
    ```
    """
    _validation.instance("data", data, ImageData, "an ImageData")
    data = ImageData.from_arrays(*data)
    num_validation = _count(validation_fraction, len(data.x_train))
    seed = _validation.not_negative_integer("seed", seed)
    order = np.random.default_rng(seed).permutation(len(data.x_train))
    validation, train = order[:num_validation], order[num_validation:]
    scaler = _fit_channels(data.x_train, train)
    return ImageSplit(
        x_train=_standardize(data.x_train, train, scaler),
        y_train=data.y_train[train],
        x_validation=_standardize(data.x_train, validation, scaler),
        y_validation=data.y_train[validation],
        x_test=standardize_pixels(data.x_test, scaler),
        y_test=data.y_test,
        num_classes=data.num_classes,
        scaler=scaler,
        train_index=train,
        validation_index=validation,
    )


def standardize_pixels(images: np.ndarray, scaler: Standardizer) -> np.ndarray:
    """Standardizes images by channel, without a copy in double precision.

    Args:
        images: Raw pixels, such as those of `corrupt_images`, `[N, H, W, C]`.
        scaler: `Standardizer` of the channels, `ImageSplit.scaler`.

    Returns:
        standardized: Images, float32, `[N, H, W, C]`.

    Raises:
        ValueError: If the images do not have the channels of the scaler.

    Example:

    ```python
    data = tfp_refine.datasets.load_images("digits")
    split = tfp_refine.datasets.standardized_images(data)
    rotated = tfp_refine.datasets.rotate_images(data.x_test, 30.0)
    x = tfp_refine.datasets.standardize_pixels(rotated, split.scaler)
    ```
    """
    _validation.instance("scaler", scaler, Standardizer, "a Standardizer")
    images = pixels.numbers(images)
    if (
        images.ndim != 4
        or 0 in images.shape[1:]
        or images.shape[-1:] != scaler.loc.shape
    ):
        raise ValueError(
            f"`images` must be [N, H, W, {scaler.loc.shape[0]}], with pixels "
            f"and the channels of the scaler. Received: shape {images.shape}"
        )
    if images.dtype.kind not in "biuf" or not np.all(np.isfinite(images)):
        raise ValueError(
            "`images` must hold finite numbers. "
            f"Received: shape {images.shape}, {images.dtype}"
        )
    return _standardize(images, np.arange(len(images)), scaler)


def _count(validation_fraction, num_images):
    """Turns a fraction or a number into the number of validation images."""
    count = None
    if isinstance(validation_fraction, numbers.Integral):
        count = int(validation_fraction)
    elif (
        isinstance(validation_fraction, numbers.Real)
        and 0.0 <= validation_fraction < 1.0
    ):
        # Rounded first, as 0.7 * 10 is 7.000000000000001.
        count = math.ceil(round(float(validation_fraction) * num_images, 6))
    if (
        count is None
        or isinstance(validation_fraction, bool)
        or not 0 <= count < num_images
    ):
        raise ValueError(
            "`validation_fraction` must be a fraction in [0, 1) or a number "
            f"of images, and leave one of the {num_images} training images. "
            f"Received: validation_fraction={validation_fraction!r}"
        )
    return count


def _chunks(images, rows):
    """Yields slices of `rows` and their images as rows, `[chunk, H * W * C]`.

    NumPy is slow on a last axis as short as that of the channels.
    """
    step = max(1, _CHUNK // math.prod(images.shape[1:]))
    for start in range(0, len(rows), step):
        chunk = slice(start, min(start + step, len(rows)))
        x = images[rows[chunk]]
        yield chunk, x.reshape([len(x), -1])


def _fit_channels(images, rows):
    """Fits a `Standardizer` of channels to some images, in two passes.

    The second pass sums squares of deviations from the mean: sums of squared
    pixels would cancel.
    """
    by_channel = (-1, images.shape[-1])
    num_pixels = len(rows) * math.prod(images.shape[1:-1])
    total = np.zeros(math.prod(images.shape[1:]))
    low, high = np.full_like(total, np.inf), np.full_like(total, -np.inf)
    for _, x in _chunks(images, rows):
        total += x.sum(axis=0, dtype=np.float64)
        low = np.minimum(low, x.min(axis=0))
        high = np.maximum(high, x.max(axis=0))
    loc = total.reshape(by_channel).sum(axis=0) / num_pixels
    tiled_loc = np.resize(loc, total.shape)
    squares = np.zeros_like(total)
    for _, x in _chunks(images, rows):
        squares += np.square(x - tiled_loc).sum(axis=0)
    scale = np.sqrt(squares.reshape(by_channel).sum(axis=0) / num_pixels)
    # As in `Standardizer.fit`: a rounding error is no standard deviation.
    spread = high.reshape(by_channel).max(0) - low.reshape(by_channel).min(0)
    constant = (spread == 0.0) | (scale == 0.0)
    return Standardizer(loc, np.where(constant, 1.0, scale))


def _standardize(images, rows, scaler):
    num_values = math.prod(images.shape[1:])
    tiled = Standardizer(
        np.resize(scaler.loc, num_values), np.resize(scaler.scale, num_values)
    )
    standardized = np.empty([len(rows), num_values], np.float32)
    for chunk, x in _chunks(images, rows):
        standardized[chunk] = tiled.transform(x)
    return standardized.reshape([len(rows), *images.shape[1:]])
