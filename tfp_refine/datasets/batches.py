"""An endless stream of training batches that can start at any step."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import philox

# Keeps the random numbers of `augment` apart from those of the shuffle, which
# come from the pair (seed, epoch).
_AUGMENT_STREAM = 1


def training_batches(
    x: Any,
    y: Any,
    batch_size: int,
    seed: int | None,
    augment: Callable | None = None,
    first_step: int = 0,
) -> tf.data.Dataset:
    """Makes shuffled batches of arrays, without end.

    Each epoch is a new permutation of all examples. Examples that do not fill a
    batch are left out. Examples are gathered one batch at a time.

    Args:
        x: Inputs, `[N, ...]`.
        y: Targets, `[N, ...]`.
        batch_size: Examples in a batch, all of them if `N` is smaller.
        seed: Integer that fixes the stream.
        augment: `None`, or `augment(x, seed) -> x` of TensorFlow operations
            on a batch of inputs, such as `crop_and_flip`. Its `seed`, `[2]`,
            is a function of the stream's seed and the number of the batch
            alone, so that a stream repeats itself from any step.
        first_step: Number of the first batch, counted from 0.

    Returns:
        dataset: `tf.data.Dataset` of `(x, y)`.

    Raises:
        ValueError: If an argument is invalid, or `x` and `y` differ in length.

    Example:

    ```python
    batches = tfp_refine.datasets.training_batches(x_train, y_train, 32, seed=0)
    model.fit(batches, steps_per_epoch=10, epochs=2, shuffle=False)
    ```
    """
    batch_size = _validation.positive_integer("batch_size", batch_size)
    seed = _validation.not_negative_integer("seed", seed)
    first_step = _validation.not_negative_integer("first_step", first_step)
    x, y = _examples("x", x), _examples("y", y)
    num_examples = len(x)
    if len(y) != num_examples:
        raise ValueError(
            "`x` and `y` must hold the same number of examples. Received: "
            f"{num_examples} and {len(y)}"
        )
    if augment is not None and not callable(augment):
        raise ValueError(
            "`augment` must be a function of a batch and a seed, or None. "
            f"Received: augment={augment!r}"
        )
    if num_examples <= batch_size:
        dataset = tf.data.Dataset.from_tensors((x, y)).repeat()
    else:
        per_epoch = num_examples // batch_size

        def rows_of_epoch(epoch):
            order = philox.shuffle(
                tf.range(num_examples), tf.stack([seed, epoch])
            )
            return tf.reshape(
                order[: per_epoch * batch_size], [per_epoch, batch_size]
            )

        first_epoch, skipped = divmod(first_step, per_epoch)
        dataset = (
            tf.data.Dataset.range(first_epoch, 2**31)
            .map(rows_of_epoch)
            .unbatch()
            .skip(skipped)
            .map(lambda rows: (tf.gather(x, rows), tf.gather(y, rows)))
        )
    if augment is not None:
        dataset = dataset.enumerate(start=first_step).map(
            lambda step, batch: (
                augment(batch[0], _augment_seed(seed, step)),
                batch[1],
            )
        )
    if num_examples > batch_size or augment is not None:
        dataset = dataset.prefetch(4)
    options = tf.data.Options()
    # The tuner's pauses cost more than it gains on batches this cheap.
    options.autotune.enabled = False
    return dataset.with_options(options)


def _augment_seed(seed, step):
    return philox.fold_in(
        tf.stack([tf.cast(seed, tf.int64), step]), _AUGMENT_STREAM
    )


def _examples(name, value):
    try:
        found = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array. Received: {type(value).__name__} "
            f"({error})"
        ) from error
    if not found.shape.rank or not found.shape[0]:
        raise ValueError(
            f"`{name}` must hold examples along its first axis. "
            f"Received: shape {found.shape}"
        )
    return found
