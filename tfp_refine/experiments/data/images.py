"""Images as experiments take them."""

from collections.abc import Iterator

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.data import unseen
from tfp_refine.experiments.harness import fields

# Images of --dataset whose classes are not trained on.
OTHER_CLASSES = "other_classes"


def load(config: fields.Bench, number: int = 0) -> dataset.Dataset:
    """Loads images; they have one split."""
    del number
    raw = datasets.load_images(config.dataset, config.data_dir, config.download)
    not_trained = {}
    if config.classes:
        try:
            raw, others = datasets.split_classes(raw, config.classes)
        except ValueError as error:
            raise ValueError(f"--classes: {error}") from error
        not_trained[OTHER_CLASSES] = others
    split = datasets.standardized_images(
        raw, config.validation_fraction or 0.0, config.seed
    )

    def scale(pixels):
        if config.scaling == "standardized":
            return datasets.standardize_pixels(pixels, split.scaler)
        divisor = np.float32(255.0 if config.scaling == "unit" else 1.0)
        return pixels.astype(np.float32) / divisor

    def load_other(name):
        _check_units(config, raw.x_test)
        other = datasets.load_images(name, config.data_dir, config.download)
        return scale(datasets.match_images(other.x_test, raw.x_test.shape[1:]))

    def shifted():
        few = raw.x_test[: config.shift_examples]
        for name, strength, pixels in shifted_sets(few, config):
            yield name, strength, scale(pixels)

    for _ in shifted_sets(raw.x_test[:1], config):
        pass  # errors come before long work
    x_test = scale(raw.x_test)
    return dataset.Dataset(
        train=(scale(raw.x_train[split.train_index]), split.y_train),
        validation=(
            scale(raw.x_train[split.validation_index]),
            split.y_validation,
        ),
        test=(x_test, split.y_test),
        num_classes=raw.num_classes,
        unseen={name: scale(x) for name, x in not_trained.items()}
        | unseen.load(
            config,
            x_test,
            lambda: scale(datasets.rotate_images(raw.x_test, 90.0)),
            load_other,
        ),
        shifted=shifted,
        pixels=raw.x_test if raw.x_test.dtype == np.uint8 else None,
        scale=scale,
    )


def _check_units(config, pixels):
    if pixels.dtype != np.uint8:
        raise ValueError(
            "--unseen may name other data sets for images of uint8 pixels, so "
            f"that both have the same units. Received: {pixels.dtype} pixels "
            f"of --dataset={config.dataset}"
        )


def shifted_sets(
    images: np.ndarray, config: fields.Bench
) -> Iterator[tuple[str, float, np.ndarray]]:
    """Yields shifted versions of raw pixels, uint8, `[N, H, W, C]`.

    Before them come the name of the shift ("rotation", "flipped_pixels" or that
    of a corruption) and its strength: degrees, a fraction or a severity.
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
