"""Texts as numbers."""

import keras
import numpy as np
import tensorflow as tf


def vectorizer(texts, vocabulary, length):
    """Learns a vocabulary.

    Args:
        texts: Training texts, array of strings, `[N]`.
        vocabulary: Most words; of those, the most frequent are known.
        length: Words that are read of a text.

    Returns:
        words: Function of texts `[N]` to numbers of words, int32,
            `[N, length]`: 0 behind the end, 1 for unknown words, and for a text
            without words, of which networks would see nothing.
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
