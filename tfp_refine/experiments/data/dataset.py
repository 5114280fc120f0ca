"""Data set of a system: arrays, and data derived from them."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments.harness import folder

Pair = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set, split and scaled: inputs and targets, `[N, ...]`.

    Attributes:
        train: Training examples.
        validation: Validation examples; may be none.
        test: Test examples.
        num_classes: Number of classes; `None` for a regression, whose targets
            are standardized, `[N, 1]`.
        scaler: Of the targets of a regression.
        unseen: Inputs that are not of this set, by their name.
        shifted: Function that yields the sets of `images.shifted_sets` for the
            first test inputs.
        pixels: Test images as they were read, if they have 256 levels.
        scale: Function that makes inputs of such pixels.
    """

    train: Pair
    validation: Pair
    test: Pair
    num_classes: int | None = None
    scaler: datasets.Standardizer | None = None
    unseen: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    shifted: Callable[[], Iterable] = tuple
    pixels: np.ndarray | None = None
    scale: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def is_regression(self) -> bool:
        """True if targets are numbers."""
        return self.num_classes is None

    @property
    def digest(self) -> str:
        """Text that identifies the data, without unseen ones."""
        return folder.digest(*self.train, *self.validation, *self.test)
