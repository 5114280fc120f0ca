"""The base of all KL regularizers."""

from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
import tensorflow as tf

from tfp_refine.math import gaussian
from tfp_refine.regularizers import prior_site

# Variables, or their values, that `prior_weights` created.
PriorWeights: TypeAlias = Sequence[Any]


@keras.saving.register_keras_serializable(package="tfp_refine")
class KLRegularizer(keras.regularizers.Regularizer):
    """KL divergence of a Gaussian weight posterior from its prior.

    A KL regularizer describes a prior and owns no variables: what its prior
    needs to learn is created by the layer, one set a weight tensor, through
    `prior_weights`, and handed back at each call. So one regularizer object
    can serve any number of layers.

    Subclasses implement `prior`, or for a prior that is not Gaussian
    `elementwise`; `get_config`; and `prior_weights` if the prior has parameters
    to learn.
    """

    # Whether the divergence is estimated from the draw of the forward pass.
    needs_draw = False

    def for_fan_in(self, fan_in: int) -> "KLRegularizer":
        """Returns this regularizer for a unit of so many inputs.

        Args:
            fan_in: Positive integer.

        Returns:
            regularizer: `KLRegularizer`: itself, unless it depends on `fan_in`.
        """
        return self

    def prior_weights(self, site: prior_site.PriorSite) -> tuple[Any, ...]:
        """Creates the variables of one weight tensor's prior.

        Args:
            site: `PriorSite`.

        Returns:
            prior_weights: Tuple of `keras.Variable`, empty by default.
        """
        return ()

    def prior(
        self, loc: tf.Tensor, scale: tf.Tensor, prior_weights: PriorWeights = ()
    ) -> gaussian.Gaussian:
        """Computes the prior that the posterior is compared with.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            prior_weights: What `prior_weights` created, or their values; the
                initial values if empty.

        Returns:
            prior: `math.gaussian.Gaussian` whose `loc` and `scale` (a standard
                deviation) are broadcastable to `[...]`.

        Raises:
            ValueError: If the prior is not Gaussian.
        """
        raise ValueError(f"The prior of {type(self).__name__} is not Gaussian.")

    def elementwise(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the KL divergence of each weight, nats.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            prior_weights: As for `prior`.
            draw: Draw of the posterior, `[...]`, of use if `needs_draw`.

        Returns:
            kl: `[...]`.
        """
        return gaussian.kl_divergence(
            gaussian.Gaussian(loc, scale), self.prior(loc, scale, prior_weights)
        )

    def penalty(
        self, loc: tf.Tensor, scale: tf.Tensor, prior_weights: PriorWeights = ()
    ) -> tf.Tensor | None:
        """Computes what the prior's own parameters cost, nats.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            prior_weights: As for `prior`.

        Returns:
            penalty: Scalar, or `None` for nothing.
        """

    def __call__(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the KL divergence, in nats, summed over the tensor.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            prior_weights: As for `prior`.
            draw: As for `elementwise`.

        Returns:
            kl: Scalar, in the dtype of `loc`.
        """
        loc = keras.ops.convert_to_tensor(loc)
        scale = keras.ops.convert_to_tensor(scale, dtype=loc.dtype)
        kl = keras.ops.sum(self.elementwise(loc, scale, prior_weights, draw))
        penalty = self.penalty(loc, scale, prior_weights)
        return kl if penalty is None else kl + penalty
