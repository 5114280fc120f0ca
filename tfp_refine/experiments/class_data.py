"""Classification data, split and scaled as models take them."""

import math
from typing import NamedTuple

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments import class_table_split
from tfp_refine.experiments import image_evaluation
from tfp_refine.experiments import record

SCALINGS = ("standardized", "unit", "none")
# What can be made of test inputs that is none of their set.
TURNED, SHUFFLED = "turned", "shuffled"


class Data(NamedTuple):
    """A classification data set as a model takes it.

    Attributes:
        train: Inputs and labels, `[N, ...]` and `[N]`.
        validation: Likewise; split off the training set.
        test: Likewise.
        num_classes: Number of classes.
        unseen: Dict from a name to inputs that are not of this set.
        shifted: Function that yields a name, a strength and test inputs, as
            `image_evaluation.shifted_sets`; of the first examples.
    """

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    num_classes: int
    unseen: dict[str, np.ndarray]
    shifted: object

    @property
    def digest(self):
        """Text that tells data sets apart, without unseen ones."""
        return record.digest(*self.train, *self.validation, *self.test)


class Shifts(NamedTuple):
    """What test inputs are compared with, and how they are changed.

    Attributes:
        unseen: Names of data sets; or "turned" (by 90 degrees, for images) and
            "shuffled" (each number is another example's).
        rotations: Degrees by which test images are turned.
        corruptions: Names, each at five severities.
        num_examples: Images that are turned or corrupted.
    """

    unseen: tuple[str, ...] = ()
    rotations: tuple[float, ...] = ()
    corruptions: tuple[str, ...] = ()
    num_examples: int = 2000


def images(
    name,
    data_dir,
    download,
    validation_fraction,
    seed,
    shifts,
    scaling="standardized",
):
    """Loads images.

    Args:
        name: Name of the data set.
        data_dir: As for `datasets.load_images`.
        download: As for `datasets.load_images`.
        validation_fraction: Part of the training set, in (0, 1).
        seed: Integer.
        shifts: `Shifts`.
        scaling: One of `SCALINGS`.

    Returns:
        data: `Data`.

    Raises:
        ValueError: If there is no such set, or shifts do not fit it.
    """
    raw = datasets.load_images(name, data_dir, download)
    split = datasets.standardized_images(raw, validation_fraction, seed)

    def scale(pixels):
        if scaling == "standardized":
            return datasets.standardize_pixels(pixels, split.scaler)
        divisor = np.float32(255.0 if scaling == "unit" else 1.0)
        return pixels.astype(np.float32) / divisor

    def load_unseen(other):
        if other == TURNED:
            return scale(datasets.rotate_images(raw.x_test, 90.0))
        if other == SHUFFLED:
            return scale(shuffled(raw.x_test, seed))
        pixels = datasets.load_images(other, data_dir, download).x_test
        return scale(datasets.match_images(pixels, raw.x_test.shape[1:]))

    changes = (shifts.rotations, (), shifts.corruptions, seed)
    if shifts.rotations or shifts.corruptions:
        image_evaluation.check_shifts(raw.x_test, *changes)

    def shifted():
        few = raw.x_test[: shifts.num_examples]
        for shift, strength, pixels in image_evaluation.shifted_sets(
            few, *changes
        ):
            yield shift, strength, scale(pixels)

    return check_parts(
        Data(
            (scale(raw.x_train[split.train_index]), split.y_train),
            (scale(raw.x_train[split.validation_index]), split.y_validation),
            (scale(raw.x_test), split.y_test),
            raw.num_classes,
            unseen(name, shifts.unseen, load_unseen, (TURNED, SHUFFLED)),
            shifted,
        ),
        name,
        validation_fraction,
    )


def table(
    name,
    data_dir,
    validation_fraction,
    seed,
    shifts,
    scaling="standardized",
    number=0,
):
    """Loads a table with classes, split at random into 80% and 20%.

    Args:
        name: Name of the data set.
        data_dir: As for `datasets.load_class_table`.
        validation_fraction: As for `images`.
        seed: As for `images`.
        shifts: As for `images`; only "shuffled".
        scaling: One of `SCALINGS`, but not "unit".
        number: Number of the split. Defaults to `0`.

    Returns:
        data: `Data`.

    Raises:
        ValueError: As for `images`.
    """
    raw = datasets.load_class_table(name, data_dir)
    split = class_table_split.split(raw, number, seed)
    x_train, x_test = split.x_train, split.x_test
    if scaling == "none":
        x_train, x_test = (
            raw.features[rows].astype(np.float32)
            for rows in (split.train_index, split.test_index)
        )
    train, validation = split_off(
        x_train, raw.labels[split.train_index], validation_fraction, seed
    )
    return check_parts(
        Data(
            train,
            validation,
            (x_test, raw.labels[split.test_index]),
            len(raw.class_names),
            unseen(
                name,
                shifts.unseen,
                lambda _: shuffled(x_test, seed),
                (SHUFFLED,),
                others=False,
            ),
            no_shifts,
        ),
        name,
        validation_fraction,
    )


def split_off(x, y, fraction, seed):
    """Splits validation examples off, at random.

    Args:
        x: `[N, ...]`.
        y: `[N]`.
        fraction: Part of them.
        seed: Integer.

    Returns:
        train: `(x, y)`.
        validation: `(x, y)`.
    """
    order = np.random.default_rng([seed, 4]).permutation(len(y))
    # Rounded first, as 0.07 * 100 is 7.000000000000001.
    count = math.ceil(round(fraction * len(y), 6))
    validation, train = order[:count], order[count:]
    return (x[train], y[train]), (x[validation], y[validation])


def unseen(own, names, load_one, known, others=True):
    """Loads what is not of a data set.

    Args:
        own: Name of the data set.
        names: What to load.
        load_one: Function of a name that returns inputs.
        known: Names that are no data sets.
        others: Whether names may be those of other data sets.

    Returns:
        unseen: Dict from name to inputs.

    Raises:
        ValueError: If a name is invalid.
    """
    for name in names:
        if name == own or not (others or name in known):
            raise ValueError(
                f"--unseen must name some of {', '.join(known)}"
                f"{', or other data sets' if others else ''}. "
                f"Received: {','.join(names)}"
            )
    return {name: load_one(name) for name in names}


def shuffled(x, seed):
    """Takes each number of an example from another example."""
    rng = np.random.default_rng([seed, 5])
    columns = x.reshape(len(x), -1)
    return rng.permuted(columns, axis=0).reshape(x.shape)


def no_shifts():
    """Returns what data that cannot be shifted have for `Data.shifted`."""
    return ()


def check_parts(data, name, validation_fraction):
    """Returns the data, if no part of it is empty.

    Args:
        data: `Data`.
        name: Name of the data set.
        validation_fraction: As for `images`.

    Raises:
        ValueError: If one is.
    """
    for part in ("train", "validation", "test"):
        if not len(getattr(data, part)[1]):
            raise ValueError(
                f"--dataset={name} leaves no {part} examples. "
                f"Received: --validation_fraction={validation_fraction}"
            )
    return data
