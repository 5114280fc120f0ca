"""Units of a variational layer that the data do not need."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import variational_weight

# Stands for a scale of zero.
_TINY = 1e-8


class PrunableUnits(keras.layers.Layer):
    """Base of layers with a kernel and perhaps a bias, whose units can go.

    A unit is an output of a dense layer, or an output channel of a convolution.
    `unit_axes` are the axes of the kernel that count them.
    """

    unit_axes: tuple[int, ...] = (-1,)

    @property
    def has_unit_biases(self) -> bool:
        """True if each unit has its own bias, or there is no bias."""
        return True

    def unit_kl(self) -> np.ndarray:
        """Computes the KL divergence of each unit's weights from their prior.

        The sum over kernel and bias; that of the marginals, if weights are
        correlated. Collapsed divergences do not vanish where the posterior is
        the prior: compare units with each other.

        Returns:
            kl: Nats, `numpy` array `[units]`.

        Raises:
            ValueError: If the layer is not built, the kernel has no Gaussian
                posterior or no prior, or units share a bias.
        """
        kernel = self._kernel_with_posterior()
        self._check_unit_biases()
        weights = [(kernel, self.unit_axes)]
        weights += [
            (weight, tuple(range(len(weight.loc.shape))))
            for weight in self.variational_weights
            if weight is not kernel and weight.regularizer is not None
        ]
        if kernel.regularizer is None:
            raise ValueError(f"The kernel of '{self.name}' has no prior.")
        return np.sum(
            [np.ravel(_unit_kl(weight, axes)) for weight, axes in weights],
            axis=0,
        )

    def unit_signal_to_noise(self) -> np.ndarray:
        """Computes each unit's ratio of means to standard deviations.

        The root mean square of `loc / scale` over the incoming weights. The
        bias does not count: the bias of a useless unit may move, to silence it.

        Returns:
            signal_to_noise: `numpy` array `[units]`.

        Raises:
            ValueError: If the layer is not built, or the kernel has no
                Gaussian posterior.
        """
        kernel = self._kernel_with_posterior()
        ratio = np.asarray(kernel.loc) / np.asarray(kernel.scale)
        units = {axis % ratio.ndim for axis in self.unit_axes}
        others = tuple(axis for axis in range(ratio.ndim) if axis not in units)
        return np.ravel(np.sqrt(np.mean(np.square(ratio), axis=others)))

    def pruned_units(self, threshold: float = 0.25) -> np.ndarray:
        """Finds units that are mostly noise, which the data do not need.

        Args:
            threshold: Smallest signal-to-noise ratio of a useful unit.
                Defaults to `0.25`.

        Returns:
            pruned: `numpy` array of booleans, `[units]`.

        Raises:
            ValueError: As for `unit_signal_to_noise`, or if the threshold is
                not a finite number.
        """
        threshold = _validation.finite("threshold", threshold)
        return self.unit_signal_to_noise() < threshold

    def remove_units(self, units: np.ndarray) -> None:
        """Sets the incoming weights and the biases of units to zero.

        With an activation that maps zero to zero, such as ReLU, their outputs
        are zero.

        Args:
            units: Booleans, `[units]`: whether to remove each.

        Raises:
            ValueError: If there is not one boolean for each unit, the posterior
                family does not allow it, or units share a bias.
        """
        kernel = self._kernel_with_posterior()
        self._check_unit_biases()
        shape = [1] * len(kernel.loc.shape)
        for axis in self.unit_axes:
            shape[axis] = kernel.loc.shape[axis]
        units = np.asarray(units, bool)
        if units.shape != (int(np.prod(shape)),):
            raise ValueError(
                "`units` must hold a boolean for each of "
                f"{int(np.prod(shape))} units. Received: shape {units.shape}"
            )
        for weight in self.variational_weights:
            weight.check_free_scales()
        for weight in self.variational_weights:
            mask = units.reshape(
                shape if weight is kernel else weight.loc.shape
            )
            weight.assign(
                loc=np.where(mask, 0.0, weight.loc),
                scale=np.where(mask, _TINY, weight.scale),
            )
        if self.use_bias and not any(
            weight.loc is self.bias for weight in self.variational_weights
        ):
            mask = units.reshape(self.bias.shape)
            self.bias.assign(np.where(mask, 0.0, self.bias))

    def _check_unit_biases(self) -> None:
        if not self.has_unit_biases:
            raise ValueError(
                f"Units of the layer '{self.name}' share a bias, or have "
                "several: they cannot be told apart or removed."
            )

    def _kernel_with_posterior(self) -> variational_weight.VariationalWeight:
        for weight in self.variational_weights:
            if weight.name == "kernel" and weight.is_gaussian:
                return weight
        raise ValueError(
            f"The layer '{self.name}' must be built, and its kernel have a "
            "Gaussian posterior."
        )


def _unit_kl(
    weight: variational_weight.VariationalWeight, axes: tuple[int, ...]
) -> tf.Tensor:
    """Sums the KL divergences of marginals (nats) over all axes but `axes`."""
    kl = weight.elementwise_kl()
    rank = len(kl.shape)
    units = {axis % rank for axis in axes}
    return keras.ops.sum(
        kl, axis=tuple(axis for axis in range(rank) if axis not in units)
    )
