"""What a data set is to a system: arrays, and what was made of them."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterable

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments.harness import folder

Pair = tuple[np.ndarray, np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dataset:
    """A data set, split and scaled.

    Attributes:
        train: Inputs and targets, `[N, ...]`.
        validation: Likewise; may be empty.
        test: Likewise.
        num_classes: Number of classes; `None` for a regression, whose targets
            are standardized, `[N, 1]`.
        scaler: Of a regression: `datasets.Standardizer` of the targets.
        unseen: Dict from a name to inputs that are not of this set.
        shifted: Function that yields a name, a strength and shifted versions
            of the first test inputs, as `shifts.shifted_sets`.
        pixels: Of images with 256 levels: the test images as they were read,
            else `None`.
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
        """Whether targets are numbers."""
        return self.num_classes is None

    @property
    def is_image(self) -> bool:
        """Whether inputs are images."""
        return self.train[0].ndim == 4

    @property
    def digest(self) -> str:
        """Text that identifies the data, without unseen ones."""
        return folder.digest(*self.train, *self.validation, *self.test)
