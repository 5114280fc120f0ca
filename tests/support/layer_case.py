"""One variational layer under test: how it is made, and its inputs."""

import keras
import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.math import softplus

NUM_TRAIN_EXAMPLES = 50

# Arguments of Keras' layers that have no meaning for a random kernel.
DETERMINISTIC_ONLY = {
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
}

# Begin with `depthwise_` where Keras' arguments do.
_RENAMED = {"kernel_initializer", "kernel_regularizer", "kernel_constraint"}

# Those of `keras.layers.Layer`.
_OF_ALL_LAYERS = {"kwargs", "name", "dtype", "trainable"}


class LayerCase:
    """A layer that can be made anew, with some arguments changed.

    Args:
        make_layer: Function of keyword arguments, which go before its own,
            that returns a new layer.
        input_shape: Shape of an input example.
        reference: Class of the deterministic Keras layer.
    """

    def __init__(self, make_layer, input_shape, reference):
        self._make_layer = make_layer
        self.input_shape = tuple(input_shape)
        self.reference = reference

    def inputs(self, batch_size=4):
        """Returns random inputs, always the same ones."""
        rng = np.random.default_rng(7)
        return rng.normal(size=(batch_size, *self.input_shape)).astype(
            "float32"
        )

    def make(self, **changes):
        """Returns a new layer that is not built."""
        changes = {self._name(name): v for name, v in changes.items()}
        is_einsum = self.reference is keras.layers.EinsumDense
        if is_einsum and not changes.pop("use_bias", True):
            changes["bias_axes"] = None
        return self._make_layer(
            **{"num_train_examples": NUM_TRAIN_EXAMPLES, "seed": 1, **changes}
        )

    def arguments(self):
        """Returns the names of all arguments of the layer, Keras' own aside."""
        return init_arguments(type(self.make()))

    def _name(self, name):
        """Returns the layer's name of an argument of the others."""
        is_depthwise = self.reference.__name__.startswith("Depthwise")
        if is_depthwise and name in _RENAMED:
            return name.replace("kernel_", "depthwise_")
        return name

    def built(self, **changes):
        """Returns a new layer whose posterior is nowhere near its start."""
        layer = self.make(**changes)
        layer.build((None, *self.input_shape))
        return spread(layer)

    def functional(self, layer):
        """Returns a model of nothing but `layer`."""
        inputs = keras.Input(self.input_shape)
        return keras.Model(inputs, layer(inputs))

    def twin(self, layer):
        """Returns the Keras layer with the arguments and means of `layer`."""
        names = init_arguments(self.reference) | {"activity_regularizer"}
        config = {k: v for k, v in layer.get_config().items() if k in names}
        for name in config:
            if name.endswith("_regularizer") and "activity" not in name:
                config[name] = None
        twin = self.reference.from_config(config)
        if layer.built:
            twin.build((None, *self.input_shape))
            means = {
                w.name: w.mean("float32") for w in layer.variational_weights
            }
            twin.kernel.assign(means.get("kernel", layer.kernel))
            if layer.bias is not None:
                twin.bias.assign(layer.bias)
        return twin

    def targets(self, model):
        """Returns targets that `model` does not hit at its start."""
        return np.full((4, *model.output_shape[1:]), 3.0, "float32")


def init_arguments(cls):
    """Returns the names of the arguments of a layer, but for name and dtype."""
    return set(_validation.parameters(cls)) - _OF_ALL_LAYERS


def spread(layer):
    """Assigns random means and scales of order one, and returns `layer`."""
    rng = np.random.default_rng(8)
    for weight in layer.variational_weights:
        assign(
            weight,
            loc=rng.normal(size=weight.loc.shape),
            scale=rng.uniform(0.5, 1.0, size=weight.loc.shape),
        )
        # Of flows.
        for variable in weight.scale_weights[1:]:
            variable.assign(0.7 * rng.normal(size=variable.shape))
    return layer


def assign(weight, loc, scale):
    """Sets means and scales; those given multipliers, if there are any."""
    weight.loc.assign(loc)
    weight.untransformed_scale.assign(
        softplus.inverse(keras.ops.cast(scale, weight.loc.dtype))
    )


def reseeded_losses(layer):
    """Returns losses, which are random ones of always the same draw."""
    functional.seeds.reseed(layer, 3)
    return layer.losses


def total(losses):
    """Returns the sum of losses as a float."""
    return sum(float(loss) for loss in losses)


def values(variables):
    """Returns copies of variables' values."""
    return [np.array(keras.ops.convert_to_numpy(v)) for v in variables]


def differ(outputs, others):
    """Tells whether outputs differ in most elements, saturated ones aside."""
    return np.mean(np.isclose(outputs, others)) < 0.5
