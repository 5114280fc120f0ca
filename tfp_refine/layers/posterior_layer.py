"""Base of layers whose weights may have posteriors."""

from typing import Any

import keras
import tensorflow as tf

from tfp_refine import regularizers
from tfp_refine.layers import argument_types
from tfp_refine.layers import kl_weight
from tfp_refine.layers import posterior_arguments
from tfp_refine.layers import random_layer
from tfp_refine.layers import variational_weight

Weight = posterior_arguments.Weight


class PosteriorLayer(
    posterior_arguments.PosteriorArguments, random_layer.RandomLayer
):
    """Base of layers whose weights may have posteriors.

    It owns the weights' KL divergence. A subclass puts its weights, by name,
    into `_weight_tensors` when it is built. The arguments are those of the
    public layers.
    """

    def __init__(
        self,
        *,
        activity_regularizer: argument_types.Regularizer = None,
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(
            activity_regularizer=activity_regularizer,
            name=name,
            dtype=dtype,
            trainable=trainable,
        )
        self.sample = bool(sample)
        self.seed = seed
        self.seed_generator = random_layer.SeedGenerator(seed)
        self._weight_tensors: dict[str, Weight] = {}
        self._shared_prior_weights: dict[Any, Any] = {}
        self._kl_weight = kl_weight.KLWeight(kl_scale, num_train_examples)

    def keep_weight(
        self,
        part: str,
        name: str,
        loc: keras.Variable,
        fan_in: int,
        unit_axes: tuple[int, ...] = (-1,),
    ) -> Weight:
        """Makes a weight tensor of a variable, and adds its KL to the losses.

        Its posterior and its prior are those of `part`, for units of `fan_in`
        inputs.
        """
        regularizer = getattr(self, f"{part}_regularizer")
        posterior = getattr(self, f"{part}_posterior")
        if posterior is None:
            self._weight_tensors[name] = variational_weight.PointWeight(
                name, loc
            )
            return self._weight_tensors[name]
        add_weight = self.add_full_precision_weight
        weight = posterior.build(add_weight, name, loc, unit_axes)
        self._weight_tensors[name] = weight
        if regularizer is not None:
            regularizer = regularizer.for_fan_in(fan_in)
            site = regularizers.PriorSite(
                name, loc, add_weight, self._shared_prior_weights
            )
            weight.set_prior(regularizer, regularizer.prior_weights(site))
        self._kl_weight.build(
            "float64" if self.variable_dtype == "float64" else "float32"
        )
        self._attach_kl(weight)
        return weight

    def add_full_precision_weight(self, **arguments: Any) -> keras.Variable:
        """Calls `add_weight` for a variable that is never cast to half."""
        # A KL divergence summed in half precision overflows.
        return self.add_weight(autocast=False, **arguments)

    @property
    def variational_weights(
        self,
    ) -> list[variational_weight.VariationalWeight]:
        """The layer's weights with posteriors; empty before `build`."""
        return [
            weight
            for weight in self._weight_tensors.values()
            if isinstance(weight, variational_weight.VariationalWeight)
        ]

    @property
    def weight_tensors(self) -> list[Weight]:
        """These and the `PointWeight`s; empty before `build`."""
        return list(self._weight_tensors.values())

    @property
    def twin_weights(self) -> dict[str, Weight]:
        return dict(self._weight_tensors)

    # KL divergence.

    def attach_kl(self) -> None:
        """Hangs the KL divergence of each weight on a variable.

        In each call, as `trainable` may have changed.
        """
        for weight in self.variational_weights:
            self._attach_kl(weight)

    def _attach_kl(self, weight: variational_weight.VariationalWeight) -> None:
        """Hangs the KL on a variable, as that variable's regularizer.

        Keras evaluates the regularizer of a trainable variable once a step,
        however often the layer is called, with the value of the variable that
        is current there. So the KL is counted once, also for shared layers. It
        hangs on the mean or, when the mean is frozen, on a variable of the
        scale.
        """
        if weight.regularizer is None:
            return
        variables = (weight.loc, *weight.scale_weights)
        for variable in variables:
            variable.regularizer = None
        if weight.loc.trainable:
            weight.loc.regularizer = kl_weight.Attached(
                lambda loc: self._scaled_kl(weight, loc)
            )
            return
        for variable in variables:
            if variable.trainable:
                variable.regularizer = kl_weight.Attached(
                    lambda _: self._scaled_kl(weight, None)
                )
                return

    def _scaled_kl(
        self,
        weight: variational_weight.VariationalWeight,
        loc: tf.Tensor | None,
    ) -> tf.Tensor:
        kl = weight.kl(loc, self.seed_generator)
        return self._kl_weight.apply(kl, self.name)

    # Configuration.

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "activity_regularizer": keras.saving.serialize_keras_object(
                self.activity_regularizer
            ),
            "seed": self.seed,
        }
