"""Randomness of layers: different on each replica, and saved with them."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import shown_layer
from tfp_refine.math import philox

_STATE = "seed_generator_state"


class SeedGenerator(keras.random.SeedGenerator):
    """Seeds that differ between the replicas of a `tf.distribute.Strategy`.

    Replicas make the same calls, so they have the same state. Seeds of Keras
    are therefore the same on all of them, and two replicas draw the same noise
    for their halves of a batch. This generator folds in the replica's number.
    Without replicas its seeds are those of Keras.
    """

    def __init__(self, seed: int | None = None) -> None:
        if isinstance(seed, bool) or not (
            seed is None
            or (isinstance(seed, int | np.integer) and abs(seed) < 2**63)
        ):
            raise ValueError(
                f"`seed` must be an integer or None. Received: seed={seed!r}"
            )
        super().__init__(seed)

    def next(self, ordered: bool = True) -> tf.Tensor:
        seed = super().next(ordered)
        replica = tf.distribute.get_replica_context()
        if replica is None or replica.num_replicas_in_sync == 1:
            return seed
        return philox.fold_in(seed, replica.replica_id_in_sync_group)


def seed_of_part(seed: int | None, index: int) -> int | None:
    """Derives the seed of a layer inside a layer, with draws of its own."""
    if seed is None:
        return None
    _validation.instance("seed", seed, int | np.integer, "an integer or None")
    # Of negative seeds too, which Keras takes.
    sequence = np.random.SeedSequence(seed % 2**32, spawn_key=(index,))
    return int(sequence.generate_state(1)[0])


class DrawingLayer(shown_layer.ShownLayer):
    """Base of layers whose calls draw, themselves or in layers inside."""

    def rematerialized_call(
        self, layer_call: Callable, *args: Any, **kwargs: Any
    ) -> Callable:
        """Returns the call as it is, also in a `keras.RematScope`.

        Made again for the gradient, it would draw other noise there.
        """
        return layer_call


class RandomLayer(DrawingLayer):
    """Base of layers that draw; files keep the state of their generators.

    A subclass has a `seed_generator`. Files written before its state was kept
    can be read, and leave it as it is.
    """

    seed_generator: SeedGenerator

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        store[_STATE] = np.array(self.seed_generator.state)

    def load_own_variables(self, store: Any) -> None:
        values = {name: store[name] for name in store.keys()}  # noqa: SIM118
        state = values.pop(_STATE, None)
        super().load_own_variables(values)
        if state is not None:
            self.seed_generator.state.assign(np.array(state))
