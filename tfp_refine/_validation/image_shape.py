"""Shapes of images as arguments."""

from tfp_refine._validation import positive


def image_shape(name, value):
    """Checks that an argument is the shape of an image; returns a tuple."""
    try:
        height, width, channels = positive.positive_integers(name, value)
    except ValueError as error:
        raise ValueError(
            f"`{name}` must hold the height, width and channels of an image, "
            f"three positive integers. Received: {name}={value!r}"
        ) from error
    return height, width, channels
