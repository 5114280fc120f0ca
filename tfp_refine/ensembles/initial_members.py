"""Members that start at random, each from weights of its own."""

import keras
import numpy as np

from tfp_refine import functional


def initial_members(model, num_members, seed):
    """Draws initial weights for each member.

    Args:
        model: Built `keras.Model`, functional or Sequential, or a function of
            an integer, the seed, to a built model.
        num_members: `M`.
        seed: Integer.

    Returns:
        model: A model of the architecture.
        params: Trainable weights, array `[M, P]`.
        others: Other weights, array `[M, V]`.

    Raises:
        ValueError: If the model is subclassed, cannot be copied, or a function
            returns something else, or models of different architectures.
    """
    seeds = [
        functional.seeds.key(seed, number) for number in range(num_members)
    ]
    if isinstance(model, keras.Model):
        members = (_with_new_weights(model, one) for one in seeds)
    elif callable(model):
        members = map(model, seeds)
    else:
        raise ValueError(
            "`model` must be a keras.Model, or a function of a seed to one. "
            f"Received: {type(model).__name__}"
        )
    first, values = None, []
    for member in members:
        if not isinstance(member, keras.Model):
            raise ValueError(
                "`model` must return a keras.Model. "
                f"Received: {type(member).__name__}"
            )
        weights = functional.ModelWeights(member)
        if first is None:
            first, shapes = member, weights.shapes
        if weights.shapes != shapes:
            raise ValueError(
                "`model` must return models with weights of the same shapes. "
                f"Received: {shapes} and {weights.shapes}"
            )
        values.append(weights.values())
    params, others = map(np.stack, zip(*values, strict=True))
    return first, params, others


def _with_new_weights(model, seed):
    """Copies a model; its initializers draw from `seed`."""
    rng = np.random.default_rng(seed)

    def copy(layer):
        config = layer.get_config()
        _reseed(config, rng)
        return type(layer).from_config(config)

    try:
        return keras.models.clone_model(
            model, clone_function=copy, recursive=True
        )
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ValueError(
            f"The model '{model.name}' cannot be copied with other initial "
            "weights: give a function of a seed that returns the model in its "
            f"place. ({error})"
        ) from error


def _reseed(config, rng):
    """Gives every object in a configuration another seed, in place."""
    if isinstance(config, dict):
        inner = config.get("config")
        if isinstance(inner, dict) and "seed" in inner:
            inner["seed"] = int(rng.integers(2**31))
        for value in config.values():
            _reseed(value, rng)
    elif isinstance(config, list | tuple):
        for value in config:
            _reseed(value, rng)
