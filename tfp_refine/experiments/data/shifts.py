"""Test images that are changed more and more."""

from tfp_refine import datasets


def shifted_sets(images, config):
    """Yields shifted versions of images.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]`.
        config: `fields.Bench` with `rotations`, `flipped_pixels` and
            `corruptions`, each of which is taken at five severities.

    Yields:
        name: "rotation", "flipped_pixels" or the name of a corruption.
        strength: Degrees, fraction or severity.
        images: Raw pixels, `[N, H, W, C]`.
    """
    for degrees in config.rotations:
        yield "rotation", degrees, datasets.rotate_images(images, degrees)
    for fraction in config.flipped_pixels:
        changed = datasets.flip_pixels(images, fraction, config.seed)
        yield "flipped_pixels", fraction, changed
    for name in config.corruptions:
        for severity in range(1, 6):
            changed = datasets.corrupt_images(
                images, name, severity, config.seed
            )
            yield name, severity, changed
