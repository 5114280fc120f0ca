"""Draws of the outputs of convolutional layers, and their exact moments."""

import dataclasses

import keras
import numpy as np

NUM_DRAWS = 20000


@dataclasses.dataclass
class ConvDraws:
    """Outputs for two examples, under many draws of the weights.

    Filters that see the same input channels are a group. In the layer that is
    drawn from, all filters of a group have the same posterior: they are
    independent draws from a single call.

    Attributes:
        draws: `[S, G, N]`, `N` being all positions of example 0, then 1.
        mean: Exact mean of `draws`, `[G, N]`.
        covariance: Covariance of the part of one draw of the weights in all
            examples and positions, `[G, N, N]`.
    """

    draws: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @property
    def variance(self):
        """Variance of each output by itself, `[G, N]`."""
        return np.diagonal(self.covariance, axis1=1, axis2=2)

    @property
    def same_example(self):
        """1 for two outputs of one example, 0 for others, `[N, N]`."""
        num_positions = self.mean.shape[1] // 2
        return np.kron(np.eye(2), np.ones([num_positions] * 2))

    @property
    def correlation(self):
        """Correlation that belongs to `covariance`, `[G, N, N]`."""
        stddev = np.sqrt(self.variance)
        return self.covariance / (stddev[:, :, None] * stddev[:, None, :])

    def standardized_products(self):
        """Products of standardized outputs; their mean is the correlation.

        Returns:
            products: `[S, G, N, N]`.
        """
        z = (self.draws - self.mean) / np.sqrt(self.variance)
        return z[..., :, None] * z[..., None, :]

    def sums_over_space(self):
        """Sums of the draws over the positions of an example, `[S, G, 2]`."""
        return np.sum(np.reshape(self.draws, (*self.draws.shape[:2], 2, -1)), 3)


def draw(make_layer, input_shape, **arguments):
    """Draws outputs of a layer, and computes their moments.

    Args:
        make_layer: Class of the layer.
        input_shape: Shape of an input example.
        **arguments: Arguments of the layer but the number of filters.

    Returns:
        draws: `ConvDraws`.
    """
    rng = np.random.default_rng(4)
    x = rng.normal(1.0, 0.7, size=(2, *input_shape)).astype("float32")
    layer = make_layer(**_with_filters(make_layer, NUM_DRAWS, arguments))
    layer.build(x.shape)
    num_groups = layer.bias.shape[0] // NUM_DRAWS
    size = layer.kernel.value.shape.num_elements() // layer.bias.shape[0]
    # The posterior of a filter: all its weights differ.
    loc = rng.normal(size=(size, num_groups))
    scale = rng.uniform(0.3, 1.5, size=(size, num_groups))
    bias_loc = rng.normal(size=num_groups)
    bias_scale = rng.uniform(0.3, 0.6, size=num_groups)
    kernel, bias = layer.variational_weights
    kernel.assign(
        loc=_as_kernel(layer, _repeat(loc)),
        scale=_as_kernel(layer, _repeat(scale)),
    )
    bias.assign(
        loc=np.ravel(_repeat(bias_loc)), scale=np.ravel(_repeat(bias_scale))
    )
    outputs = _split(layer, layer(x), num_groups)  # [N, G, S]

    matrix = _matrix(layer, x, num_groups, size)  # [N, G, size]
    mean = np.einsum("ngk,kg->gn", matrix, loc) + bias_loc[:, None]
    covariance = (
        np.einsum("ngk,kg,mgk->gnm", matrix, scale**2, matrix)
        + bias_scale[:, None, None] ** 2
    )
    return ConvDraws(np.transpose(outputs), mean, covariance)


def _with_filters(make_layer, num, arguments):
    """Returns the arguments of a layer with `num` filters in each group."""
    if "Depthwise" in make_layer.__name__:
        return {**arguments, "depth_multiplier": num}
    return {**arguments, "filters": num * arguments.get("groups", 1)}


def _repeat(values):
    return np.repeat(values[..., None], NUM_DRAWS, axis=-1)


def _as_kernel(layer, filters):
    """Returns the kernel of given filters, `[size, G, number in a group]`."""
    if "Transpose" in type(layer).__name__:
        shape = (*layer.kernel_size, layer.kernel.shape[-1], -1)
        return np.swapaxes(np.reshape(filters, shape), -1, -2)
    shape = (*layer.kernel.shape[:-1], -1)
    return np.reshape(filters, shape)


def _split(layer, outputs, num_groups):
    """Returns outputs, `[N, G, number in a group]`."""
    outputs = np.asarray(outputs, "float64")
    if layer.data_format == "channels_first":
        outputs = np.moveaxis(outputs, 1, -1)
    positions = np.prod(outputs.shape[:-1])
    return np.reshape(outputs, (positions, num_groups, -1))


def _matrix(layer, x, num_groups, size):
    """Returns the part of each weight of a filter in each output.

    The map is linear in the kernel, so these are the outputs of Keras' own
    layer for filters that are 1 at one place and 0 at the others.
    """
    arguments = {name: getattr(layer, name) for name in layer.map_arguments}
    arguments = _with_filters(layer.keras_layer, size, arguments)
    twin = layer.keras_layer(use_bias=False, **arguments)
    twin.build(x.shape)
    one_hot = np.repeat(np.eye(size)[:, None], num_groups, axis=1)
    twin.kernel.assign(_as_kernel(twin, one_hot))
    assert keras.ops.size(twin.kernel) == one_hot.size
    return _split(twin, twin(x), num_groups)
