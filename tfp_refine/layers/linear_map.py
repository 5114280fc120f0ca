"""The linear map of a variational layer, as the matrices of a regression."""

import math

import keras
import numpy as np
import tensorflow as tf


class LinearMap(keras.layers.Layer):
    """Base of layers whose outputs are linear in a kernel.

    Each unit has a column of `F` weights, its part of the kernel. At each
    position of each example it computes the product of its column with `F`
    inputs: for a convolution, with the patch there. `unit_axes` are the axes of
    the kernel that count units. Units come in `num_groups` groups of the same
    size, one after the other, which see different inputs. There is one group,
    except for grouped and depthwise convolutions.
    """

    unit_axes: tuple[int, ...] = (-1,)

    @property
    def num_groups(self) -> int:
        """Number of groups of units that see different inputs."""
        return 1

    @property
    def has_design_matrix(self) -> bool:
        """True if the units are linear regressions on `patches`."""
        return True

    def num_positions(self, input_shape: tuple[int | None, ...]) -> int:
        """Returns `P`, the number of positions of an example with outputs."""
        shape = list(self.compute_output_shape(input_shape))
        del shape[self.channel_axis]
        return math.prod(shape[1:])

    def patches(self, inputs: tf.Tensor) -> tf.Tensor:
        """Computes the inputs that columns of the kernel are multiplied with.

        Returns `[B, P, num_groups, F]`, with `P` positions. The pre-activations
        without bias, `[B, P, units]`, are their products with
        `columns(kernel)`, group by group.
        """
        size = self.fan_in(self.kernel.shape)
        identity = np.tile(np.eye(size), (1, self.num_groups))
        outputs = self.apply_kernel(
            inputs,
            keras.ops.cast(self.kernel_of(identity), self.compute_dtype),
        )
        outputs = keras.ops.moveaxis(outputs, self.channel_axis, -1)
        batch_size = keras.ops.shape(inputs)[0]
        return keras.ops.reshape(
            outputs, (batch_size, -1, self.num_groups, size)
        )

    def columns(self, kernel: tf.Tensor) -> tf.Tensor:
        """Reshapes a kernel to the columns of its units, `[F, units]`."""
        axes = self._axes(len(kernel.shape))
        size = self.fan_in(self.kernel.shape)
        return keras.ops.reshape(keras.ops.transpose(kernel, axes), (size, -1))

    def kernel_of(self, columns: tf.Tensor) -> tf.Tensor:
        """Reshapes columns `[F, units]` to a kernel; inverts `columns`."""
        shape = self.kernel.shape
        axes = self._axes(len(shape))
        sizes = [shape[axis] for axis in axes]
        sizes[-1] = -1
        kernel = keras.ops.reshape(columns, sizes)
        return keras.ops.transpose(kernel, np.argsort(axes).tolist())

    def _axes(self, rank: int) -> list[int]:
        """Axes of the kernel in the order of the columns, units last."""
        units = [axis % rank for axis in self.unit_axes]
        return [axis for axis in range(rank) if axis not in units] + units

    def fan_in(self, kernel_shape: tuple[int, ...]) -> int:
        """Returns the number of inputs of a unit, for the scale of priors.

        Of a transposed convolution that of outputs which do not lie at an edge,
        without strides.
        """
        units = math.prod(kernel_shape[axis] for axis in self.unit_axes)
        return math.prod(kernel_shape) // units
