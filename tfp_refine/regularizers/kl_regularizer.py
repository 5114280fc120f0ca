"""The base of all KL regularizers."""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from typing import TypeAlias

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import gaussian

# Variables, or their values, that `prior_weights` created.
PriorWeights: TypeAlias = Sequence[Any]


class PriorSite(NamedTuple):
    """Weight tensor that a KL regularizer is built for.

    Attributes:
        name: "kernel" or "bias".
        loc: Variable of the posterior means.
        add_weight: The `add_weight` method of the layer that owns them.
        shared: Dict of that layer, for values that its weight tensors share.

    Example:

    ```python
    class LearnedMeanKL(tfp_refine.regularizers.KLRegularizer):
        def prior_weights(self, site):
            name = f"{site.name}_prior_loc"
            return (site.add_weight(name=name, shape=(), initializer="zeros"),)

        def prior(self, loc, scale, prior_weights=()):
            mean = prior_weights[0] if prior_weights else 0.0
            return tfp_refine.math.gaussian.Gaussian(mean, 1.0)


    model = tfp_refine.models.MLP((13,), kernel_regularizer=LearnedMeanKL())
    ```
    """

    name: str
    loc: keras.Variable
    add_weight: Callable[..., keras.Variable]
    shared: dict[Any, Any]


@keras.saving.register_keras_serializable(package="tfp_refine")
class KLRegularizer(_validation.Shown, keras.regularizers.Regularizer):
    """KL divergence of a Gaussian weight posterior from its prior.

    A KL regularizer describes a prior and owns no variables: the variables of
    its prior are created by the layer, one set per weight tensor, through
    `prior_weights`, and handed back at each call. So one regularizer object
    can serve any number of layers.

    Subclasses implement `prior`, or for a prior that is not Gaussian
    `elementwise`; and `prior_weights` if the prior has parameters to learn.
    They keep each argument under its name, or implement `get_config`.

    Example:

    ```python
    class ShiftedKL(tfp_refine.regularizers.KLRegularizer):
        def prior(self, loc, scale, prior_weights=()):
            return tfp_refine.math.gaussian.Gaussian(1.0, 0.5)


    model = tfp_refine.models.MLP((13,), kernel_regularizer=ShiftedKL())
    ```
    """

    # Whether the divergence is estimated from the draw of the forward pass.
    needs_draw = False

    def for_fan_in(self, fan_in: int) -> "KLRegularizer":
        """Returns this regularizer for units of `fan_in` inputs.

        Args:
            fan_in: Number of inputs of a unit.

        Returns:
            regularizer: This object, or one whose scale is a number.
        """
        return self

    def prior_weights(self, site: PriorSite) -> tuple[Any, ...]:
        """Creates the variables of a weight tensor's prior, if any.

        Args:
            site: `PriorSite`, the weight tensor and its layer.

        Returns:
            prior_weights: Tuple of variables.
        """
        return ()

    def best_prior_weights(
        self, loc: tf.Tensor, scale: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        """Computes the `prior_weights` with the least divergence.

        Args:
            loc: Posterior means, `[...]`.
            scale: Posterior standard deviations, `[...]`.

        Returns:
            prior_weights: Tuple of values, in the order of `prior_weights`.

        Raises:
            ValueError: If they have no closed form, or there are none.
        """
        raise ValueError(f"{type(self).__name__} has no prior scale to set.")

    def prior(
        self, loc: tf.Tensor, scale: tf.Tensor, prior_weights: PriorWeights = ()
    ) -> gaussian.Gaussian:
        """Computes the Gaussian prior.

        Args:
            loc: Posterior means, `[...]`.
            scale: Posterior standard deviations, `[...]`.
            prior_weights: Variables that `prior_weights` created, or their
                values; the initial values if empty.

        Returns:
            prior: `Gaussian(loc, scale)`, broadcastable to `[...]`.

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
        """Computes the KL divergence of each weight.

        Args:
            loc: As for `prior`.
            scale: As for `prior`.
            prior_weights: As for `prior`.
            draw: Draw of the posterior, `[...]`; required if `needs_draw`.

        Returns:
            kl: Nats, `[...]`.

        Raises:
            ValueError: If a draw is needed and missing.
        """
        return gaussian.kl_divergence(
            gaussian.Gaussian(loc, scale), self.prior(loc, scale, prior_weights)
        )

    def total(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the sum of `elementwise`.

        Subclasses override it if there is a faster way.

        Args:
            loc: As for `elementwise`.
            scale: As for `elementwise`.
            prior_weights: As for `elementwise`.
            draw: As for `elementwise`.

        Returns:
            kl: Nats, a scalar.
        """
        if type(self).elementwise is KLRegularizer.elementwise:
            q = gaussian.Gaussian(loc, scale)
            prior = self.prior(loc, scale, prior_weights)
            if all(tf.convert_to_tensor(x).shape.rank == 0 for x in prior):
                return gaussian.total_kl_divergence(q, prior)
        return keras.ops.sum(self.elementwise(loc, scale, prior_weights, draw))

    def penalty(
        self, loc: tf.Tensor, scale: tf.Tensor, prior_weights: PriorWeights = ()
    ) -> tf.Tensor | None:
        """Computes the cost of the prior's own parameters.

        Args:
            loc: As for `prior`.
            scale: As for `prior`.
            prior_weights: As for `prior`.

        Returns:
            penalty: Nats, a scalar, or `None` without such a cost.
        """

    def __call__(
        self,
        loc: tf.Tensor,
        scale: tf.Tensor,
        prior_weights: PriorWeights = (),
        draw: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the KL divergence, in nats, summed over the tensor."""
        loc = keras.ops.convert_to_tensor(loc)
        scale = keras.ops.convert_to_tensor(scale, dtype=loc.dtype)
        kl = self.total(loc, scale, prior_weights, draw)
        penalty = self.penalty(loc, scale, prior_weights)
        return kl if penalty is None else kl + penalty

    def get_config(self) -> dict[str, Any]:
        names = _validation.parameters(type(self))
        return {name: getattr(self, name) for name in names}
