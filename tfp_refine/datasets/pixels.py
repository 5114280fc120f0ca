"""Checks and color conversions of raw pixels."""

import numpy as np

# Luma of ITU-R BT.601, as in Pillow and TensorFlow. They sum to 1.
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)


def check_pixels(images: np.ndarray, channels=(1, 3)) -> np.ndarray:
    """Checks that images are uint8, `[N, H, W, C]`; `()` allows any `C`."""
    images = numbers(images)
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


def numbers(images: np.ndarray) -> np.ndarray:
    """Returns images as an array; refuses anything else."""
    try:
        return np.asarray(images)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`images` must be an array. Received: {type(images).__name__} "
            f"({error})"
        ) from error


def to_gray(images: np.ndarray) -> np.ndarray:
    """Turns RGB into gray, by luma: `[..., 3]` to float32 `[..., 1]`."""
    return (images.astype(np.float32) @ _LUMA)[..., np.newaxis]


def to_uint8(values: np.ndarray) -> np.ndarray:
    """Rounds floats to the nearest pixel value in `0, ..., 255`, uint8."""
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)
