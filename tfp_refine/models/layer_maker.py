"""Layers of a model, each with random numbers of its own."""

import keras

from tfp_refine import layers


class LayerMaker:
    """Makes the layers of one model.

    An initializer object gives the same values at each use. Layers made here
    never share one: they get copies, with seeds of their own.

    Args:
        seed: Integer, or `None` for fresh seeds. The `i`-th layer gets
            `seed + i`, for its initial weights and its noise.
    """

    def __init__(self, seed=None):
        self._seed = seed
        self._count = 0

    def __call__(self, layer, *args, **arguments):
        """Makes a layer.

        Args:
            layer: Class of the layer.
            *args: Its positional arguments.
            **arguments: Its keyword arguments.

        Returns:
            layer: Layer that is not built.
        """
        seed = None if self._seed is None else self._seed + self._count
        self._count += 1
        if seed is not None and issubclass(layer, layers.VariationalLayer):
            arguments.setdefault("seed", seed)
        for name in ("kernel_initializer", "bias_initializer"):
            if name in arguments or name == "kernel_initializer":
                arguments[name] = _reseeded(
                    arguments.get(name, "glorot_uniform"), seed
                )
        return layer(*args, **arguments)


def _reseeded(initializer, seed):
    """Copies an initializer; one with a seed that was chosen keeps it."""
    initializer = keras.initializers.get(initializer)
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config or config["seed"] is not None:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})
