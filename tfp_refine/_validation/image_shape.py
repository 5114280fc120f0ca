"""Shapes of images as arguments."""

import numbers


def image_shape(name, value):
    """Checks that an argument is the shape of an image.

    Args:
        name: Name of the argument, for the error.
        value: What came.

    Returns:
        shape: Height, width and channels, a tuple of ints.

    Raises:
        ValueError: If it is something else.
    """
    try:
        shape = tuple(value)
    except TypeError:
        shape = ()
    if len(shape) != 3 or not all(
        isinstance(size, numbers.Integral)
        and not isinstance(size, bool)
        and size > 0
        for size in shape
    ):
        raise ValueError(
            f"`{name}` must hold the height, width and channels of an image, "
            f"three positive integers. Received: {name}={value!r}"
        )
    return tuple(int(size) for size in shape)
