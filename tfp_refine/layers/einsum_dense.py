"""Einsum products with a kernel that has a posterior."""

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import einsum_equation
from tfp_refine.layers import estimators
from tfp_refine.layers import variational_layer


class VariationalEinsumDense(variational_layer.VariationalLayer):
    """A random product by an einsum; see the public layers."""

    keras_layer = keras.layers.EinsumDense

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        activation: argument_types.Activation = None,
        bias_axes: str | None = None,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        kernel_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        *,
        activity_regularizer: argument_types.Regularizer = None,
        kernel_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        seed: int | None = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        arguments = argument_types.passed(locals())
        super().__init__(
            use_bias=bias_axes is not None,
            **argument_types.passed_to(
                variational_layer.VariationalLayer, arguments
            ),
        )
        self.equation, self.bias_axes = equation, bias_axes
        self._given = einsum_equation.EinsumEquation.parse(equation)
        self._check_examples(self._given)
        self._check_bias_axes()
        self.partial_output_shape = _sizes(output_shape)
        self.supports_masking = False  # as in Keras

    def build(self, input_shape: argument_types.Shape) -> None:
        self._letters = self._expanded(input_shape)
        self._check_examples(self._letters)
        # The twin knows shapes and, of initializers, the fan-in.
        made = {}
        twin = self._twin()
        twin.__dict__["add_weight"] = lambda **options: made.update(
            {options["name"]: options}
        )
        twin.build(input_shape)
        for name, options in made.items():
            if None in options["shape"]:
                raise ValueError(
                    f"All axes of the {name} must have a known size. Received: "
                    f"equation={self.equation!r}, output_shape="
                    f"{self.partial_output_shape}, bias_axes="
                    f"{self.bias_axes!r}, input_shape={tuple(input_shape)}"
                )
        kernel = self._letters.kernel
        self.unit_axes = tuple(map(kernel.index, self._letters.units))
        for name, options in made.items():
            self.add_variational_weight(
                name, options["shape"], options["initializer"]
            )
        self.input_spec = keras.layers.InputSpec(
            ndim=len(input_shape),
            axes={
                axis: input_shape[axis]
                for axis, letter in enumerate(self._letters.inputs)
                if letter in kernel
            },
        )

    def _twin(self) -> keras.layers.EinsumDense:
        """Makes the Keras layer, named so as not to use up a default name."""
        return keras.layers.EinsumDense(
            self.equation,
            self.partial_output_shape,
            bias_axes=self.bias_axes,
            kernel_initializer=self.kernel_initializer,
            bias_initializer=self.bias_initializer,
            name="twin",
        )

    def _expanded(
        self, input_shape: argument_types.Shape
    ) -> einsum_equation.EinsumEquation:
        """Returns the equation for inputs of a shape, which it checks."""
        given = self._given
        elided = len(input_shape) - len(given.inputs)
        if elided < 0 or elided > 0 == given.elides_left + given.elides_right:
            raise ValueError(
                f"Inputs must have the axes of `equation`. Received: "
                f"equation={self.equation!r}, input_shape={tuple(input_shape)}"
            )
        # The examples are in "...", or the first letter.
        in_ellipsis = given.elides_left and elided > 0
        wanted = len(given.outputs) - (0 if in_ellipsis else 1)
        if len(self.partial_output_shape) != wanted:
            raise ValueError(
                "`output_shape` must have a size, or None, for each letter of "
                "the outputs, except the axis of the examples: "
                f"{wanted} for equation={self.equation!r}. Received: "
                f"output_shape={self.partial_output_shape}"
            )
        return given.for_rank(len(input_shape))

    def _check_examples(self, letters: einsum_equation.EinsumEquation) -> None:
        if self.draws_weights or letters.keeps_examples:
            return
        raise ValueError(
            f"{type(self).__name__} draws noise for each example by itself, so "
            "the first axis, that of the examples, must be the first one of "
            "the outputs and no axis of the kernel. Use "
            "`EinsumDenseReparameterization`. "
            f"Received: equation={self.equation!r}"
        )

    def _check_bias_axes(self) -> None:
        axes, outputs = self.bias_axes, self._given.outputs
        if axes is None or (
            isinstance(axes, str) and axes and set(axes) <= set(outputs)
        ):
            return
        raise ValueError(
            f"`bias_axes` must be letters of the outputs, '{outputs}', or "
            f"None. Received: bias_axes={axes!r}"
        )

    # Linear map.

    @property
    def signed_axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        letters = self._letters.reduced
        # Units that share a bias share its sign: it is one draw for them.
        signed = [
            c
            for c in letters.units
            if self.bias_axes is None or c in self.bias_axes
        ]
        return (
            tuple(map(letters.inputs.index, letters.contracted)),
            tuple(map(letters.outputs.index, signed)),
        )

    @property
    def num_groups(self) -> int:
        """Number of groups of units that see different inputs."""
        return self._num_weights(self._letters.groups)

    @property
    def has_unit_biases(self) -> bool:
        """True if each unit has its own bias, or there is no bias."""
        axes = self.bias_axes
        if axes is None:
            return True
        return self._letters.units == "".join(
            letter for letter in self._letters.outputs if letter in axes
        )

    @property
    def has_design_matrix(self) -> bool:
        """True if the units are linear regressions on `patches`."""
        letters = self._letters
        return (
            letters.keeps_examples
            and letters.units.startswith(letters.groups)
            and self.has_unit_biases
        )

    def num_positions(self, input_shape: argument_types.Shape) -> int:
        letters = self._letters.reduced
        sizes: tuple[Any, ...] = input_shape
        return math.prod(
            sizes[letters.inputs.index(c)] for c in letters.positions
        )

    def patches(self, inputs: tf.Tensor) -> tf.Tensor:
        letters = self._letters.reduced
        order = letters.positions + letters.groups + letters.contracted
        patches = keras.ops.einsum(
            f"{letters.inputs}->{letters.inputs[0]}{order}", inputs
        )
        return keras.ops.reshape(
            patches,
            (
                keras.ops.shape(inputs)[0],
                -1,
                self.num_groups,
                self._num_weights(letters.contracted),
            ),
        )

    def _num_weights(self, letters: str) -> int:
        """Returns the product of the sizes of some axes of the kernel."""
        kernel = self._letters.kernel
        return math.prod(self.kernel.shape[kernel.index(c)] for c in letters)

    # Forward pass.

    def apply_kernel(self, inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
        equation = self._letters
        if equation.reduced.inputs != equation.inputs:
            return keras.ops.einsum(str(equation.reduced), inputs, kernel)
        return keras.ops.einsum(self.equation, inputs, kernel)

    def _call(
        self,
        inputs: tf.Tensor,
        sample: bool | None,
        sample_outputs: Callable[[tf.Tensor], tf.Tensor],
    ) -> tf.Tensor:
        letters = self._letters
        if letters.reduced.inputs != letters.inputs:
            # Each product has a weight of its own then, as squares need.
            inputs = keras.ops.einsum(
                f"{letters.inputs}->{letters.reduced.inputs}",
                keras.ops.cast(inputs, self.compute_dtype),
            )
        return super()._call(inputs, sample, sample_outputs)

    def compute_output_shape(
        self, input_shape: argument_types.Shape
    ) -> argument_types.Shape:
        return tuple(self._twin().compute_output_shape(input_shape))

    def get_config(self) -> dict[str, Any]:
        config = {
            **super().get_config(),
            "equation": self.equation,
            "output_shape": self.partial_output_shape,
            "bias_axes": self.bias_axes,
        }
        del config["use_bias"]
        return config


def _sizes(output_shape: int | Sequence[int | None]) -> tuple[int | None, ...]:
    """Returns the argument as a tuple, checked."""
    if isinstance(output_shape, int) or not isinstance(output_shape, Sequence):
        output_shape = (output_shape,)
    return tuple(
        size
        if size is None
        else _validation.positive_integer("output_shape", size)
        for size in output_shape
    )


@docstrings.public_layer
class EinsumDenseReparameterization(
    estimators.Reparameterization, VariationalEinsumDense
):
    """Einsum layer whose weights are drawn once for each call.

    {reparameterization}

    It takes every equation that the layer of Keras takes, except those that
    repeat a letter of the kernel.

    {einsum}

    {blundell}
    """


@docstrings.public_layer
class EinsumDenseLocalReparameterization(
    estimators.LocalReparameterization, VariationalEinsumDense
):
    """Einsum layer that draws each pre-activation from its Gaussian marginal.

    Mean and variance of each output are exact, and the gradient has little
    variance. But outputs that share weights, such as those of the tokens of one
    example, are drawn independently: their sums have another variance than
    under the posterior. Use `EinsumDenseFlipout` where that matters.

    {einsum}

    {kingma}
    """


@docstrings.public_layer
class EinsumDenseFlipout(estimators.Flipout, VariationalEinsumDense):
    """Einsum layer that decorrelates one draw of the weights by random signs.

    Each example sees the weights' one deviation from the means with signs of
    its own, which are the same at all of its tokens: it has one draw of the
    weights, and sums over tokens have the variance of one draw. The outputs of
    each example have the exact distribution for any posterior symmetric about
    its mean. Two products, and a gradient with far less variance than with one
    draw for the whole batch.

    {einsum}

    {wen}
    """
