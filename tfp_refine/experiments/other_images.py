"""Images of another data set, as inputs of a model."""

import numpy as np

from tfp_refine import datasets


def load(flag, name, own, images, scaler, data_dir, download):
    """Loads test images of another data set, in the shape of a model's.

    Args:
        flag: Name of the flag that names the set, for errors.
        name: Name of the data set.
        own: Name of the model's own data set.
        images: Raw pixels of the model's own data set, `[N, H, W, C]`.
        scaler: `Standardizer` of the model's inputs.
        data_dir: As for `datasets.load_images`.
        download: As for `datasets.load_images`.

    Returns:
        x: Inputs, float32, `[N_other, H, W, C]`.

    Raises:
        ValueError: If there is no such set, it is the model's own, or the
            pixels do not compare.
    """
    if name == own:
        raise ValueError(
            f"--{flag} must be another set than --dataset. "
            f"Received: {name} for both"
        )
    if images.dtype != np.uint8:
        raise ValueError(
            f"--{flag} needs a --dataset of uint8 pixels, so that both have "
            f"the same units. Received: {images.dtype}"
        )
    other = datasets.load_images(name, data_dir, download)
    matched = datasets.match_images(other.x_test, images.shape[1:])
    return datasets.standardize_pixels(matched, scaler)
