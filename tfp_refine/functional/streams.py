"""Training data larger than memory: read anew, in blocks, in each pass."""

import copy
import itertools
import zlib

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import data as data_lib
from tfp_refine.functional import sources
from tfp_refine.functional import tensors
from tfp_refine.functional import train

# Bytes up to which a dataset is held in memory.
HELD_BYTES = 2**30
# Bytes of a block, and of the rows that a training loop gets at a time.
BLOCK_BYTES = 2**22
WINDOW_BYTES = 2**26


def examples(
    x, y=None, sample_weight=None, class_weight=None, *, fit=None, check=None
):
    """Returns training data as tensors or as a `Stream`, and `N`.

    Data are as for `data.examples`, and checked as there. Batches of more than
    `HELD_BYTES` become a `Stream`, all else is held. They are made to fit the
    model by `fit`, a function of a tuple `(x, y)` or `(x, y, weight)` to
    another, and then given to `check`: those of a stream block by block.
    """
    held, count = data_lib.examples(
        x, y, sample_weight, class_weight, most_bytes=HELD_BYTES
    )
    if count is None:
        stream = Stream(held, class_weight, fit, check)
        return stream, stream.num_examples
    if fit is not None:
        held = fit(held)
    if check is not None:
        check(held)
    return held, count


class Stream:
    """Training data that are read again in each pass, block by block.

    The first pass counts them and checks all. Those that follow must have as
    many examples, of the same shapes; their order, and random changes of the
    inputs, may differ, unless it is pinned.

    Args:
        batches: `sources.Batches` of `(x, y)` or `(x, y, sample_weight)`.
        class_weight: As for `data.examples`.
        fit: Function of blocks to inputs of a model, or `None`.
        check: Function that is called with each block, and raises an error, or
            `None`.

    Attributes:
        num_examples: `N`.
        specs: `tf.TensorSpec`s of any number of examples, a tuple.
        head: The first block, a tuple of tensors `[n, ...]` (or nested), with
            weights the third if there are any.
        bytes_per_example: Bytes that an example of the head takes.
    """

    def __init__(self, batches, class_weight=None, fit=None, check=None):
        self._batches, self._class_weight = batches, class_weight
        self._fit, self._function = fit, None
        self._is_pinned = False
        self._sums, self.num_examples = [], 0
        weight = 0.0
        for block in self._read(is_first=True):
            if check is not None:
                check(block)
            if not self._sums:
                self._set_head(block)
            for leaf in keras.tree.flatten(block[2:]):
                weight += float(tf.reduce_sum(leaf))
            self._sums.append(_checksum(block))
            self.num_examples += data_lib.num_examples(block)
        if len(self.specs) == 3 and not weight:
            raise ValueError(
                "`sample_weight` must not be 0 for all examples. "
                f"Received: {self.num_examples} weights of 0"
            )

    def pin(self):
        """Returns a text for the examples in their order, for checkpoints.

        From now on each pass must have the same examples in the same order.
        """
        self._is_pinned = True
        sums = np.array(self._sums, np.uint32)
        return f"{self.num_examples} examples {zlib.crc32(sums):08x}"

    def map(self, function):
        """Returns a stream of `function(*block)` of each block, a tuple."""
        mapped = copy.copy(self)
        mapped._function = lambda *block: _tensors(function(*block))
        mapped._set_head(mapped._function(*self.head))
        return mapped

    def blocks(self, size):
        """Yields slices of the examples, and those, `size` at a time."""
        begin = 0
        for block in map(_tensors, _cut(self._pass(), size)):
            rows = slice(begin, begin + data_lib.num_examples(block))
            yield rows, block
            begin = rows.stop

    def windows(self, size, first=0):
        """Iterates over `size` examples at a time, pass after pass.

        It begins at example `first` modulo `N`.
        """
        blocks = self._passes(first % self.num_examples)
        return map(_tensors, _cut(blocks, size))

    def gather(self, rows):
        """Returns the examples with these indices, `[n, ...]`, in one pass."""
        order = np.argsort(rows)
        ordered = np.asarray(rows)[order]
        found = self._room(len(ordered))
        begin = 0
        for block in self._pass():
            end = begin + data_lib.num_examples(block)
            first, last = np.searchsorted(ordered, [begin, end])
            _put(found, order[first:last], block, ordered[first:last] - begin)
            begin = end
            if last == len(ordered):
                break
        return _tensors(found)

    def hold(self, on_block=None):
        """Returns all examples as tensors if they fit, or else this stream.

        `on_block` is called with the number of those done.
        """
        if self.num_examples * self.bytes_per_example > HELD_BYTES:
            return self
        found = self._room(self.num_examples)
        for rows, block in self.blocks(self._block_rows):
            _put(found, rows, block)
            if on_block is not None:
                on_block(rows.stop)
        return _tensors(found)

    def _room(self, count):
        """Returns arrays for some examples."""
        return keras.tree.map_structure(
            lambda spec: tensors.empty(
                [count, *spec.shape[1:]], spec.dtype.as_numpy_dtype
            ),
            self.specs,
        )

    def _passes(self, skipped):
        """Yields blocks of one pass after another, without the first rows."""
        while True:
            for block in self._pass():
                count = data_lib.num_examples(block)
                if skipped < count:
                    yield data_lib.take(block, slice(skipped, None))
                skipped = max(0, skipped - count)

    def _pass(self):
        """Yields blocks as the first pass has found them."""
        count = 0
        for number, block in enumerate(self._read()):
            count += data_lib.num_examples(block)
            if count > self.num_examples:
                raise ValueError(
                    "The dataset must have as many examples in each pass. "
                    f"Received: more than the {self.num_examples} of the first"
                )
            if self._is_pinned and _checksum(block) != self._sums[number]:
                raise ValueError(
                    "With `checkpoint_dir` the dataset must yield the same "
                    "examples in the same order in each pass: shuffle with a "
                    "seed and `reshuffle_each_iteration=False`, and change "
                    "inputs at random inside the model. Received: others, or "
                    f"in another order, up to example {count}"
                )
            yield block if self._function is None else self._function(*block)

    def _read(self, is_first=False):
        """Yields the blocks of a pass, checked, as tensors."""
        batches = iter(self._batches)
        if is_first:
            first = next(batches)
            sources.check_targets(first)
            self._block_rows = max(1, BLOCK_BYTES // _bytes_per_example(first))
            batches = self._ending(itertools.chain([first], batches))
        for block in map(_tensors, _cut(batches, self._block_rows)):
            block = data_lib.with_weights(
                block, self._class_weight, is_part=True
            )
            yield block if self._fit is None else self._fit(block)

    def _ending(self, batches):
        for number, batch in enumerate(batches, start=1):
            self._batches.check_ends(number)
            yield batch

    def _set_head(self, block):
        self.head, self.specs = block, data_lib.specs(block)
        self.bytes_per_example = _bytes_per_example(block)


class Held:
    """Gives a training loop the data that memory holds.

    Attributes:
        batches: `train.Batches` of the loop.
    """

    def __init__(self, data, batches):
        self.batches = batches
        self._data = data

    def part(self, begin, end, visit=0):
        """Returns the step up to which data serve, at most `end`, and data.

        They are those of the steps from `begin` on. A loop that starts anew at
        step 0 does so at its next `visit`.
        """
        del begin, visit
        return end, self._data


class Windows:
    """Gives a training loop a `Stream` in windows, for some steps each.

    Passes follow one another without a gap, so that all examples are seen as
    often. Within a window they are shuffled like the whole data elsewhere, by
    each member for itself. A window that is asked for again, after those that
    follow it or in another process, is read anew, and is the same if passes
    are.

    Attributes:
        batches: `train.Batches` within a window.
    """

    def __init__(self, stream, batches, steps):
        if batches.bootstrap:
            raise ValueError(
                "`bootstrap=True` needs data that fit in memory. Received: a "
                f"source of more than {HELD_BYTES / 2**30:g} GiB"
            )
        self._stream = stream
        most = WINDOW_BYTES // max(1, stream.bytes_per_example * batches.size)
        most = max(1, min(most, batches.per_epoch))
        self._num_windows = -(-steps // most)
        self._steps = -(-steps // self._num_windows)
        self.batches = train.Batches(
            self._steps * batches.size, batches.batch_size
        )
        self._number = self._window = self._windows = None

    def part(self, begin, end, visit=0):
        """Returns the steps of a window, and its data, as `Held.part`."""
        number = visit * self._num_windows + begin // self._steps
        if number != self._number:
            size = self.batches.num_examples
            if self._windows is None or number != self._number + 1:
                self._windows = self._stream.windows(size, number * size)
            self._window = None  # which would take memory beside the next
            self._window = next(self._windows)
            self._number = number
        return min(end, (begin // self._steps + 1) * self._steps), self._window


def feed(data, batches, steps):
    """Returns the feeder of a loop of steps, for held data or a `Stream`."""
    if isinstance(data, Stream):
        return Windows(data, batches, steps)
    return Held(data, batches)


def num_examples(data):
    """Returns `N`, of data that are held or a `Stream`."""
    if isinstance(data, Stream):
        return data.num_examples
    return data_lib.num_examples(data)


def head(data):
    """Returns the first examples of a `Stream`, or all data that are held."""
    return data.head if isinstance(data, Stream) else data


def specs(data):
    """Returns the `tf.TensorSpec`s of data, held or a `Stream`."""
    return data.specs if isinstance(data, Stream) else data_lib.specs(data)


def parts(data):
    """Returns everything that identifies data, for checkpoints, by name."""
    if isinstance(data, Stream):
        return {"data": data}
    return dict(zip(data_lib.NAMES, data, strict=False))


def blocks(data, size):
    """Yields slices of the rows of data, held or a `Stream`, and those rows."""
    if isinstance(data, Stream):
        yield from data.blocks(size)
        return
    for begin in range(0, num_examples(data), size):
        rows = slice(begin, min(begin + size, num_examples(data)))
        yield rows, data_lib.take(data, rows)


def _cut(batches, size):
    """Yields `size` examples at a time, fewer in the end, as arrays."""
    found, count = [], 0
    for batch in batches:
        batch = keras.tree.map_structure(lambda leaf: leaf.numpy(), batch)
        begin, length = 0, data_lib.num_examples(batch)
        while begin < length:
            end = min(begin + size - count, length)
            found.append(data_lib.take(batch, slice(begin, end)))
            count += end - begin
            begin = end
            if count == size:
                yield keras.tree.map_structure(_join, *found)
                found, count = [], 0
    if found:
        yield keras.tree.map_structure(_join, *found)


def _join(*arrays):
    if len(arrays) == 1:
        return arrays[0]
    if arrays[0].dtype.hasobject:
        return np.concatenate(arrays)
    shape = (sum(map(len, arrays)), *arrays[0].shape[1:])
    return np.concatenate(arrays, out=tensors.empty(shape, arrays[0].dtype))


def _tensors(block):
    return keras.tree.map_structure(tensors.share, block)


def _put(found, where, block, which=slice(None)):
    """Copies examples `which` of a block to their places."""
    for target, leaf in zip(
        keras.tree.flatten(found), keras.tree.flatten(block), strict=True
    ):
        target[where] = leaf.numpy()[which]


def _bytes(leaf):
    """Returns the bytes of a tensor, those of text one after another."""
    array = leaf.numpy()
    if array.dtype.hasobject:
        return b"\0".join(array.ravel())
    return np.ascontiguousarray(array)


def _bytes_per_example(block):
    leaves = keras.tree.flatten(block)
    total = sum(memoryview(_bytes(leaf)).nbytes for leaf in leaves)
    return max(1, total // len(leaves[0]))


def _checksum(block):
    total = 0
    for leaf in keras.tree.flatten(block):
        total = zlib.crc32(_bytes(leaf), total)
    return total
