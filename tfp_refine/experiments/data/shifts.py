"""Test images that are changed more and more."""

from tfp_refine import datasets


def of(config):
    """Returns the arguments of `shifted_sets` that a configuration gives."""
    return (
        config.rotations,
        config.flipped_pixels,
        config.corruptions,
        config.seed,
    )


def shifted_sets(images, rotations, flipped, corruptions, seed):
    """Yields shifted versions of images.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]`.
        rotations: Angles in degrees.
        flipped: Fractions of pixels to invert.
        corruptions: Names of corruptions, each taken at five severities.
        seed: Integer.

    Yields:
        name: "rotation", "flipped_pixels" or the name of a corruption.
        strength: Degrees, fraction or severity.
        images: Raw pixels, `[N, H, W, C]`.
    """
    for degrees in rotations:
        yield "rotation", degrees, datasets.rotate_images(images, degrees)
    for fraction in flipped:
        changed = datasets.flip_pixels(images, fraction, seed)
        yield "flipped_pixels", fraction, changed
    for name in corruptions:
        for severity in range(1, 6):
            changed = datasets.corrupt_images(images, name, severity, seed)
            yield name, severity, changed


def check(images, *changes):
    """Tries each shift on one image, so that errors come before long work."""
    for _ in shifted_sets(images[:1], *changes):
        pass
