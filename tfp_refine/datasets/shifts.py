"""Shifts of known size: rotated images, inverted pixels."""

import numbers

import numpy as np
import scipy.ndimage

from tfp_refine import _validation
from tfp_refine.datasets import pixels


def rotate_images(images: np.ndarray, degrees: float) -> np.ndarray:
    """Rotates images about their center, counterclockwise.

    Pixels are interpolated linearly; pixels from outside an image are 0
    (black). Quarter turns of square images move pixels without a change.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]`.
        degrees: Angle, any finite number. At 0 and at full turns the images
            are returned as they are.

    Returns:
        rotated: Raw pixels, uint8, `[N, H, W, C]`.

    Raises:
        ValueError: If `images` or `degrees` is not as above.

    Example:

    ```python
    images = tfp_refine.datasets.load_images("digits").x_test
    rotated = tfp_refine.datasets.rotate_images(images, 30.0)
    ```
    """
    images = pixels.check_pixels(images, channels=())
    degrees = _validation.finite("degrees", degrees) % 360.0
    if degrees == 0.0 or len(images) == 0:
        return images.copy()
    # SciPy rounds to the nearest integer, as the output is one.
    return scipy.ndimage.rotate(
        images,
        degrees,
        axes=(2, 1),
        reshape=False,
        order=1,
        mode="constant",
        cval=0.0,
    )


def flip_pixels(
    images: np.ndarray, fraction: float, seed: int = 0
) -> np.ndarray:
    """Inverts pixels at random, all channels of a pixel together.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]`.
        fraction: Probability that a pixel is inverted, in [0, 1].
        seed: Integer. Defaults to `0`.

    Returns:
        flipped: Raw pixels, uint8, `[N, H, W, C]`.

    Raises:
        ValueError: If `images` or `fraction` is not as above.

    Example:

    ```python
    images = tfp_refine.datasets.load_images("digits").x_test
    flipped = tfp_refine.datasets.flip_pixels(images, 0.1)
    ```

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 5
    """
    images = pixels.check_pixels(images, channels=())
    if not isinstance(fraction, numbers.Real) or not 0.0 <= fraction <= 1.0:
        raise ValueError(
            f"`fraction` must be in [0, 1]. Received: fraction={fraction!r}"
        )
    rng = np.random.default_rng(_validation.not_negative_integer("seed", seed))
    inverted = rng.random((*images.shape[:3], 1)) < fraction
    return np.where(inverted, 255 - images, images)
