"""Strategies of all layers with posteriors, with inputs that they take."""

import copy
import dataclasses
import math
import re

import keras
import numpy as np
from hypothesis import strategies as st

from tests.properties import posteriors
from tests.support import conv_layers
from tests.support import layer_case
from tfp_refine import layers

DENSE = (
    layers.DenseReparameterization,
    layers.DenseLocalReparameterization,
    layers.DenseFlipout,
)
EINSUM = (
    layers.EinsumDenseReparameterization,
    layers.EinsumDenseLocalReparameterization,
    layers.EinsumDenseFlipout,
)
CONVOLUTIONS = conv_layers.CONVOLUTIONS
WITH_FLOWS = (layers.DenseMNF, layers.Conv2DMNF)
SAMPLED = (
    layers.EmbeddingReparameterization,
    layers.LSTMReparameterization,
    layers.GRUReparameterization,
)
LINEAR = (
    *DENSE,
    *EINSUM,
    *CONVOLUTIONS,
    *conv_layers.TRANSPOSED,
    *conv_layers.DEPTHWISE,
    *WITH_FLOWS,
)
ALL = (*LINEAR, *SAMPLED)
# Their rounding, relative to the largest number.
ROUNDING = {"float64": 1e-10, "float32": 2e-5, "float16": 0.02, "bfloat16": 0.1}
_CHANNELS_LAST = {"data_format": "channels_last"}
_DTYPES = ("float32", "float64", "mixed_bfloat16", "mixed_float16")


@dataclasses.dataclass
class Case:
    """A layer of some class with some arguments, and inputs for it."""

    kind: type
    arguments: dict
    shape: tuple  # of the inputs, without the batch axis
    batch_size: int

    def __repr__(self):
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.arguments.items())
        return (
            f"layers.{self.kind.__name__}({arguments}) of inputs "
            f"{(self.batch_size, *self.shape)}"
        )

    def make(self, **changes):
        """Returns a new layer that shares no object with others."""
        return self.kind(**{**copy.deepcopy(self.arguments), **changes})

    def built(self, **changes):
        """Returns it with its weights."""
        layer = self.make(**changes)
        layer.build((None, *self.shape))
        return layer

    def inputs(self):
        """Returns inputs, always the same ones."""
        rng = np.random.default_rng(7)
        shape = (self.batch_size, *self.shape)
        if self.kind is layers.EmbeddingReparameterization:
            return rng.integers(0, self.arguments["input_dim"], shape)
        return rng.normal(size=shape).astype(self.input_dtype())

    def input_dtype(self):
        """Returns the dtype that the inputs lose nothing in."""
        return "float64" if self.arguments.get("dtype") == "float64" else None

    def functional(self, layer):
        """Returns a model of nothing but a layer."""
        integers = self.kind is layers.EmbeddingReparameterization
        inputs = keras.Input(
            self.shape, dtype="int64" if integers else self.input_dtype()
        )
        return keras.Model(inputs, layer(inputs))

    def expected(self, layer, x):
        """Computes the outputs of the Keras layer at the means of a layer.

        With the channels last: where a convolution has the channels first, and
        as many as positions along the last axis, Keras 3.15 adds the bias along
        that axis.
        """
        first = self.arguments.get("data_format") == "channels_first"
        twin = self._twin(layer, _CHANNELS_LAST if first else {})
        outputs = twin(np.moveaxis(x, 1, -1) if first else x)
        if first:
            outputs = keras.ops.moveaxis(outputs, -1, 1)
        return outputs

    def _twin(self, layer, changes):
        if isinstance(layer, layers.SampledLayer):
            config = layer.layer.get_config()
            twin = type(layer.layer).from_config(_without_priors(config))
            twin.build((None, *self.shape))
            twin.set_weights(layer.layer.get_weights())
            return twin
        reference = getattr(layer, "keras_layer", keras.layers.Dense)
        names = layer_case.init_arguments(reference) | {"dtype"}
        config = {k: v for k, v in layer.get_config().items() if k in names}
        twin = reference.from_config(_without_priors(config) | changes)
        shape = self.shape
        if changes:
            shape = (*shape[1:], shape[0])
        twin.build((None, *shape))
        for weight in layer.weight_tensors:
            getattr(twin, weight.name).assign(weight.mean(weight.loc.dtype))
        return twin


def _without_priors(config):
    return {
        name: None
        if name.endswith("_regularizer") and "activity" not in name
        else value
        for name, value in config.items()
    }


def spread(layer):
    """Moves means and scales to random places; returns the layer."""
    rng = np.random.default_rng(8)
    for weight in layer.weight_tensors:
        weight.loc.assign(rng.normal(size=weight.loc.shape))
        for variable in getattr(weight, "scale_weights", ()):
            variable.assign(0.5 * rng.normal(size=variable.shape))
    return layer


