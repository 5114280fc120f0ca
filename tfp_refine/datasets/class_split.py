"""Keeps some classes of a data set, and sets the others apart."""

import numpy as np

from tfp_refine.datasets.image_data import ImageData


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
    """
    classes = [int(number) for number in classes]
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
