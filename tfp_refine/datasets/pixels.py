"""Checks and color conversions of raw pixels."""

import numpy as np

# Luma of ITU-R BT.601, as in Pillow and TensorFlow. They sum to 1.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def check_pixels(images: np.ndarray, channels=(1, 3)) -> np.ndarray:
    """Checks that images are raw pixels.

    Args:
        images: What came.
        channels: Numbers of channels that will do; `()` for any.

    Returns:
        images: As an array, uint8, `[N, H, W, C]`.

    Raises:
        ValueError: If they are something else.
    """
    images = np.asarray(images)
    if (
        images.ndim != 4
        or images.dtype != np.uint8
        or 0 in images.shape[1:]
        or (channels and images.shape[-1] not in channels)
    ):
        wanted = " or ".join(map(str, channels)) or "any number of"
        raise ValueError(
            f"`images` must be raw pixels, uint8, [N, H, W, C] with {wanted} "
            f"channels. Received: shape {images.shape}, {images.dtype}"
        )
    return images


def to_gray(images: np.ndarray) -> np.ndarray:
    """Turns RGB into gray, by luma.

    Args:
        images: Pixels, `[..., 3]`.

    Returns:
        gray: Pixels, float32, `[..., 1]`. Where red, green and blue agree,
            they are the gray value, up to rounding.
    """
    return (images.astype(np.float32) @ _LUMA)[..., np.newaxis]


def to_uint8(values: np.ndarray) -> np.ndarray:
    """Rounds to the nearest pixel value.

    Args:
        values: Pixels, floats, `[...]`.

    Returns:
        pixels: The same in `0, ..., 255`, uint8, `[...]`.
    """
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
