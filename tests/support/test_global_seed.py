import random
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from tests.support import global_seed


def shuffled():
    """Returns numbers in the order of a shuffle in a graph, without a seed."""

    @tf.function(autograph=False)
    def shuffle():
        return tf.random.shuffle(tf.range(50))

    return shuffle().numpy().tolist()


def drawn():
    """Returns a number of each generator."""
    return (
        random.random(),
        np.random.random(),  # noqa: NPY002
        float(keras.random.normal(())),
        shuffled(),
    )


def test_every_generator_starts_anew():
    global_seed.set_to(3)
    first, second = drawn(), drawn()
    assert all(
        one != other for one, other in zip(first[:3], second[:3], strict=True)
    )
    global_seed.set_to(3)
    assert drawn() == first
    # Whatever a test has set in between.
    keras.utils.set_random_seed(4)
    global_seed.set_to(3)
    assert drawn() == first
    global_seed.set_to(4)
    assert all(one != other for one, other in zip(drawn(), first, strict=True))


def test_kernels_are_kept():
    global_seed.set_to(3)
    with mock.patch.object(tf.random, "set_seed") as discard:
        global_seed.set_to(3)
    discard.assert_not_called()
