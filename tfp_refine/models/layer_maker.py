"""Layers of a model, each with random numbers of its own."""

import functools
import inspect
from typing import TypeAlias

import keras

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.layers import argument_checks

# A class of layers, or one with some of its arguments.
Kind: TypeAlias = type[keras.layers.Layer] | functools.partial

# Arguments of a model that are those of its layers, and the layers' defaults.
_DEFAULTS = {
    name: _validation.parameters(layers.VariationalLayer)[name].default
    for name in (
        "kernel_initializer",
        "kernel_posterior",
        "bias_posterior",
        "kernel_regularizer",
        "bias_regularizer",
        "num_train_examples",
        "kl_scale",
    )
}


def _is_default(name, value):
    """Returns whether an argument is the default one of variational layers."""
    default = _DEFAULTS[name]
    return type(value) is type(default) and value == default


class LayerMaker:
    """Makes the layers of one model.

    An initializer object gives the same values at each use. Layers made here
    never share one: they get copies, with seeds of their own. The initial
    weights and the noise of each layer come from streams of their own, which
    differ for different seeds; `None` is a fresh seed.

    `arguments` are those of the model, its `locals()`. Of these, layers get the
    posteriors, the regularizers and the like, where they differ from the
    defaults of variational layers. So a layer of Keras gets none by default.
    """

    def __init__(self, seed=None, arguments=None):
        self._seed = None if seed is None else functional.seeds.check(seed)
        self._count = 0
        self._shared = {
            name: value
            for name, value in (arguments or {}).items()
            if name in _DEFAULTS and not _is_default(name, value)
        }

    def __call__(self, layer, *args, argument="layer", **arguments):
        """Makes an unbuilt layer; a class, or a `functools.partial` of one."""
        kind, bound = layer, {}
        if isinstance(layer, functools.partial):
            kind, bound = layer.func, layer.keywords
        is_kind = isinstance(kind, type) and issubclass(
            kind, keras.layers.Layer
        )
        if not is_kind or (kind is not layer and layer.args):
            raise ValueError(
                f"`{argument}` must be a class of layers, or a "
                "functools.partial of one with keyword arguments. "
                f"Received: {argument}={layer!r}"
            )
        shared = _accepted(kind, self._shared)
        return self.make(kind, *args, **bound | shared | arguments)

    def make(self, layer, *args, **arguments):
        """Makes an unbuilt layer with these arguments, and none of a model."""
        noise, kernel, bias = (self._key(purpose) for purpose in range(3))
        self._count += 1
        known = _parameters(layer)
        if noise is not None and "seed" in known:
            arguments.setdefault("seed", noise)
        if "kernel_initializer" in known:
            arguments.setdefault("kernel_initializer", "glorot_uniform")
        argument_checks.check(arguments)
        if layer is keras.layers.MultiHeadAttention:
            argument_checks.check_initializers_with_configs(
                kernel_initializer=arguments["kernel_initializer"]
            )
        for name in arguments:
            if name.endswith("initializer"):
                key = bias if name == "bias_initializer" else kernel
                arguments[name] = _reseeded(arguments[name], key)
        return layer(*args, **arguments)

    def _key(self, purpose):
        if self._seed is None:
            return None
        return functional.seeds.key(self._seed, self._count, purpose)


def _accepted(kind, arguments):
    """Returns the arguments that a class takes; refuses others.

    A layer without posteriors is a point estimate already, which `None` asks
    for.
    """
    known = _parameters(kind)
    is_variational = bool(known & {"kernel_posterior", "bias_posterior"})
    arguments = renamed(kind, arguments)
    for name, value in arguments.items():
        if name not in known and (value is not None or is_variational):
            raise ValueError(
                f"`{name}` is not an argument of {kind.__name__}. "
                f"Received: {name}={value!r}"
            )
    return {name: arguments[name] for name in known & arguments.keys()}


def renamed(kind, arguments):
    """Returns arguments of a kernel by the names that a class has for them."""
    known = _parameters(kind)
    names = {name: name.replace("kernel_", "depthwise_") for name in arguments}
    return {
        names[name] if names[name] in known else name: value
        for name, value in arguments.items()
    }


def _parameters(kind):
    """Returns the names of a constructor's arguments, with those passed on."""
    names = set()
    for base in inspect.getmro(kind):
        if "__init__" in vars(base):
            parameters = inspect.signature(base.__init__).parameters
            names |= parameters.keys()
            if all(v.kind is not v.VAR_KEYWORD for v in parameters.values()):
                break
    return names


def _reseeded(initializer, seed):
    """Copies an initializer; one with a seed that was chosen keeps it."""
    initializer = keras.initializers.get(initializer)
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config or config["seed"] is not None:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})
