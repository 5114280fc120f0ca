"""KL divergence from a scale mixture prior, by Monte Carlo."""

import math

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import gaussian
from tfp_refine.math import scale_mixture
from tfp_refine.regularizers import kl_regularizer

_SPIKE = math.exp(-6.0)


@keras.saving.register_keras_serializable(package="tfp_refine")
class ScaleMixtureKL(kl_regularizer.KLRegularizer):
    """KL divergence from a mixture of two Gaussians (Bayes by backprop).

    The prior is `mixture_weight N(0, scale_1**2) + (1 - mixture_weight)
    N(0, scale_2**2)`. The divergence has no closed form: it is estimated by
    `log q(w) - log p(w)` at the draw of the weights that the forward pass uses.
    So it needs layers that draw weights, the `...Reparameterization` ones.
    Posteriors trained with it cannot be refined: the prior is not Gaussian.

    Args:
        mixture_weight: Probability of the first component, in (0, 1). Defaults
            to `0.5`.
        scale_1: Its standard deviation. Defaults to `1.0`.
        scale_2: That of the second component. Defaults to `exp(-6)`.

    Raises:
        ValueError: If an argument is invalid, and, from a layer, if that layer
            does not draw weights.

    Example:

    ```python
    layer = tfp_refine.layers.DenseReparameterization(
        10,
        kernel_regularizer=tfp_refine.regularizers.ScaleMixtureKL(0.25),
        num_train_examples=60000,
    )
    ```

    Reference:
        - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)
    """

    needs_draw = True

    def __init__(
        self,
        mixture_weight: float = 0.5,
        scale_1: float = 1.0,
        scale_2: float = _SPIKE,
    ) -> None:
        self.mixture_weight = _validation.proportion(
            "mixture_weight", mixture_weight, one=False
        )
        self.scale_1 = _validation.scale("scale_1", scale_1)
        self.scale_2 = _validation.scale("scale_2", scale_2)

    def elementwise(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        if draw is None:
            raise ValueError(
                "ScaleMixtureKL needs a draw of the posterior. Received: None"
            )
        prior = scale_mixture.log_prob(
            draw, self.mixture_weight, self.scale_1, self.scale_2
        )
        return gaussian.log_prob(draw, gaussian.Gaussian(loc, scale)) - prior
