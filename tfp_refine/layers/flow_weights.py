"""Normalizing flows whose parameters are a layer's weights."""

import math

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import posterior_family
from tfp_refine.math import gated_coupling
from tfp_refine.math import planar_flow

MASKS = ("random", "alternating")

# Initial shift: points near one, as multipliers are, stay there.
_SHIFT = 1.0
# Gates of 0.88 to start from.
_GATE_BIAS = 2.0
# Of `w.u`, with which a planar flow moves nothing.
_IDENTITY = math.log(math.e - 1.0)
# Spread of the initial shifts and gates, for hidden units of order one.
_SPREAD = 0.1


class Initializers:
    """Initial values of flows, from an integer seed; fresh ones if `None`."""

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed
        self._count = 0

    def normal(
        self, stddev: float, mean: float = 0.0
    ) -> keras.initializers.Initializer:
        """Returns an initializer of Gaussian numbers, another at each call."""
        seed = None
        if self._seed is not None:
            sequence = np.random.SeedSequence([self._seed % 2**32, self._count])
            seed = int(sequence.generate_state(1)[0]) % (2**31 - 1)
        self._count += 1
        return keras.initializers.RandomNormal(mean, stddev, seed=seed)


class CouplingFlow:
    """`length` gated couplings of `D >= 2` coordinates (`size`).

    With the masks "random", each point has masks of its own; "alternating" ones
    are fixed. `weights` lists the variables, which `add_weight` creates.
    """

    def __init__(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        size: int,
        length: int,
        units: int,
        masks: str,
        initializers: Initializers,
    ) -> None:
        self._size, self._length, self._masks = size, length, masks
        output_bias = np.stack(
            [np.full(size, _SHIFT), np.full(size, _GATE_BIAS)]
        )
        parameters = {
            "hidden_kernel": ((size, units), initializers.normal(size**-0.5)),
            "hidden_bias": ((units,), "zeros"),
            "output_kernel": (
                (2, units, size),
                initializers.normal(_SPREAD * units**-0.5),
            ),
            "output_bias": (
                (2, size),
                keras.initializers.Constant(output_bias),
            ),
        }
        self.weights = [
            add_weight(
                name=f"{name}_{parameter}",
                shape=(length, *shape),
                initializer=initializer,
            )
            for parameter, (shape, initializer) in parameters.items()
        ]

    def draw_masks(
        self,
        batch_shape: tuple[int | tf.Tensor, ...],
        dtype: str,
        seed: keras.random.SeedGenerator | int,
    ) -> tf.Tensor:
        """Draws masks, broadcastable to `[length, *batch_shape, D]`."""
        if self._masks == "alternating":
            ones = (1,) * len(batch_shape)
            masks = (
                np.arange(self._size) + np.arange(self._length)[:, None]
            ) % 2
            return keras.ops.cast(
                masks.reshape((self._length, *ones, self._size)), dtype
            )
        shape = (self._length, *batch_shape, self._size)
        return 0.5 * (1.0 + random_draws.random_signs(shape, dtype, seed))

    def __call__(
        self, z: tf.Tensor, masks: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Moves points `[..., D]`; also returns log determinants, `[...]`."""
        total = 0.0
        for hidden_kernel, hidden_bias, kernels, biases, mask in zip(
            *map(keras.ops.unstack, self.weights),
            keras.ops.unstack(masks),
            strict=True,
        ):
            (shift_kernel, gate_kernel), (shift_bias, gate_bias) = map(
                keras.ops.unstack, (kernels, biases)
            )
            network = gated_coupling.Network(
                hidden_kernel,
                hidden_bias,
                shift_kernel,
                shift_bias,
                gate_kernel,
                gate_bias,
            )
            z, log_det = gated_coupling.forward(z, mask, network)
            total = total + log_det
        return z, total


class PlanarFlow:
    """`length` planar flows, for a single coordinate; as `CouplingFlow`."""

    def __init__(
        self,
        add_weight: posterior_family.AddWeight,
        name: str,
        size: int,
        length: int,
        initializers: Initializers,
    ) -> None:
        self._length = length
        self.weights = [
            add_weight(
                name=f"{name}_{parameter}",
                shape=(length, size),
                initializer=initializers.normal(
                    _SPREAD, mean=mean * size**-0.5
                ),
            )
            for parameter, mean in (("u", _IDENTITY), ("w", 1.0))
        ]
        self.weights.append(
            add_weight(name=f"{name}_b", shape=(length,), initializer="zeros")
        )

    def draw_masks(
        self,
        batch_shape: tuple[int | tf.Tensor, ...],
        dtype: str,
        seed: keras.random.SeedGenerator | int,
    ) -> None:
        """Returns `None`: there are none."""

    def __call__(
        self, z: tf.Tensor, masks: None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Moves points, as `CouplingFlow` does."""
        u, w, b = map(keras.ops.convert_to_tensor, self.weights)
        total = 0.0
        for step in range(self._length):
            z, log_det = planar_flow.forward(z, u[step], w[step], b[step])
            total = total + log_det
        return z, total


def build(
    add_weight: posterior_family.AddWeight,
    name: str,
    size: int,
    length: int,
    units: int,
    masks: str,
    initializers: Initializers,
) -> CouplingFlow | PlanarFlow:
    """Creates a flow: of couplings, or planar for a single coordinate."""
    if size == 1:
        return PlanarFlow(add_weight, name, size, length, initializers)
    return CouplingFlow(
        add_weight, name, size, length, units, masks, initializers
    )
