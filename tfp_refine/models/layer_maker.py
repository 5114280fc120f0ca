"""Layers of a model, each with random numbers of its own."""

import keras

from tfp_refine import functional
from tfp_refine import layers


class LayerMaker:
    """Makes the layers of one model.

    An initializer object gives the same values at each use. Layers made here
    never share one: they get copies, with seeds of their own. The initial
    weights and the noise of each layer come from streams of their own, which
    differ for different seeds; `None` is a fresh seed.
    """

    def __init__(self, seed=None):
        self._seed = None if seed is None else functional.seeds.check(seed)
        self._count = 0

    def __call__(self, layer, *args, **arguments):
        """Makes an unbuilt layer of a class, with these arguments."""
        noise, kernel, bias = (self._key(purpose) for purpose in range(3))
        self._count += 1
        if noise is not None and issubclass(layer, layers.VariationalLayer):
            arguments.setdefault("seed", noise)
        arguments.setdefault("kernel_initializer", "glorot_uniform")
        for name, key in (
            ("kernel_initializer", kernel),
            ("bias_initializer", bias),
        ):
            if name in arguments:
                arguments[name] = _reseeded(arguments[name], key)
        return layer(*args, **arguments)

    def _key(self, purpose):
        if self._seed is None:
            return None
        return functional.seeds.key(self._seed, self._count, purpose)


def _reseeded(initializer, seed):
    """Copies an initializer; one with a seed that was chosen keeps it."""
    initializer = keras.initializers.get(initializer)
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config or config["seed"] is not None:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})
