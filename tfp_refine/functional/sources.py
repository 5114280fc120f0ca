"""Data of every kind that Keras accepts: as arrays, or as batches."""

import collections.abc
import itertools
import os

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.functional import arrays
from tfp_refine.functional import tensors

# Parts of training data, as Keras names them.
NAMES = ("x", "y", "sample_weight")
# Batches after which a source that does not say its end counts as endless,
# where all are needed before any work.
_MAX_BATCHES = 2**20
# Batches after which a warning says so: it takes long to read so many more.
_MANY_BATCHES = 2**12
_ENDLESS = (
    "must end. Received: {kind} {what}; limit it, as by `.take(n)` of a "
    "tf.data.Dataset, or let it say its length, as by `assert_cardinality`"
)


class Batches:
    """Batches of data, which can be iterated over again and again.

    Each is `(x,)`, `(x, y)` or `(x, y, sample_weight)`: tensors `[B, ...]` (or
    nested), finite, floats in Keras' `floatx`. Each pass has the same number of
    examples, or there is a `ValueError`; their order is that of the source.

    Args:
        source: Object that yields batches.
        inputs_only: Whether targets and weights are left out. Shapes of
            examples may then differ between batches.

    Attributes:
        kind: Kind of the source, with its article.
        num_batches: Number of batches, or `None` if it is not known.
        num_examples: `N`, or `None` before the end of the first pass.
    """

    def __init__(self, source, inputs_only=False):
        if isinstance(source, Batches):
            source = source.source
        self.source, self._inputs_only = source, inputs_only
        self.kind, self.num_batches = _describe(source)
        self.num_examples = None
        self._first = self._kept = None
        self._is_used = False

    @property
    def is_once(self):
        """True if there can be one pass only, as over a generator."""
        return hasattr(self.source, "__next__")

    def __repr__(self):
        return self.kind

    def __iter__(self):
        if self.is_once and self._is_used:
            raise ValueError(f"`x`, {self.kind}, can be read only once.")
        self._is_used = True
        number = count = 0
        for number, element in enumerate(self._elements(), start=1):
            batch = self._checked(element, number)
            count += len(keras.tree.flatten(batch)[0])
            yield batch
        if number == 0:
            raise ValueError(
                f"`x`, {self.kind}, must not be empty: it yields no batch."
            )
        self._check_end(number, count)

    def read(self, with_targets=False, most_bytes=None):
        """Reads one pass into memory, a tuple of tensors `[N, ...]`.

        A source that can be read only once is kept, and returned again. Another
        one is left, and `None` returned, if it has more than `most_bytes`.
        """
        if self._kept is not None:
            return self._kept
        columns = None
        room = self.num_batches or 1
        limit = None if self.num_batches else _memory() // 2
        for number, batch in enumerate(self):
            if columns is None:
                if with_targets:
                    check_targets(batch)
                columns = [
                    keras.tree.map_structure(lambda _: _Column(room), part)
                    for part in batch
                ]
            for column, part in zip(columns, batch, strict=True):
                keras.tree.map_structure(
                    lambda own, leaf: own.add(leaf), column, part
                )
            size = sum(c.nbytes for c in keras.tree.flatten(columns))
            # Most have batches of one size, but for the last.
            expected = max(1, room - 1) * size if number == 0 else size
            if most_bytes is not None and expected > most_bytes:
                return None
            if limit and size > limit:
                raise self._without_end(number + 1)
            self.check_ends(number + 1)
        found = tuple(
            keras.tree.map_structure(lambda column: column.tensor(), part)
            for part in columns
        )
        self._kept = found if self.is_once else None
        return found

    def check_ends(self, number):
        """Raises a `ValueError` at a batch that only endless sources have.

        Warns long before, as they take minutes to get there.
        """
        if self.num_batches is not None:
            return
        if number > _MAX_BATCHES:
            raise self._without_end(number)
        if number == _MANY_BATCHES:
            _validation.warn(
                f"`x`, {self.kind}, has not ended after {number} batches, and "
                "does not say how many it has. All are read before any work: "
                "if it is endless, limit it, as by `.take(n)` of a "
                "tf.data.Dataset."
            )

    def _without_end(self, number):
        what = f"that has not ended after {number} batches"
        return ValueError("`x` " + _ENDLESS.format(kind=self.kind, what=what))

    def _elements(self):
        """Yields the elements of the source, and explains its errors."""
        source, number = self.source, 0
        try:
            if isinstance(source, keras.utils.PyDataset):
                for number in range(self.num_batches):
                    yield source[number]
                return
            for element in source:
                yield element
                number += 1
        except (IndexError, tf.errors.OpError) as error:
            raise ValueError(
                f"`x`, {self.kind}, failed at its batch {number + 1}"
                + (f" of {self.num_batches}" if self.num_batches else "")
                + f": {error}"
            ) from error

    def _checked(self, element, number):
        parts = unpack(element)[: 1 if self._inputs_only else None]
        try:
            batch = tuple(
                map_leaves(name, part, _tensor)
                for name, part in zip(NAMES, parts, strict=False)
            )
        except ValueError as error:
            raise ValueError(
                f"{error} (in batch {number} of {self.kind}, whose elements "
                "must be batches)"
            ) from error
        check_lengths(batch)
        if self._first is None:
            self._first = _specs(batch, not self._inputs_only)
        elif not _fits(batch, self._first):
            raise ValueError(
                f"All batches of {self.kind} must have one structure, dtype "
                f"and shape of examples. Received: {self._first} first, and "
                f"{_specs(batch, True)} as batch {number}"
            )
        return batch

    def _check_end(self, number, count):
        if self.num_batches not in (None, number):
            raise ValueError(
                f"`x`, {self.kind}, must have as many batches as it says. "
                f"Received: {number} of {self.num_batches}"
            )
        if self.num_examples not in (None, count):
            raise ValueError(
                f"`x`, {self.kind}, must have the same examples each time it "
                f"is read. Received: {self.num_examples} examples, and later "
                f"{count}"
            )
        self.num_examples = count


