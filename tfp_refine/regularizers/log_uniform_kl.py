"""KL divergence from the log-uniform prior."""

import keras
import tensorflow as tf

from tfp_refine.math import gaussian
from tfp_refine.math import log_uniform
from tfp_refine.regularizers import kl_regularizer


@keras.saving.register_keras_serializable(package="tfp_refine")
class LogUniformKL(kl_regularizer.KLRegularizer):
    """KL divergence from the log-uniform prior of variational dropout (FFLU).

    The prior is `p(w) ~ 1 / |w|`, improper, so the divergence is fixed up to a
    constant; bounds do not compare with those of other priors. It is an
    approximation to 0.01 nats a weight. Posteriors trained with it cannot be
    refined: the prior is not Gaussian.

    Example:

    ```python
    model = tfp_refine.models.MLP(
        (13,), kernel_regularizer=tfp_refine.regularizers.LogUniformKL()
    )
    ```

    References:
        - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557)
        - [Molchanov et al., 2017](https://arxiv.org/abs/1701.05369)
    """

    def elementwise(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: kl_regularizer.PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        return log_uniform.kl_divergence(gaussian.Gaussian(loc, scale))

    def pruned(
        self, loc: tf.Tensor, scale: tf.Tensor, threshold: float = 5.0
    ) -> tf.Tensor:
        """Finds weights that are noise and could be set to zero.

        Args:
            loc: Posterior mean, `[...]`.
            scale: Posterior standard deviation, `[...]`.
            threshold: Of `log(variance / mean**2)`. Defaults to `5.0`.

        Returns:
            pruned: Booleans, `[...]`; their mean is the pruning ratio.
        """
        loc = tf.convert_to_tensor(loc)
        q = gaussian.Gaussian(loc, tf.convert_to_tensor(scale, loc.dtype))
        return log_uniform.log_noise_ratio(q) >= threshold
