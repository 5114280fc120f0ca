"""Texts as numbers."""

import keras
import numpy as np
import tensorflow as tf

_BATCH = 1024


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
    layer.adapt(
        tf.data.Dataset.from_tensor_slices(_strings(texts)).batch(_BATCH)
    )

    def words(texts):
        numbers = [
            np.asarray(layer(_strings(texts[begin : begin + _BATCH])), np.int32)
            for begin in range(0, len(texts), _BATCH)
        ]
        numbers = np.concatenate(numbers)
        numbers[numbers[:, 0] == 0, 0] = 1
        return numbers

    return words


def _strings(texts):
    return tf.constant([str(text) for text in texts])
