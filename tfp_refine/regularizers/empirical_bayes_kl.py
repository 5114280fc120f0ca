"""KL divergence from a Gaussian prior whose scale is learned."""

import keras

from tfp_refine import arguments
from tfp_refine.math import gaussian
from tfp_refine.math import softplus
from tfp_refine.regularizers import kl_regularizer


@keras.saving.register_keras_serializable(package="tfp_refine")
class EmpiricalBayesKL(kl_regularizer.KLRegularizer):
    """KL divergence from `N(0, v)` with one learned `v` for each weight tensor.

    With `closed_form=False` the prior's scale is a variable of the layer,
    trained by gradient with everything else. With `closed_form=True` it has no
    variable: `v = mean(loc**2 + scale**2)` is the variance that minimizes the
    KL divergence, and where the gradient version converges to.

    Args:
        closed_form: Whether to solve for the prior's variance instead of
            training it. Defaults to `False`.
        initial_prior_scale: Standard deviation that training starts from;
            of no effect with `closed_form=True`. Defaults to `1.0`.

    Raises:
        ValueError: If `initial_prior_scale` is not a positive finite number.

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475), section 4
    """

    def __init__(self, closed_form=False, initial_prior_scale=1.0):
        self.closed_form = bool(closed_form)
        self.initial_prior_scale = arguments.positive(
            "initial_prior_scale", initial_prior_scale
        )

    def prior_weights(self, add_weight, name):
        if self.closed_form:
            return ()
        raw = softplus.inverse_of_float(self.initial_prior_scale)
        return (
            add_weight(
                name=f"{name}_prior_untransformed_scale",
                shape=(),
                initializer=keras.initializers.Constant(raw),
            ),
        )

    def prior(self, loc, scale, prior_weights=()):
        if self.closed_form:
            second = gaussian.second_moment(gaussian.Gaussian(loc, scale))
            prior_scale = keras.ops.sqrt(keras.ops.mean(second))
        elif prior_weights:
            (raw,) = prior_weights
            prior_scale = keras.ops.softplus(
                keras.ops.cast(keras.ops.convert_to_tensor(raw), loc.dtype)
            )
        else:
            prior_scale = keras.ops.convert_to_tensor(
                self.initial_prior_scale, dtype=loc.dtype
            )
        return gaussian.Gaussian(keras.ops.zeros_like(prior_scale), prior_scale)

    def get_config(self):
        return {
            "closed_form": self.closed_form,
            "initial_prior_scale": self.initial_prior_scale,
        }
