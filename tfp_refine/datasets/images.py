"""Loads image classification data sets."""

import os

import numpy as np
from sklearn import datasets
from sklearn import model_selection

from tfp_refine import _validation
from tfp_refine.datasets import tfds_sets
from tfp_refine.datasets.image_data import ImageData

_NUM_DIGITS_TEST = 360


def load_images(
    name: str,
    data_dir: str | os.PathLike | None = None,
    download: bool = False,
) -> ImageData:
    """Loads an image classification data set.

    `"digits"` comes with scikit-learn: 1797 images of `[8, 8, 1]` in 10
    classes, of which 1437 are training images and 360 test images, the same
    at every call and with the classes in equal parts. Its pixels `0, ..., 16`
    become `round(pixel * 255 / 16)`.

    Any other name is that of a data set in `tensorflow_datasets` with images
    of one size and one class label, such as `mnist`, `fashion_mnist`, `kmnist`,
    `cifar10`, `cifar100`, `svhn_cropped`, `stl10`, with a config and a version
    if need be: `"name/config:1.0.0"`. The split `validation` stands in for a
    `test` split that does not exist. All images are held in memory.

    Args:
        name: Name of the data set.
        data_dir: Folder with prepared data sets, `<data_dir>/<name>/<version>`.
            `None` for the default of TFDS (`TFDS_DATA_DIR`, else
            `~/tensorflow_datasets`).
        download: Whether to download and prepare a set that is not in
            `data_dir`. Otherwise nothing is read from the network.

    Returns:
        data: `ImageData` with raw pixels.

    Raises:
        ValueError: If the name is unknown, TFDS is not installed, the set is
            not prepared (and may not or cannot be downloaded), it is no image
            classification, it has no training or test split, its images
            differ in size, or its files are damaged.

    Example:

    ```python
    data = tfp_refine.datasets.load_images("digits")
    data.x_train.shape  # (1437, 8, 8, 1)
    ```
    """
    _validation.instance("name", name, str, "that of a data set")
    if name == "digits":
        return _load_digits()
    x_train, y_train, x_test, y_test, label = tfds_sets.load(
        name, "image", data_dir, download
    )
    return ImageData.from_arrays(
        name,
        x_train,
        y_train,
        x_test,
        y_test,
        num_classes=label.num_classes,
        # Without names, TFDS counts: "0", "1", ...
        class_names=tuple(label.names),
    )


def _load_digits():
    digits = datasets.load_digits()
    pixels = np.rint(digits.images * (255.0 / 16.0)).astype(np.uint8)
    x_train, x_test, y_train, y_test = model_selection.train_test_split(
        pixels,
        digits.target,
        test_size=_NUM_DIGITS_TEST,
        random_state=0,
        stratify=digits.target,
    )
    return ImageData.from_arrays(
        "digits",
        x_train,
        y_train,
        x_test,
        y_test,
        num_classes=10,
        class_names=tuple(str(name) for name in digits.target_names),
    )
