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

    `rows` is `[U, R, F]`, or `[R, F]` if all `units` share them. Of the
    `examples` (indices, `[U, B]` or `[B]`), the first gave the first `R / B`
    rows, and so on.
    """

    units: np.ndarray
    rows: tf.Tensor
    examples: np.ndarray


class Source(NamedTuple):
    """Makes the mini-batches of a layer from examples 0 to `num_examples - 1`.

    `draw` takes indices of examples, `[B]`, and returns their patches, as the
    layer sees them, `[B, P, groups, F]`.
    """

    layer: layers.VariationalLayer
    num_examples: int
    draw: Callable
    rng: np.random.Generator

    def separate(self, batch_size):
        """Yields a `MiniBatch` for each unit, propagated by itself.

        Its examples are drawn without replacement.
        """
        for units, group in self._groups():
            for unit in units:
                examples = self._choose(batch_size)
                rows = _rows(self.draw(examples)[tf.newaxis, :, :, group])
                yield MiniBatch(np.array([unit]), rows, examples[np.newaxis])

    def pooled(self, batch_size, pool_size):
        """Yields mini-batches whose examples are propagated together.

        Each unit draws its examples with replacement from `pool_size` of them.
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
        """Yields the same rows for all units, drawn without replacement."""
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