@st.composite
def _common(draw, kind, parts):
    """Draws the arguments that all layers take."""
    arguments = {
        "dtype": draw(st.sampled_from(_DTYPES)),
        "num_train_examples": draw(st.integers(1, 10**6)),
        "kl_scale": draw(st.one_of(st.just(1.0), st.floats(0.0, 10.0))),
        "seed": draw(st.one_of(st.none(), st.integers(0, 2**31 - 1))),
        "use_bias": draw(st.booleans()),
    }
    for part in parts:
        has_family = part != "kernel" or kind not in WITH_FLOWS
        of_part = posteriors.of_weight(part, kind.draws_weights, has_family)
        arguments |= draw(of_part)
    return arguments


@st.composite
def _of_linear(draw, kind):
    arguments = draw(_common(kind, ("kernel", "bias")))
    initializers = st.sampled_from(["glorot_uniform", "he_normal", "zeros"])
    constraints = st.sampled_from([None, None, "non_neg", "max_norm"])
    activations = [None, "relu", "tanh", "softplus", "sigmoid", "elu"]
    arguments |= {
        "activation": draw(st.sampled_from(activations)),
        "kernel_initializer": draw(initializers),
        "bias_initializer": draw(st.sampled_from(["zeros", "random_normal"])),
        "kernel_constraint": draw(constraints),
        "bias_constraint": draw(constraints),
        "activity_regularizer": draw(st.sampled_from([None, None, "l2"])),
        "sample": draw(st.sampled_from([True, True, False])),
    }
    if kind in WITH_FLOWS:
        arguments |= draw(_of_flows())
    return arguments


@st.composite
def _of_flows(draw):
    flow_lengths, units = st.integers(0, 2), st.integers(1, 4)
    estimators = ["local_reparameterization", "reparameterization"]
    return {
        "flow_length": draw(flow_lengths),
        "flow_units": draw(units),
        "auxiliary_flow_length": draw(flow_lengths),
        "auxiliary_flow_units": draw(units),
        "masks": draw(st.sampled_from(["random", "alternating"])),
        "auxiliary": draw(st.sampled_from(["log_precision", "paper"])),
        "log_var_init": draw(st.floats(-12.0, 1.0)),
        "z_var_init": draw(st.floats(1e-4, 1.0)),
        "max_std": draw(st.one_of(st.none(), st.floats(0.01, 2.0))),
        "inference_estimator": draw(st.sampled_from(estimators)),
    }


@st.composite
def dense(draw, kind):
    """Draws cases of a class of dense layers."""
    arguments = draw(_of_linear(kind))
    arguments["units"] = draw(st.integers(1, 4))
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return Case(kind, arguments, tuple(shape), draw(st.integers(1, 3)))


@st.composite
def einsum(draw, kind):
    """Draws cases of a class of einsum layers."""
    arguments = draw(_of_linear(kind))
    del arguments["use_bias"]
    letters = iter(draw(st.permutations("bcdefg")))
    # Of positions, of groups of units, summed over with weights and without,
    # and of units.
    positions, groups, contracted, dropped, units = (
        [next(letters) for _ in range(draw(st.integers(least, most)))]
        for least, most in ((0, 1), (0, 1), (1, 2), (0, 1), (0, 1))
    )

    def shuffled(*parts):
        return "".join(draw(st.permutations(sum(parts, []))))

    inputs = shuffled(positions, groups, contracted, dropped)
    outputs = shuffled(positions, groups, units)
    kernel = shuffled(groups, contracted, units)
    # All sizes differ: Keras adds a bias along the last axis that fits.
    sizes = dict(zip("bcdefg", draw(st.permutations(range(2, 8))), strict=True))
    first = draw(st.sampled_from(["a", "..."]))
    subsets = st.sets(st.sampled_from(outputs), min_size=1) if outputs else None
    arguments |= {
        "equation": f"{first}{inputs},{kernel}->{first}{outputs}",
        "output_shape": tuple(sizes[letter] for letter in outputs),
        "bias_axes": "".join(draw(subsets))
        if subsets is not None and draw(st.booleans())
        else None,
    }
    if first == "..." and not outputs:  # which Keras does not take
        arguments["equation"] = f"a{inputs},{kernel}->a"
    shape = tuple(sizes[letter] for letter in inputs)
    return Case(kind, arguments, shape, draw(st.integers(1, 3)))


def _one_or_each(draw, values):
    """Draws whether sizes that are all the same are given as one number."""
    if len(set(values)) == 1 and draw(st.booleans()):
        return values[0]
    return tuple(values)


