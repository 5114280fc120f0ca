"""Gated coupling flow: some coordinates decide how the others move.

A step of the masked RealNVP with the gated update of multiplicative
normalizing flows. With a mask `b`, which is 1 where a coordinate stays:

    h = tanh((b * z) hidden_kernel + hidden_bias)
    shift = h shift_kernel + shift_bias
    gate = sigmoid(h gate_kernel + gate_bias)
    z' = b * z + (1 - b) * (gate * z + (1 - gate) * shift)

References:
    - [Dinh et al., 2017](https://arxiv.org/abs/1605.08803)
    - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961), Eq. 8, 9
"""

from typing import NamedTuple

import tensorflow as tf


class Network(NamedTuple):
    """The network of one step, with `H` hidden units.

    Kernels are `[D, H]` into and `[H, D]` out of the hidden layer; biases `[H]`
    and `[D]`.
    """

    hidden_kernel: tf.Tensor
    hidden_bias: tf.Tensor
    shift_kernel: tf.Tensor
    shift_bias: tf.Tensor
    gate_kernel: tf.Tensor
    gate_bias: tf.Tensor


def forward(
    z: tf.Tensor, mask: tf.Tensor, network: Network
) -> tuple[tf.Tensor, tf.Tensor]:
    """Moves points `[..., D]`; also returns the log determinant, nats, `[...]`.

    The mask is 1 where a coordinate stays and else 0, broadcastable to `[...,
    D]`.
    """
    shift, log_gate = _shift_and_log_gate(z, mask, network)
    gate = tf.exp(log_gate)
    moved = shift + gate * (z - shift)
    log_det = tf.reduce_sum((1.0 - mask) * log_gate, axis=-1)
    return mask * z + (1.0 - mask) * moved, log_det


def inverse(z: tf.Tensor, mask: tf.Tensor, network: Network) -> tf.Tensor:
    """Moves points `[..., D]` back."""
    # Masked entries are equal before and after: so are shift and gate.
    shift, log_gate = _shift_and_log_gate(z, mask, network)
    # A closed gate may overflow: not so where nothing has moved.
    scale = tf.exp(-(1.0 - mask) * log_gate)
    moved = shift + tf.math.multiply_no_nan(scale, z - shift)
    return mask * z + (1.0 - mask) * moved


def _shift_and_log_gate(z, mask, network):
    hidden = tf.tanh(
        _product(mask * z, network.hidden_kernel) + network.hidden_bias
    )
    shift = _product(hidden, network.shift_kernel) + network.shift_bias
    raw = _product(hidden, network.gate_kernel) + network.gate_bias
    # The logarithm of a sigmoid would be -inf below -104 in float32.
    return shift, tf.math.log_sigmoid(raw)


def _product(x, kernel):
    """Multiplies vectors `[..., D]` with matrices `[..., D, H]`."""
    if kernel.shape.rank == 2 and x.shape.rank == 2:
        return tf.linalg.matmul(x, kernel)
    return tf.linalg.matvec(kernel, x, transpose_a=True)
