"""Rows of inputs that the units of a layer are fitted to."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfp_refine import layers
from tfp_refine.initializers import initializer

# How many numbers the rows of a block of units hold at most: 64 MiB.
_BLOCK_NUMBERS = 2**24


class MiniBatch(NamedTuple):
    """Rows of some units of a layer, one after the other.

    Attributes:
        units: Their indices, `[U]`.
        rows: `[U, R, F]`, or `[R, F]` if all have the same.
        examples: Indices of the examples that the rows are from, `[U, B]` or
            `[B]`. The first `R / B` rows are from the first example, and so on.
    """

    units: np.ndarray
    rows: tf.Tensor
    examples: np.ndarray


class Source(NamedTuple):
    """Makes the mini-batches of a layer.

    Attributes:
        layer: Built `VariationalLayer`.
        num_examples: `N`, from 0 to `N - 1`.
        draw: Takes indices of examples, `[B]`; returns the patches that the
            layer sees of them, `[B, P, groups, F]`.
        rng: `numpy.random.Generator`.
    """

    layer: layers.VariationalLayer
    num_examples: int
    draw: Callable
    rng: np.random.Generator

    def separate(self, batch_size):
        """Makes mini-batches for each unit, propagated by themselves.

        Args:
            batch_size: Examples in each, drawn without replacement.

        Yields:
            batch: `MiniBatch` of the next unit.
        """
        for units, group in self._groups():
            for unit in units:
                examples = self._choose(batch_size)
                rows = _rows(self.draw(examples)[tf.newaxis, :, :, group])
                yield MiniBatch(np.array([unit]), rows, examples[np.newaxis])

    def pooled(self, batch_size, pool_size):
        """Makes mini-batches for each unit, of examples propagated together.

        Args:
            batch_size: Examples in each, drawn with replacement.
            pool_size: Examples that they are drawn from.

        Yields:
            batch: `MiniBatch` of the next units.
        """
        pool = self._choose(pool_size)
        patches = self.draw(pool)
        _, positions, _, fan_in = patches.shape
        step = max(_BLOCK_NUMBERS // (batch_size * positions * fan_in), 1)
        for units, group in self._groups():
            for start in range(0, len(units), step):
                block = units[start : start + step]
                chosen = self.rng.integers(
                    len(pool), size=(len(block), batch_size)
                )
                rows = _rows(tf.gather(patches[:, :, group], chosen))
                yield MiniBatch(block, rows, pool[chosen])

    def shared(self, batch_size):
        """Makes one mini-batch for all units.

        Args:
            batch_size: Examples in it, drawn without replacement.

        Yields:
            batch: `MiniBatch` of the next units.
        """
        examples = self._choose(batch_size)
        patches = self.draw(examples)
        for units, group in self._groups():
            yield MiniBatch(units, _rows(patches[:, :, group]), examples)

    def _choose(self, size):
        size = min(size, self.num_examples)
        return self.rng.choice(self.num_examples, size, replace=False)

    def _groups(self):
        """Yields the units of each group, and its index."""
        units = np.arange(initializer.num_units(self.layer))
        for group, members in enumerate(np.split(units, self.layer.num_groups)):
            yield members, group


def _rows(patches):
    """Joins the axes of examples and positions of `[..., B, P, F]`."""
    *leading, batch_size, positions, size = patches.shape
    return tf.reshape(patches, [*leading, batch_size * positions, size])
