"""An image classification data set as arrays, and parts of one."""

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfp_refine import _validation


class ImageData(NamedTuple):
    """An image classification data set, with raw pixels.

    `ImageData.from_arrays` checks its arguments.

    Attributes:
        name: Name of the data set.
        x_train: Training images, uint8 in `[0, 255]` or floats,
            `[N, H, W, C]`.
        y_train: Training labels in `[0, num_classes)`, int32, `[N]`.
        x_test: Test images, as `x_train`, `[N_test, H, W, C]`.
        y_test: Test labels, int32, `[N_test]`.
        num_classes: Number of classes.
        class_names: Name of each class, or `()`.

    Example:

    ```python
    data = tfp_refine.datasets.ImageData.from_arrays(
        "noise",
        x_train=np.zeros((20, 8, 8, 1), "uint8"),
        y_train=np.arange(20) % 2,
        x_test=np.ones((4, 8, 8, 1), "uint8"),
        y_test=np.arange(4) % 2,
        num_classes=2,
    )
    ```
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    num_classes: int
    class_names: tuple[str, ...] = ()

    @classmethod
    def from_arrays(
        cls,
        name: str,
        x_train: np.ndarray,
        y_train: np.ndarray,
        x_test: np.ndarray,
        y_test: np.ndarray,
        num_classes: int,
        class_names: tuple[str, ...] = (),
    ) -> "ImageData":
        """Makes a data set of arrays, after a check. No images are copied.

        Args:
            name: Name of the data set, for errors.
            x_train: Training images, uint8 or finite floats, `[N, H, W, C]`
                or, if gray, `[N, H, W]`.
            y_train: Training labels, integers in `[0, num_classes)`, `[N]`.
            x_test: Test images of the same height, width, channels and type.
            y_test: Test labels, `[N_test]`.
            num_classes: Number of classes, at least 2.
            class_names: Name of each class, or `()`.

        Returns:
            data: `ImageData`, with a channel axis.

        Raises:
            ValueError: If an argument is not as above.
        """
        num_classes = _check_num_classes(name, num_classes)
        if len(class_names) not in (0, num_classes):
            raise ValueError(
                f"Data set {name!r} must have {num_classes} `class_names`, or "
                f"none. Received: {len(class_names)}"
            )
        x_train = _check_images(name, "x_train", x_train)
        x_test = _check_images(name, "x_test", x_test)
        if (x_train.shape[1:], x_train.dtype) != (
            x_test.shape[1:],
            x_test.dtype,
        ):
            raise ValueError(
                f"Data set {name!r} must have training and test images of one "
                f"shape and type. Received: {x_train.shape[1:]} "
                f"{x_train.dtype} and {x_test.shape[1:]} {x_test.dtype}"
            )
        return cls(
            name=name,
            x_train=x_train,
            y_train=_check_labels(
                name, "y_train", y_train, len(x_train), num_classes
            ),
            x_test=x_test,
            y_test=_check_labels(
                name, "y_test", y_test, len(x_test), num_classes
            ),
            num_classes=num_classes,
            class_names=tuple(class_names),
        )


def split_classes(
    data: ImageData, classes: list[int]
) -> tuple[ImageData, np.ndarray]:
    """Splits a data set into classes to learn and test images of the others.

    Args:
        data: `ImageData`.
        classes: Numbers of the classes to learn, two or more, but not all.
            They are numbered anew, in this order.

    Returns:
        known: `ImageData` of these classes.
        unseen: Raw pixels of the test images of all other classes,
            `[N_unseen, H, W, C]`.

    Raises:
        ValueError: If `classes` are not as above.

    Example:

    ```python
    data = tfp_refine.datasets.load_images("digits")
    known, unseen = tfp_refine.datasets.split_classes(data, [0, 1, 2, 3, 4])
    known.num_classes  # 5
    ```
    """
    _validation.instance("data", data, ImageData, "an ImageData")
    _validation.instance("classes", classes, Sequence, "a list of integers")
    try:
        classes = [operator.index(number) for number in classes]
    except TypeError as error:
        raise ValueError(
            f"`classes` must hold integers. Received: classes={classes!r}"
        ) from error
    if (
        len(set(classes)) != len(classes)
        or not 2 <= len(classes) < data.num_classes
        or min(classes) < 0
        or max(classes) >= data.num_classes
    ):
        raise ValueError(
            f"`classes` must be two or more of the numbers 0 to "
            f"{data.num_classes - 1}, but not all. Received: {classes}"
        )
    train, test = (np.isin(y, classes) for y in (data.y_train, data.y_test))
    renumbered = np.full(data.num_classes, -1)
    renumbered[classes] = np.arange(len(classes))
    names = data.class_names
    known = ImageData.from_arrays(
        data.name,
        data.x_train[train],
        renumbered[data.y_train[train]],
        data.x_test[test],
        renumbered[data.y_test[test]],
        num_classes=len(classes),
        class_names=tuple(names[c] for c in classes) if names else (),
    )
    return known, data.x_test[~test]


def _check_num_classes(name, num_classes):
    try:
        number = operator.index(num_classes)
    except TypeError:
        number = 0
    if number < 2:
        raise ValueError(
            f"Data set {name!r} must have 2 classes or more. "
            f"Received: num_classes={num_classes!r}"
        )
    return number


def _check_images(name, argument, images):
    images = np.asarray(images)
    where = f"Data set {name!r}: `{argument}`"
    if images.ndim == 3:
        images = images[..., np.newaxis]
    if images.ndim != 4 or images.size == 0:
        raise ValueError(
            f"{where} must be images [N, H, W, C] (or [N, H, W]), not empty. "
            f"Received: shape {images.shape}"
        )
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise ValueError(
            f"{where} must be uint8 pixels or floats. Received: {images.dtype}"
        )
    # An image at a time, without an array of booleans as large as the set.
    if images.dtype.kind == "f":
        for row, image in enumerate(images):
            if not np.all(np.isfinite(image)):
                raise ValueError(
                    f"{where} must be finite. Received: NaN or infinity in "
                    f"image {row}"
                )
    return images


def _check_labels(name, argument, labels, num_images, num_classes):
    labels = np.asarray(labels)
    where = f"Data set {name!r}: `{argument}`"
    if labels.shape != (num_images,):
        raise ValueError(
            f"{where} must be one label an image, shape ({num_images},). "
            f"Received: shape {labels.shape}"
        )
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{where} must be integers. Received: {labels.dtype}")
    outside = labels[(labels < 0) | (labels >= num_classes)]
    if outside.size:
        raise ValueError(
            f"{where} must be in [0, {num_classes}). Received: {outside[0]}"
        )
    return labels.astype(np.int32)
