"""Images with some pixels inverted."""

import numbers

import numpy as np

from tfp_refine.datasets import pixels


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

    Reference:
        - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
          figure 5
    """
    images = pixels.check_pixels(images, channels=())
    if not isinstance(fraction, numbers.Real) or not 0.0 <= fraction <= 1.0:
        raise ValueError(
            f"`fraction` must be in [0, 1]. Received: fraction={fraction!r}"
        )
    rng = np.random.default_rng(seed)
    inverted = rng.random((*images.shape[:3], 1)) < fraction
    return np.where(inverted, 255 - images, images)
