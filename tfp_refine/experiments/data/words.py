"""Texts as numbers."""

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf


def vectorizer(
    texts: np.ndarray, vocabulary: int, length: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Learns the most frequent words of training texts, strings `[N]`.

    Returns a function of texts `[N]` to numbers of their first words, int32,
    `[N, length]`: 0 behind the end, 1 for unknown words, and for a text without
    words, of which networks would see nothing.
    """
    layer = keras.layers.TextVectorization(
        max_tokens=vocabulary, output_sequence_length=length
    )
    layer.adapt(_batches(texts))

    def words(texts):
        found = [np.zeros((0, length), np.int32), *map(layer, _batches(texts))]
        numbers = np.concatenate(found, dtype=np.int32, casting="same_kind")
        numbers[numbers[:, 0] == 0, 0] = 1
        return numbers

    return words


def _batches(texts):
    texts = tf.constant([*map(str, texts)], tf.string)
    return tf.data.Dataset.from_tensor_slices(texts).batch(1024)
