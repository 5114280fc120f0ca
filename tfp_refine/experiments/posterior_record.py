"""What a record holds of a posterior and of its training."""

import keras
import numpy as np


def variational_weights(model):
    """Returns a model's weights with a posterior, a list; perhaps empty."""
    return [
        weight
        for layer in model._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
    ]


def is_random(model_or_ensemble):
    """Tells whether predictions are draws."""
    return not isinstance(model_or_ensemble, keras.Model) or bool(
        variational_weights(model_or_ensemble)
    )


def kl_and_elbo(num_examples, model, entry):
    """Computes a segment's KL divergence and bound, nats.

    The bound takes its likelihood from the batches of the segment, so it lags
    behind the model a little.

    Args:
        num_examples: Number of training examples.
        model: The model after the segment.
        entry: Its entry of the history.

    Returns:
        scalars: Dict; empty for a model without posteriors.
    """
    weights = variational_weights(model)
    if not weights:
        return {}
    # Some are estimates: the same ones after a restart.
    seed = keras.random.SeedGenerator(entry["step"])
    kl = sum(float(weight.kl(seed=seed, limited=True)) for weight in weights)
    return {"kl": kl, "elbo": -num_examples * entry["nll"] - kl}


def about(trained):
    """Returns what a record holds of a training itself.

    Args:
        trained: `training.Training`.

    Returns:
        record: Dict.
    """
    return {
        "history": trained.history,
        "training_seconds": sum(e["seconds"] for e in trained.history),
    }


def standard_error(values):
    """Returns the standard error of a mean; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))
