"""Images as experiments take them."""

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.data import shifts
from tfp_refine.experiments.data import unseen

# Images of --dataset whose classes are not trained on.
OTHER_CLASSES = "other_classes"


def load(config, number=0):
    """Loads images; see `load.load`. They have one split."""
    del number
    raw = datasets.load_images(config.dataset, config.data_dir, config.download)
    raw, others = _split_classes(raw, config.classes)
    split = datasets.standardized_images(
        raw, config.validation_fraction or 0.0, config.seed
    )

    def scale(pixels):
        if config.scaling == "standardized":
            return datasets.standardize_pixels(pixels, split.scaler)
        divisor = np.float32(255.0 if config.scaling == "unit" else 1.0)
        return pixels.astype(np.float32) / divisor

    def turned():
        return scale(datasets.rotate_images(raw.x_test, 90.0))

    def load_other(name):
        _check_units(config, raw.x_test)
        pixels = datasets.load_images(
            name, config.data_dir, config.download
        ).x_test
        return scale(datasets.match_images(pixels, raw.x_test.shape[1:]))

    changes = shifts.of(config)
    shifts.check(raw.x_test, *changes)

    def shifted():
        few = raw.x_test[: config.shift_examples]
        for name, strength, pixels in shifts.shifted_sets(few, *changes):
            yield name, strength, scale(pixels)

    made = {
        unseen.TURNED: turned,
        unseen.SHUFFLED: lambda: scale(
            unseen.shuffled(raw.x_test, config.seed)
        ),
    }
    not_trained = {} if others is None else {OTHER_CLASSES: scale(others)}
    return dataset.Dataset(
        train=(scale(raw.x_train[split.train_index]), split.y_train),
        validation=(
            scale(raw.x_train[split.validation_index]),
            split.y_validation,
        ),
        test=(scale(raw.x_test), split.y_test),
        num_classes=raw.num_classes,
        unseen=not_trained | unseen.load(config, made, load_other),
        shifted=shifted,
        pixels=raw.x_test if raw.x_test.dtype == np.uint8 else None,
        scale=scale,
    )


def _split_classes(raw, classes):
    """Returns the data of some classes, and images of the others or `None`."""
    if not classes:
        return raw, None
    try:
        return datasets.split_classes(raw, classes)
    except ValueError as error:
        raise ValueError(f"--classes: {error}") from error


def _check_units(config, pixels):
    if pixels.dtype != np.uint8:
        raise ValueError(
            "--unseen may name other data sets for images of uint8 pixels, so "
            f"that both have the same units. Received: {pixels.dtype} pixels "
            f"of --dataset={config.dataset}"
        )
