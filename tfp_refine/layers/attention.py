"""Attention whose projections have posteriors."""

import numbers
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import einsum_dense
from tfp_refine.layers import kl_weight
from tfp_refine.layers import posterior_arguments
from tfp_refine.layers import random_layer
from tfp_refine.layers import scopes

# Names that Keras gives the projections.
_NAMES = ("query", "key", "value", "gate", "attention_output")


class VariationalAttention(posterior_arguments.PosteriorArguments):
    """Mixin of the attention of Keras, which it gives other projections.

    A subclass names their class, `projection`; it also inherits from the layer
    of Keras, which makes its projections when it is built.
    """

    keras_layer: type[keras.layers.Layer]
    projection: type[einsum_dense.VariationalEinsumDense]

    def __init__(
        self,
        *,
        kernel_regularizer: argument_types.Regularizer,
        bias_regularizer: argument_types.Regularizer,
        kernel_posterior: argument_types.Posterior,
        bias_posterior: argument_types.Posterior,
        num_train_examples: int | None,
        kl_scale: float,
        sample: bool,
        **of_keras: Any,
    ) -> None:
        # Keras gives copies of them to the projections.
        argument_checks.check_initializers_with_configs(
            kernel_initializer=of_keras["kernel_initializer"],
            bias_initializer=of_keras["bias_initializer"],
        )
        super().__init__(**of_keras)
        self.sample = bool(sample)
        # One for all projections: a change applies to all of them.
        self._kl_weight = kl_weight.KLWeight(kl_scale, num_train_examples)
        self.set_posterior("kernel", kernel_regularizer, kernel_posterior)
        self.set_posterior("bias", bias_regularizer, bias_posterior)

    @property
    def draws_weights(self) -> bool:  # type: ignore[override]
        """True if outputs are computed with draws of the weights."""
        return self.projection.draws_weights

    def __setattr__(self, name: str, value: Any) -> None:
        # Those that `build` of Keras makes, before it builds them.
        if type(value) is keras.layers.EinsumDense:
            value = self._with_posteriors(value)
        super().__setattr__(name, value)

    def _with_posteriors(
        self, layer: keras.layers.EinsumDense
    ) -> einsum_dense.VariationalEinsumDense:
        """Makes a projection of the one that Keras made."""
        made = self.projection(
            layer.equation,
            layer.partial_output_shape,
            layer.activation,
            layer.bias_axes,
            layer.kernel_initializer,
            layer.bias_initializer,
            self.kernel_regularizer,
            self.bias_regularizer,
            layer.kernel_constraint,
            layer.bias_constraint,
            activity_regularizer=layer.activity_regularizer,
            kernel_posterior=self.kernel_posterior,
            bias_posterior=self.bias_posterior,
            sample=self.sample,
            seed=random_layer.seed_of_part(self.seed, _NAMES.index(layer.name)),
            name=layer.name,
            dtype=layer.dtype_policy,
        )
        made._kl_weight = self._kl_weight
        return made

    @property
    def twin_weights(self) -> dict[str, posterior_arguments.Weight]:
        return {
            f"{name}.{weight.name}": weight
            for name, layer in vars(self).items()
            if isinstance(layer, self.projection)
            for weight in layer.weight_tensors
        }

    def call(
        self,
        query: tf.Tensor,
        value: tf.Tensor,
        key: tf.Tensor | None = None,
        query_mask: tf.Tensor | None = None,
        value_mask: tf.Tensor | None = None,
        key_mask: tf.Tensor | None = None,
        attention_mask: tf.Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        sample: bool | None = None,
    ) -> Any:
        with scopes.sampling(scopes.is_sampling(sample, self.sample)):
            return super().call(
                query,
                value,
                key=key,
                query_mask=query_mask,
                value_mask=value_mask,
                key_mask=key_mask,
                attention_mask=attention_mask,
                return_attention_scores=return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
            )

    def compute_output_spec(
        self, *inputs: Any, sample: bool | None = None, **options: Any
    ) -> Any:
        del sample
        return super().compute_output_spec(*inputs, **options)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "flash_attention": self._flash_attention,
            **self.posterior_config("kernel", "bias"),
        }


