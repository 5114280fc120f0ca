"""Brings images of one data set into the shape of another."""

import numpy as np
import tensorflow as tf

from tfp_refine.datasets import pixels

_BATCH = 1024


def match_images(images: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Resizes images and turns gray into RGB or RGB into gray.

    For out-of-distribution inputs of a model that was trained on another data
    set. Resizing is bilinear, and antialiased where images become smaller;
    gray is the luma of RGB (ITU-R BT.601).

    Args:
        images: Raw pixels, uint8, `[N, h, w, c]` with `c` 1 or 3.
        shape: Shape of an image of the other set, `(H, W, C)` with `C` 1 or 3.

    Returns:
        matched: Raw pixels, uint8, `[N, H, W, C]`: the values of `images` if
            the shapes agree.

    Raises:
        ValueError: If `images` or `shape` is not as above.

    Example:

    ```python
    images = tfp_refine.datasets.load_images("digits").x_test
    matched = tfp_refine.datasets.match_images(images, (32, 32, 3))
    matched.shape  # (360, 32, 32, 3)
    ```
    """
    images = pixels.check_pixels(images)
    height, width, channels = _check_shape(shape)
    if images.shape[1:] == (height, width, channels):
        return images.copy()
    matched: np.ndarray = np.empty(
        [len(images), height, width, channels], np.uint8
    )
    for start in range(0, len(images), _BATCH):
        x = images[start : start + _BATCH]
        if channels < x.shape[-1]:
            x = pixels.to_gray(x)
        if x.shape[1:3] != (height, width):
            x = tf.image.resize(x, [height, width], antialias=True).numpy()
        # One gray channel is broadcast to three.
        matched[start : start + _BATCH] = pixels.to_uint8(x)
    return matched


def _check_shape(shape):
    try:
        height, width, channels = (int(size) for size in shape)
    except (TypeError, ValueError):
        height = width = channels = 0
    if min(height, width) < 1 or channels not in (1, 3):
        raise ValueError(
            "`shape` must be (H, W, C) with positive H and W and C 1 or 3. "
            f"Received: shape={shape!r}"
        )
    return height, width, channels
