"""Keras layers that are called with a draw of all their weights."""

import contextlib
import functools
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import regularizers as regularizers_lib
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import posterior_layer
from tfp_refine.layers import scopes


@docstrings.public_layer
class SampledLayer(posterior_layer.PosteriorLayer):
    """Base of layers that draw the weights of a Keras layer for each call.

    A subclass names its deterministic twin, `keras_layer`, whose variables are
    the posteriors' means. `parts` are the prefixes of the names of arguments,
    with the names of the twin's variables.

    {args}

    Call arguments:
        inputs: Tensor, as for the twin.
        sample: Overrides the layer's own `sample` if not `None`.

    Raises:
        ValueError: If an argument is invalid.
    """

    draws_weights = True
    keras_layer: type[keras.layers.Layer]
    parts: tuple[tuple[str, str], ...] = ()

    def __init__(
        self,
        twin_arguments: Mapping[str, Any],
        *,
        regularizers: Mapping[str, argument_types.Regularizer],
        posteriors: Mapping[str, argument_types.Posterior],
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(
            **argument_types.passed_to(posterior_layer.PosteriorLayer, locals())
        )
        of_points = {}
        for part, _ in self.parts:
            self.set_posterior(part, regularizers[part], posteriors[part])
            regularizer = getattr(self, f"{part}_regularizer")
            if not regularizers_lib.is_kl(regularizer):
                of_points[f"{part}_regularizer"] = regularizer
        # Made again, it would have no gradients for draws of its variables.
        with keras.RematScope(mode=None):
            self.layer = self.keras_layer(
                **twin_arguments,
                **of_points,
                name="deterministic",
                dtype=self.dtype_policy,
                trainable=trainable,
            )
        # `Model.quantize` would go on to the twin.
        self.layer.quantize = self.quantize
        self.supports_masking = self.layer.supports_masking
        self.input_spec = self.layer.input_spec
        if getattr(self.layer, "go_backwards", False):
            # `Bidirectional` makes this layer from that of the other direction,
            # with its seed. Moves far away from the draws of that one.
            state = self.seed_generator.state
            state.assign(keras.ops.add(state, [0, 2**31]))

    @classmethod
    def grouped(cls, scope: Mapping[str, Any]) -> dict[str, Any]:
        """Groups a subclass' arguments, its `locals()`, as the base's."""
        arguments = argument_types.passed(scope)
        own = argument_types.passed_to(SampledLayer, arguments)
        for kind in ("regularizer", "posterior"):
            own[f"{kind}s"] = {
                part: arguments.pop(f"{part}_{kind}") for part, _ in cls.parts
            }
        twins = {k: v for k, v in arguments.items() if k not in own}
        return {"twin_arguments": twins, **own}

    def owner(self) -> keras.layers.Layer:
        """Returns the layer that has the variables."""
        return self.layer

    def fan_in(self, part: str) -> int:
        """Returns the number of inputs of a unit, for the scale of priors.

        Args:
            part: Prefix of the weights, one of `parts`.

        Returns:
            fan_in: Positive integer.

        Raises:
            NotImplementedError: If a subclass does not implement it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `fan_in`"
        )

    def build(self, input_shape: argument_types.Shape) -> None:
        owner = self.owner()
        # Means have full precision, as those of all posteriors, and are cast
        # where they are used. (`stateless_call` would cast draws to the dtype
        # of the variables, and leave them there, as these are not autocast.)
        owner.__dict__["add_weight"] = functools.partial(
            owner.add_weight, autocast=False
        )
        try:
            self.layer.build(input_shape)
        finally:
            del owner.__dict__["add_weight"]
        for part, variable_name in self.parts:
            loc = getattr(owner, variable_name)
            if loc is not None:  # as a bias may be
                name = variable_name.removeprefix("_")
                self.keep_weight(part, name, loc, self.fan_in(part))

    def call(self, inputs: tf.Tensor, sample: bool | None = None) -> tf.Tensor:
        return self._call(inputs, sample)

    def _call(
        self, inputs: tf.Tensor, sample: bool | None, **arguments: Any
    ) -> Any:
        """Calls the twin with a draw of the weights, or with the means."""
        self.attach_kl()
        scopes.notify(self, inputs)
        with self._in_place(scopes.is_sampling(sample, self.sample)):
            return self.layer(inputs, **arguments)

    @contextlib.contextmanager
    def _in_place(self, sample: bool) -> Iterator[None]:
        """Puts draws, or the means, in the places of the variables."""
        owner, variables = self.owner(), {}
        names = {name.removeprefix("_"): name for _, name in self.parts}
        try:
            for weight in self.weight_tensors:
                value = (
                    weight.sample(self.seed_generator, self.compute_dtype)
                    if sample
                    else weight.mean(self.compute_dtype)
                )
                name = names[weight.name]
                variables[name] = getattr(owner, name)
                object.__setattr__(owner, name, value)  # not seen by Keras
            yield
        finally:
            for name, variable in variables.items():
                object.__setattr__(owner, name, variable)

    def compute_output_shape(self, input_shape: argument_types.Shape) -> Any:
        return self.layer.compute_output_shape(input_shape)

    def compute_mask(
        self, inputs: tf.Tensor, previous_mask: tf.Tensor | None = None
    ) -> tf.Tensor | None:
        return self.layer.compute_mask(inputs, previous_mask)

    def get_config(self) -> dict[str, Any]:
        own = super().get_config()
        # The twin regularizes the activity.
        del own["activity_regularizer"]
        prefixes = [part for part, _ in self.parts]
        config = self.layer.get_config() | own
        return config | self.posterior_config(*prefixes)