class VariationalMultiHeadAttention(
    VariationalAttention, keras.layers.MultiHeadAttention
):
    """Multi-head attention by random projections; see the public layers."""

    keras_layer = keras.layers.MultiHeadAttention

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = True,
        output_shape: argument_types.Sizes | None = None,
        attention_axes: argument_types.Sizes | None = None,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        kernel_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        kernel_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        num_heads = _validation.positive_integer("num_heads", num_heads)
        key_dim = _validation.positive_integer("key_dim", key_dim)
        if value_dim is not None:
            value_dim = _validation.positive_integer("value_dim", value_dim)
        if output_shape is not None and not isinstance(
            output_shape, numbers.Integral
        ):
            output_shape = _validation.positive_integers(
                "output_shape", output_shape
            )
        super().__init__(**argument_types.passed(locals()))

    def build(
        self,
        query_shape: argument_types.Shape,
        value_shape: argument_types.Shape,
        key_shape: argument_types.Shape | None = None,
    ) -> None:
        rank = len(query_shape)
        axes = [
            axis + rank if axis < 0 else axis
            for axis in self._attention_axes or ()
        ]
        if not set(axes) <= set(range(rank - 1)) or len(set(axes)) < len(axes):
            raise ValueError(
                "`attention_axes` must be different axes of the query, and not "
                "that of its features. Received: attention_axes="
                f"{self._attention_axes}, query_shape={tuple(query_shape)}"
            )
        super().build(query_shape, value_shape, key_shape)

    def _shown_arguments(self) -> dict[str, Any]:
        shown = super()._shown_arguments()
        if self.value_dim == self.key_dim:  # the default
            del shown["value_dim"]
        return shown


class VariationalGroupQueryAttention(
    VariationalAttention, keras.layers.GroupQueryAttention
):
    """Grouped-query attention by random projections; see the public layers."""

    keras_layer = keras.layers.GroupQueryAttention

    def __init__(
        self,
        head_dim: int,
        num_query_heads: int,
        num_key_value_heads: int,
        dropout: float = 0.0,
        use_bias: bool = True,
        sliding_window: int | None = None,
        flash_attention: bool | None = None,
        kernel_initializer: argument_types.Initializer = "glorot_uniform",
        bias_initializer: argument_types.Initializer = "zeros",
        kernel_regularizer: argument_types.Regularizer = "gaussian_kl",
        bias_regularizer: argument_types.Regularizer = "gaussian_kl",
        activity_regularizer: argument_types.Regularizer = None,
        kernel_constraint: argument_types.Constraint = None,
        bias_constraint: argument_types.Constraint = None,
        use_gate: bool = False,
        seed: int | None = None,
        *,
        kernel_posterior: argument_types.Posterior = "mean_field",
        bias_posterior: argument_types.Posterior = "mean_field",
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        sample: bool = True,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        _validation.all_positive_integers(
            head_dim=head_dim,
            num_query_heads=num_query_heads,
            num_key_value_heads=num_key_value_heads,
        )
        if num_query_heads % num_key_value_heads:
            raise ValueError(
                "`num_query_heads` must be a multiple of "
                "`num_key_value_heads`. Received: num_query_heads="
                f"{num_query_heads}, num_key_value_heads={num_key_value_heads}"
            )
        super().__init__(**argument_types.passed(locals()))


@docstrings.public_layer
class MultiHeadAttentionReparameterization(VariationalMultiHeadAttention):
    """Multi-head attention whose weights are drawn once for each call.

    {attention_reparameterization}
    """

    projection = einsum_dense.EinsumDenseReparameterization


@docstrings.public_layer
class MultiHeadAttentionLocalReparameterization(VariationalMultiHeadAttention):
    """Multi-head attention that draws each projection of each token by itself.

    {attention_local_reparameterization}
    """

    projection = einsum_dense.EinsumDenseLocalReparameterization


@docstrings.public_layer
class MultiHeadAttentionFlipout(VariationalMultiHeadAttention):
    """Multi-head attention that decorrelates one draw by random signs.

    {attention_flipout}
    """

    projection = einsum_dense.EinsumDenseFlipout


@docstrings.public_layer
class GroupQueryAttentionReparameterization(VariationalGroupQueryAttention):
    """Grouped-query attention whose weights are drawn once for each call.

    {attention_reparameterization}
    """

    projection = einsum_dense.EinsumDenseReparameterization


@docstrings.public_layer
class GroupQueryAttentionLocalReparameterization(
    VariationalGroupQueryAttention
):
    """Grouped-query attention that draws each token's projections by itself.

    {attention_local_reparameterization}
    """

    projection = einsum_dense.EinsumDenseLocalReparameterization


@docstrings.public_layer
class GroupQueryAttentionFlipout(VariationalGroupQueryAttention):
    """Grouped-query attention that decorrelates one draw by random signs.

    {attention_flipout}
    """

    projection = einsum_dense.EinsumDenseFlipout
