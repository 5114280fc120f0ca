"""Noise of a forward pass, for priors whose KL divergence is estimated."""

import tensorflow as tf


class ForwardNoise:
    """Keeps the noise of the last draw of a weight tensor.

    The KL divergence from a prior such as `ScaleMixtureKL` is estimated at the
    draw of the weights that the outputs are computed with.
    """

    def __init__(self) -> None:
        self._noise: tuple[tf.Tensor, ...] | None = None

    def keep(self, noise: tuple[tf.Tensor, ...]) -> None:
        """Keeps the noise of a forward pass, in place of an older one."""
        self._noise = noise

    def take(self) -> tuple[tf.Tensor, ...] | None:
        """Returns the noise once, or `None` if there is none to be used here.

        Noise of another trace, or of an eager call in a trace, cannot be used.
        """
        noise, self._noise = self._noise, None
        if noise is None or not _is_of_this_graph(noise[0]):
            return None
        return noise


def _is_of_this_graph(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor can be used here, eagerly or in a trace."""
    if tf.executing_eagerly():
        return tf.is_tensor(tensor) and not tf.is_symbolic_tensor(tensor)
    return tf.is_symbolic_tensor(tensor) and (
        tensor.graph is tf.compat.v1.get_default_graph()
    )
