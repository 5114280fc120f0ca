"""Random crops and flips of a batch of images, in the graph."""

from typing import Any

import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import philox


def crop_and_flip(
    x: Any, seed: int | None, padding: int = 4, flip: bool = True
) -> tf.Tensor:
    """Shifts images at random and mirrors half of them.

    Each image is padded on its four sides, of which a window of its own size
    is cut at random, and is then mirrored left to right with probability 1/2.
    The padding is zeros: for standardized images the mean of each channel.
    Give it to `training_batches` as `augment`, with
    `functools.partial(crop_and_flip, padding=2, flip=False)` for digits, which
    change their meaning in a mirror.

    Args:
        x: Standardized images, `[B, H, W, C]`.
        seed: Pair of integers, `[2]`. The same pair gives the same images.
        padding: Pixels on each side, the largest shift.
        flip: Whether to mirror images.

    Returns:
        augmented: Images, `[B, H, W, C]`.

    Raises:
        ValueError: If `x` is not of rank 4, `seed` is no pair or `padding` is
            negative.

    Example:

    ```python
    images = np.random.normal(size=(5, 32, 32, 3))
    augmented = tfp_refine.datasets.crop_and_flip(images, seed=[0, 1])
    ```

    Reference:
        - [He et al., 2016](https://arxiv.org/abs/1512.03385), section 4.2
    """
    x = tf.convert_to_tensor(x)
    if x.shape.rank != 4:
        raise ValueError(
            f"`x` must be images [B, H, W, C]. Received: shape {x.shape}"
        )
    try:
        # Of one type, as (1, 2) splits otherwise in 32 than in 64 bits.
        pair = tf.ensure_shape(tf.cast(seed, tf.int64), [2])
    except (TypeError, ValueError, tf.errors.OpError) as error:
        raise ValueError(
            f"`seed` must be a pair of integers. Received: seed={seed!r}"
        ) from error
    padding = _validation.not_negative_integer("padding", padding)
    batch, height, width = tf.unstack(tf.shape(x)[:3])
    offset_seed, flip_seed = tf.unstack(philox.split(pair, 2))
    offsets = philox.uniform(
        [batch, 2], offset_seed, tf.int32, maxval=2 * padding + 1
    )
    rows = offsets[:, :1] + tf.range(height)  # [B, H]
    columns = tf.tile(tf.range(width)[tf.newaxis], [batch, 1])
    if flip:
        mirrored = philox.uniform([batch, 1], flip_seed) < 0.5
        columns = tf.where(mirrored, width - 1 - columns, columns)
    columns += offsets[:, 1:]  # [B, W]
    side = [padding, padding]
    padded = tf.pad(x, [[0, 0], side, side, [0, 0]])
    padded = tf.gather(padded, rows, axis=1, batch_dims=1)
    augmented = tf.gather(padded, columns, axis=2, batch_dims=1)
    return tf.ensure_shape(augmented, x.shape)
