"""The base of all KL regularizers."""

import keras

from tfp_refine.math import gaussian


@keras.saving.register_keras_serializable(package="tfp_refine")
class KLRegularizer(keras.regularizers.Regularizer):
    """KL divergence of a Gaussian weight posterior from its prior.

    A KL regularizer describes a prior and owns no variables: what its prior
    needs to learn is created by the layer, one set a weight tensor, through
    `prior_weights`, and handed back at each call. So one regularizer object
    can serve any number of layers.

    Subclasses implement `prior` and `get_config`, and `prior_weights` if the
    prior has parameters to learn.
    """

    def prior_weights(self, add_weight, name):
        """Creates the variables of one weight tensor's prior.

        Args:
            add_weight: The `add_weight` method of the layer that owns them.
            name: Name of the weight tensor, a prefix for theirs.

        Returns:
            prior_weights: Tuple of `keras.Variable`, empty by default.
        """
        return ()

    def prior(self, loc, scale, prior_weights=()):
        """Computes the prior that the posterior is compared with.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            prior_weights: What `prior_weights` created, or their values; the
                initial values if empty.

        Returns:
            prior: `math.gaussian.Gaussian` whose `loc` and `scale` (a standard
                deviation) are broadcastable to `[...]`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `prior`"
        )

    def __call__(self, loc, scale, prior_weights=()):
        """Computes the KL divergence, in nats, summed over the tensor.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            prior_weights: As for `prior`.

        Returns:
            kl: Scalar, in the dtype of `loc`.
        """
        loc = keras.ops.convert_to_tensor(loc)
        scale = keras.ops.convert_to_tensor(scale, dtype=loc.dtype)
        prior = self.prior(loc, scale, prior_weights)
        return keras.ops.sum(
            gaussian.kl_divergence(gaussian.Gaussian(loc, scale), prior)
        )