def rank(kind):
    """Returns the number of spatial axes of a class of convolutions."""
    return int(re.search(r"(\d)D", kind.__name__)[1])


@st.composite
def convolution(draw, kind):
    """Draws cases of a class of convolutions, of any kind."""
    arguments = draw(_of_linear(kind))
    axes = range(rank(kind))
    kernel = [draw(st.integers(1, 3)) for _ in axes]
    strides, dilation = [1 for _ in axes], [1 for _ in axes]
    changes = ["strides", "dilation", "none"]
    if kind in conv_layers.TRANSPOSED:
        changes.remove("dilation")  # which TensorFlow lacks on a CPU
    change = draw(st.sampled_from(changes))
    if change == "strides":
        strides = [draw(st.integers(1, 3)) for _ in axes]
        if kind in conv_layers.DEPTHWISE:  # as TensorFlow needs
            strides = [strides[0] for _ in axes]
    elif change == "dilation":
        dilation = [draw(st.integers(1, 2)) for _ in axes]
    paddings = ["valid", "same"]
    if kind in CONVOLUTIONS and rank(kind) == 1:
        paddings.append("causal")
    # TensorFlow's own have the channels first on a CPU in float32 alone, and
    # Keras compiles each call of the 3D ones.
    only_last = rank(kind) == 3 or arguments["dtype"] != "float32"
    last = only_last or draw(st.booleans())
    arguments |= {
        "kernel_size": _one_or_each(draw, kernel),
        "strides": _one_or_each(draw, strides),
        "dilation_rate": _one_or_each(draw, dilation),
        "padding": draw(st.sampled_from(paddings)),
        "data_format": "channels_last" if last else "channels_first",
    }
    channels, units = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    if kind in (*CONVOLUTIONS, layers.Conv2DMNF):
        # Rarely more than one: they are compiled at each call.
        groups = draw(st.sampled_from([1] * 9 + [2]))
        arguments |= {"groups": groups, "filters": groups * units}
        channels *= groups
    elif kind in conv_layers.DEPTHWISE:
        arguments["depth_multiplier"] = units
        for name in ("initializer", "regularizer", "constraint"):
            arguments[f"depthwise_{name}"] = arguments.pop(f"kernel_{name}")
    else:
        arguments["filters"] = units
        if change == "strides" and draw(st.booleans()):
            arguments["output_padding"] = tuple(
                draw(st.integers(0, stride - 1)) for stride in strides
            )
            if 0 in np.add(arguments["output_padding"], np.mod(kernel, 2)):
                arguments["padding"] = "valid"
    windows = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    if kind in conv_layers.TRANSPOSED:
        windows = [1 for _ in axes]
    elif kind in conv_layers.DEPTHWISE:
        # Else TensorFlow's gradient may be NaN in bfloat16 on a CPU.
        windows = np.maximum(windows, strides).tolist()
    space = [window + draw(st.integers(0, 2)) for window in windows]
    shape = (*space, channels) if last else (channels, *space)
    return Case(kind, arguments, shape, draw(st.integers(1, 3)))


@st.composite
def embedding(draw, kind):
    """Draws cases of the embedding."""
    arguments = draw(_common(kind, ("embeddings",)))
    del arguments["use_bias"]
    arguments |= {
        "input_dim": draw(st.integers(1, 5)),
        "output_dim": draw(st.integers(1, 3)),
        "mask_zero": draw(st.booleans()),
    }
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    return Case(kind, arguments, tuple(shape), draw(st.integers(1, 3)))


@st.composite
def recurrent(draw, kind):
    """Draws cases of a class of recurrent layers."""
    arguments = draw(_common(kind, ("kernel", "recurrent", "bias")))
    arguments |= {
        "units": draw(st.integers(1, 3)),
        "return_sequences": draw(st.booleans()),
        "go_backwards": draw(st.booleans()),
        "unroll": draw(st.booleans()),
        "activation": draw(st.sampled_from(["tanh", "softplus"])),
    }
    if kind is layers.GRUReparameterization:
        arguments["reset_after"] = draw(st.booleans())
    else:
        arguments["unit_forget_bias"] = draw(st.booleans())
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    return Case(kind, arguments, shape, draw(st.integers(1, 3)))


def of(kind):
    """Draws cases of one class."""
    if kind is layers.EmbeddingReparameterization:
        return embedding(kind)
    if kind in SAMPLED:
        return recurrent(kind)
    if kind in DENSE or kind is layers.DenseMNF:
        return dense(kind)
    if kind in EINSUM:
        return einsum(kind)
    return convolution(kind)


def any_of(kinds):
    """Draws cases of several classes, each as often."""
    return st.sampled_from(kinds).flatmap(of)


def size(shape):
    """Returns the number of elements of a shape."""
    return math.prod(shape)
