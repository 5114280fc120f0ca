"""Initializers of posteriors that look at no data."""

import math

import keras
import tensorflow as tf

from tfp_refine.initializers import initializer


class Heuristic(initializer.PosteriorInitializer):
    """Starts posteriors at mean 0 and variance `1 / fan_in`, biases too.

    Args:
        seed: Not used.
        verbose: As for `PosteriorInitializer`.

    Example:

    ```python
    tfp_refine.initializers.Heuristic()(model)
    ```

    Reference:
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    def _initialize_layer(self, layer, rng):
        shape = layer.columns(layer.kernel).shape
        initializer.assign(layer, tf.zeros(shape), 1.0 / shape[0])


class Orthogonal(initializer.PosteriorInitializer):
    """Starts kernels at orthogonal means and variance `2 / fan_in`.

    The columns of the units, or if there are more of those than inputs the
    rows, are orthonormal. Biases have mean 0 and the same variance.

    Args:
        seed: As for `PosteriorInitializer`.
        verbose: Likewise.

    Example:

    ```python
    tfp_refine.initializers.Orthogonal(seed=1)(model)
    ```

    References:
        - [Saxe et al., 2014](https://arxiv.org/abs/1312.6120)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    def _initialize_layer(self, layer, rng):
        draw = keras.initializers.Orthogonal(seed=int(rng.integers(2**31 - 1)))
        shape = layer.columns(layer.kernel).shape
        initializer.assign(layer, draw(shape, "float32"), 2.0 / shape[0])


class Uninformative(initializer.PosteriorInitializer):
    """Starts posteriors as their priors.

    The KL divergence is then zero, if the prior is fixed or learned and the
    family of the posterior can have its means and scales. Of collapsed bounds
    the prior is the one given the posterior as it was.

    Args:
        seed: Not used.
        verbose: As for `PosteriorInitializer`.

    Raises:
        ValueError: When called, if a prior is missing or not Gaussian.

    Example:

    ```python
    tfp_refine.initializers.Uninformative()(model)
    ```
    """

    def _initialize_layer(self, layer, rng):
        priors = []
        for weight in layer.variational_weights:
            weight.check_prior()
            priors.append(weight.prior)
        for weight, prior in zip(
            layer.variational_weights, priors, strict=True
        ):
            weight.initialize(prior.loc, prior.scale)


class XavierNormal(initializer.PosteriorInitializer):
    """Starts posteriors at mean 0, variance `2 / (fan_in + fan_out)`.

    Draws of the weights, biases too, then have the distribution of the initial
    weights of Glorot and Bengio.

    Args:
        seed: Not used.
        verbose: As for `PosteriorInitializer`.

    Example:

    ```python
    tfp_refine.initializers.XavierNormal()(model)
    ```

    References:
        - [Glorot and Bengio, 2010](https://proceedings.mlr.press/v9/glorot10a.html)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    def _initialize_layer(self, layer, rng):
        fan_in, units = layer.columns(layer.kernel).shape
        positions = math.prod(getattr(layer, "kernel_size", ()))
        fan_out = units // layer.num_groups * positions
        initializer.assign(
            layer, tf.zeros([fan_in, units]), 2.0 / (fan_in + fan_out)
        )
