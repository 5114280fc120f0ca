"""What a variational layer tells of units that the data do not need."""

import numpy as np

# What stands for no noise at all.
_TINY = 1e-8


class PrunableUnits:
    """Mixed into layers with a kernel and perhaps a bias.

    A unit is an output of a dense layer, or an output channel of a convolution.
    `unit_axes` are the axes of the kernel that count them.
    """

    unit_axes = (-1,)

    def unit_kl(self):
        """Computes the KL divergence of each unit's weights from their prior.

        Of the kernel and the bias; of the marginals, if weights are correlated.
        Collapsed divergences do not vanish where the posterior is the prior:
        compare units with each other.

        Returns:
            kl: Nats, `numpy` array `[units]`.

        Raises:
            ValueError: If the layer is not built, or the kernel has no
                Gaussian posterior or no prior.
        """
        kernel = self._kernel_with_posterior()
        weights = [(kernel, self.unit_axes)]
        weights += [
            (weight, (-1,))
            for weight in self.variational_weights
            if weight is not kernel and weight.regularizer is not None
        ]
        if kernel.regularizer is None:
            raise ValueError(f"The kernel of '{self.name}' has no prior.")
        return sum(
            np.ravel(np.asarray(weight.unit_kl(axes)))
            for weight, axes in weights
        )

    def unit_signal_to_noise(self):
        """Computes each unit's ratio of means to standard deviations.

        The root mean square of `loc / scale` over the incoming weights. The
        bias does not count: that of a unit that is not needed may move, to
        silence it.

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

    def pruned_units(self, threshold=0.25):
        """Tells which units are mostly noise: the data do not need them.

        Args:
            threshold: Least signal-to-noise ratio of a unit that is needed.
                Defaults to `0.25`.

        Returns:
            pruned: `numpy` array of booleans, `[units]`.

        Raises:
            ValueError: As for `unit_signal_to_noise`.
        """
        return self.unit_signal_to_noise() < threshold

    def remove_units(self, units):
        """Sets the incoming weights and the biases of units to zero.

        With an activation that keeps zero, as ReLU, their outputs are zero.

        Args:
            units: Booleans, `[units]`: which to remove.

        Raises:
            ValueError: If there is not one boolean for each unit, or the
                posterior family does not allow it.
        """
        kernel = self._kernel_with_posterior()
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
            mask = units.reshape(shape) if weight is kernel else units
            weight.assign(
                loc=np.where(mask, 0.0, weight.loc),
                scale=np.where(mask, _TINY, weight.scale),
            )
        if self.use_bias and not any(
            weight.loc is self.bias for weight in self.variational_weights
        ):
            self.bias.assign(np.where(units, 0.0, self.bias))

    def _kernel_with_posterior(self):
        for weight in self.variational_weights:
            if weight.name == "kernel" and weight.is_gaussian:
                return weight
        raise ValueError(
            f"The layer '{self.name}' must be built, and its kernel have a "
            "Gaussian posterior."
        )
