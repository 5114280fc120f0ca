"""Streams of tiny data, as if memory held none of them."""

import numpy as np

from tfp_refine.functional import streams


def shrink(monkeypatch, *, block_bytes=40, window_bytes=200):
    """Makes streams of all batches from now on, in blocks of a few examples."""
    monkeypatch.setattr(streams, "HELD_BYTES", 1)
    monkeypatch.setattr(streams, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(streams, "WINDOW_BYTES", window_bytes)


class Batches:
    """Batches of arrays, whose order a function of the pass may change.

    Args:
        arrays: Inputs, targets and perhaps weights, `[N, ...]` each.
        size: Examples in a batch.
        rows: Function of the number of a pass, from 0, to the examples of that,
            or `None` for all in order.

    Attributes:
        passes: Number of passes that have begun.
        fails_at: Number of the batch, of all passes, that raises a
            `RuntimeError`; `None` for none.
    """

    def __init__(self, *arrays, size=3, rows=None):
        self._arrays, self._size, self._rows = arrays, size, rows
        self.passes = self._count = 0
        self.fails_at = None

    def __iter__(self):
        number, self.passes = self.passes, self.passes + 1
        rows = np.arange(len(self._arrays[0]))
        if self._rows is not None:
            rows = self._rows(number)
        for begin in range(0, len(rows), self._size):
            self._count += 1
            if self._count == self.fails_at:
                raise RuntimeError("the disk is gone")
            chosen = rows[begin : begin + self._size]
            yield tuple(array[chosen] for array in self._arrays)

    @property
    def count(self):
        """Number of batches that were read, of all passes."""
        return self._count