def is_batched(x):
    """Returns whether data come in batches: they are no (nested) arrays."""
    if isinstance(x, Batches | tf.data.Dataset | keras.utils.PyDataset):
        return True
    if hasattr(x, "__next__"):
        return True
    is_array = any(
        hasattr(x, name) for name in ("shape", "__array__", "to_numpy")
    )
    is_structure = isinstance(
        x, collections.abc.Sequence | collections.abc.Mapping
    )
    # Such as a torch DataLoader.
    return (
        isinstance(x, collections.abc.Iterable)
        and not isinstance(x, collections.abc.Set)
        and not is_array
        and not is_structure
    )


def lasting(x):
    """Returns `x`, or `Batches` that keep a source that can be read once."""
    return Batches(x) if hasattr(x, "__next__") else x


def source(x, y=None, sample_weight=None):
    """Turns data of any kind into arrays, or into batches.

    Arrays, tensors and pandas' frames (or nested) become a tuple `(x,)`, `(x,
    y)` or `(x, y, sample_weight)` of arrays, whose values are not checked. A
    `tf.data.Dataset`, a `keras.utils.PyDataset` and other iterables become
    `Batches`. A generator, which can be read only once, is read into memory.
    """
    if is_batched(x):
        for name, value in (("y", y), ("sample_weight", sample_weight)):
            if value is not None:
                raise ValueError(
                    f"`{name}` must be None when `x` is {_describe(x)[0]}, "
                    "which yields it along."
                )
        batches = x if isinstance(x, Batches) else Batches(x)
        return batches.read() if batches.is_once else batches
    if x is None:
        raise ValueError("`x` must be given. Received: x=None")
    if y is None and sample_weight is not None:
        raise ValueError("`sample_weight` needs `y`. Received: y=None")
    parts = (x, y, sample_weight)
    parts = tuple(part for part in parts if part is not None)
    return tuple(
        map_leaves(name, part, arrays.array)
        for name, part in zip(NAMES, parts, strict=False)
    )


def unpack(element):
    """Returns `(x,)`, `(x, y)` or `(x, y, sample_weight)` of an element."""
    if isinstance(element, tuple | list) and len(element) not in (1, 2, 3):
        raise ValueError(
            "`x` must yield (x, y) or (x, y, sample_weight), or (x,) to "
            f"predict. Received: {len(element)} parts"
        )
    parts = keras.utils.unpack_x_y_sample_weight(element)
    if parts[0] is None:
        raise ValueError("`x` must yield inputs. Received: None")
    return tuple(itertools.takewhile(lambda part: part is not None, parts))


