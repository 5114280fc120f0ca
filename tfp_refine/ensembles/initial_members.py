"""Members that start at random, each from weights of its own."""

import keras
import numpy as np

from tfp_refine import functional


def initial_members(model, num_members, seed):
    """Draws initial weights for each member.

    `model` is as for `deep_ensemble`. Returns the `WeightView` of the (first)
    model, trainable weights `[M, P]`, and fixed ones, a list of `[M, ...]`.
    """
    seeds = [
        functional.seeds.key(seed, number) for number in range(num_members)
    ]
    if isinstance(model, keras.Model):
        view = functional.WeightView(model)
        params = [view.params(_with_new_weights(model, s)) for s in seeds]
        fixed = [view.fixed()] * num_members
    elif callable(model):
        views = []
        for one in seeds:
            views.append(_view(model(one)))
            if views[0].shapes != views[-1].shapes:
                raise ValueError(
                    "`model` must return models with weights of the same "
                    f"shapes. Received: {views[0].shapes} and "
                    f"{views[-1].shapes}"
                )
        view = views[0]
        params = [one.params() for one in views]
        fixed = [one.fixed() for one in views]
    else:
        raise ValueError(
            "`model` must be a keras.Model, or a function of a seed to one. "
            f"Received: {type(model).__name__}"
        )
    fixed = [np.stack(values) for values in zip(*fixed, strict=True)]
    return view, np.stack(params), fixed


def _view(model):
    if not isinstance(model, keras.Model):
        raise ValueError(
            "`model` must return a keras.Model. "
            f"Received: {type(model).__name__}"
        )
    return functional.WeightView(model)


def _with_new_weights(model, seed):
    """Copies a model; its initializers draw from `seed`."""
    rng = np.random.default_rng(seed)

    def copy(layer):
        config = layer.get_config()
        _reseed(config, rng)
        return type(layer).from_config(config)

    try:
        with functional.copying.uncompiled(model):
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
