"""KL regularizers by name, config or object."""

from typing import Any

import keras

from tfp_refine.regularizers import collapsed_mean_kl
from tfp_refine.regularizers import collapsed_mean_variance_kl
from tfp_refine.regularizers import empirical_bayes_kl
from tfp_refine.regularizers import gaussian_kl
from tfp_refine.regularizers import kl_regularizer
from tfp_refine.regularizers import log_uniform_kl
from tfp_refine.regularizers import scale_mixture_kl

_BY_NAME = {
    "collapsed_mean_kl": collapsed_mean_kl.CollapsedMeanKL,
    "collapsed_mean_variance_kl": (
        collapsed_mean_variance_kl.CollapsedMeanVarianceKL
    ),
    "collapsed_variance_kl": collapsed_mean_variance_kl.CollapsedVarianceKL,
    "empirical_bayes_kl": empirical_bayes_kl.EmpiricalBayesKL,
    "gaussian_kl": gaussian_kl.GaussianKL,
    "log_uniform_kl": log_uniform_kl.LogUniformKL,
    "scale_mixture_kl": scale_mixture_kl.ScaleMixtureKL,
}


def get(identifier: Any) -> keras.regularizers.Regularizer | None:
    """Retrieves a regularizer from a name, a config or an object.

    Args:
        identifier: Name of a KL regularizer in snake case ("gaussian_kl"), or
            anything that `keras.regularizers.get` accepts, `None` included.

    Returns:
        regularizer: A `KLRegularizer`, another Keras regularizer, or `None`.

    Raises:
        ValueError: If the name or the config is unknown.

    Example:

    ```python
    regularizer = tfp_refine.regularizers.get("collapsed_mean_kl")
    tfp_refine.regularizers.is_kl(regularizer)  # True
    ```
    """
    if isinstance(identifier, str) and identifier in _BY_NAME:
        return _BY_NAME[identifier]()
    try:
        return keras.regularizers.get(identifier)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "A regularizer must be one of "
            f"{sorted(_BY_NAME)}, a Keras regularizer or its name, or None. "
            f"Received: {identifier!r}"
        ) from error


def is_kl(regularizer: Any) -> bool:
    """Returns whether a regularizer compares a posterior with a prior.

    Args:
        regularizer: Keras regularizer, or `None`.

    Returns:
        is_kl: Whether it is a `KLRegularizer`.

    Example:

    ```python
    tfp_refine.regularizers.is_kl(keras.regularizers.L2(1e-4))  # False
    ```
    """
    return isinstance(regularizer, kl_regularizer.KLRegularizer)