def check_targets(parts):
    """Raises a `ValueError` unless parts are inputs and targets."""
    if len(parts) < 2:
        raise ValueError(
            "`x` must yield (x, y) or (x, y, sample_weight). Received: inputs "
            "alone"
        )


def map_leaves(name, value, function):
    """Maps `function(name, leaf)` over a structure, which must hold some."""
    # Lists are nested structures of inputs to Keras, never arrays.
    if not keras.tree.flatten(value):
        raise ValueError(
            f"`{name}` must not be empty. Received: {name}={value!r}"
        )
    return keras.tree.map_structure(lambda leaf: function(name, leaf), value)


def check_lengths(parts):
    """Raises a `ValueError` unless parts are of equally many examples."""
    lengths = {
        name: [leaf.shape[0] for leaf in keras.tree.flatten(part)]
        for name, part in zip(NAMES, parts, strict=False)
    }
    if len(set(sum(lengths.values(), []))) != 1:
        raise ValueError(
            "All data must have the same number of examples. Received: "
            + ", ".join(f"{count} in {name}" for name, count in lengths.items())
            + ". (A dataset must yield batches, as for `fit`.)"
        )


def _tensor(name, leaf):
    array = arrays.array(name, leaf)
    arrays.check_finite(name, array)
    return arrays.tensor(array)


def _describe(source):
    """Returns the name of a kind of source, and its number of batches."""
    if isinstance(source, Batches):
        return source.kind, source.num_batches
    if isinstance(source, tf.data.Dataset):
        kind, count = "a tf.data.Dataset", int(source.cardinality())
        if count == tf.data.INFINITE_CARDINALITY:
            what = "that is endless; leave out `repeat()`"
            raise ValueError("`x` " + _ENDLESS.format(kind=kind, what=what))
        return kind, count if count > 0 else None
    if isinstance(source, keras.utils.PyDataset):
        kind = f"the keras.utils.PyDataset {type(source).__name__}"
        try:
            count = source.num_batches
        except NotImplementedError:
            count = None
        if count is None:
            what = "that is endless, as it has no number of batches"
            raise ValueError("`x` " + _ENDLESS.format(kind=kind, what=what))
        return kind, count
    kind = "a generator" if hasattr(source, "__next__") else "an iterable"
    kind += f" ({type(source).__name__})"
    return kind, len(source) if hasattr(source, "__len__") else None


def _specs(batch, same_shapes):
    return keras.tree.map_structure(
        lambda leaf: tf.TensorSpec(
            [None, *leaf.shape[1:]]
            if same_shapes
            else [None] * leaf.shape.rank,
            leaf.dtype,
        ),
        batch,
    )


def _fits(batch, specs):
    try:
        keras.tree.assert_same_structure(batch, specs)
    except (TypeError, ValueError):
        return False
    leaves = map(keras.tree.flatten, (specs, batch))
    return all(
        spec.is_compatible_with(leaf)
        for spec, leaf in zip(*leaves, strict=True)
    )


def _memory():
    """Returns the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class _Column:
    """Rows on their way into a tensor, of which one copy is held.

    There is room for the first rows `room` times, and more is made if need
    be: a page of memory counts once it is written.
    """

    def __init__(self, room):
        self._room = room
        self._rows = None
        self._text = []
        self._count = 0

    @property
    def nbytes(self):
        """Bytes of the rows, 0 of text."""
        if not self._count or self._rows is None:
            return 0
        return self._count * self._rows[0].nbytes

    def add(self, tensor):
        """Copies rows, `[n, ...]`."""
        if arrays.is_text(tensor):
            self._text.append(tensor)
            return
        array = np.asarray(tensor)
        begin, end = self._count, self._count + len(array)
        if self._rows is None:
            self._rows = tensors.empty(
                (self._room * len(array), *array.shape[1:]), array.dtype
            )
        elif array.shape[1:] != self._rows.shape[1:]:
            raise ValueError(
                "All examples in `x` must have one shape. Received: "
                f"{self._rows.shape[1:]} and {array.shape[1:]}"
            )
        if end > len(self._rows):
            more = tensors.empty((2 * end, *array.shape[1:]), self._rows.dtype)
            more[:begin] = self._rows[:begin]
            self._rows = more
        self._rows[begin:end] = array
        self._count = end

    def tensor(self):
        """Returns all rows; it shares their memory."""
        if self._text:
            return tf.concat(self._text, axis=0)
        return tensors.share(self._rows[: self._count])
