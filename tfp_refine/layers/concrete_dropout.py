"""Dropout whose rate is learned."""

import math
from typing import Any

import keras
import tensorflow as tf
from keras import ops

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.layers import argument_types
from tfp_refine.layers import docstrings
from tfp_refine.layers import kl_weight
from tfp_refine.layers import noise as random_draws
from tfp_refine.layers import random_layer
from tfp_refine.layers import scopes
from tfp_refine.math import philox

_TINY = 1e-7


@docstrings.public_layer
class ConcreteDropout(
    kl_weight.WeighsKL, random_layer.RandomLayer, keras.layers.Wrapper
):
    """Dropout of a layer's inputs, at a learned rate.

    In training and in predictions, some inputs of the layer are dropped, and
    all are divided by the probability of being kept. Masks are relaxed to the
    interval [0, 1] (the concrete distribution), so that the rate has a
    gradient. The loss contains the divergence from the prior, divided by the
    number of training examples. With the rate `p` and `K` inputs it is
    `|kernel|**2 / (2 (1 - p) s**2) + |bias|**2 / (2 s**2) - K H(p)`.

    {args}

    Raises:
        ValueError: If an argument is invalid, or the layer has no kernel
            or its channels first.

    Call arguments:
        inputs: Tensor, `[B, ..., K]`.

    Attributes:
        num_train_examples: Number of training examples; can be set.
        kl_scale: Scalar variable; see `tfp_refine.layers.set_kl_scale`.

    Example:

    ```python
    dense = keras.layers.Dense(50, activation="relu")
    layer = tfp_refine.layers.ConcreteDropout(dense, num_train_examples=1000)
    ```

    Reference:
        - [Gal et al., 2017](https://arxiv.org/abs/1705.07832)
    """

    # No weight has a density, which refinement needs.
    variational_weights = ()

    def __init__(
        self,
        layer: keras.layers.Layer,
        initial_rate: float = 0.1,
        prior_scale: float = 1.0,
        temperature: float = 0.1,
        *,
        num_train_examples: int | None = None,
        kl_scale: float = 1.0,
        seed: int | None = None,
        activity_regularizer: argument_types.Regularizer = None,
        name: str | None = None,
        dtype: argument_types.DType = None,
        trainable: bool = True,
    ) -> None:
        argument_checks.check(locals())
        super().__init__(
            layer,
            activity_regularizer=activity_regularizer,
            name=name,
            dtype=dtype,
            trainable=trainable,
        )
        self.initial_rate = _validation.proportion(
            "initial_rate", initial_rate, one=False
        )
        self.prior_scale = _validation.scale("prior_scale", prior_scale)
        self.temperature = _validation.positive("temperature", temperature)
        self.seed = seed
        self._kl_weight = kl_weight.KLWeight(kl_scale, num_train_examples)
        self.seed_generator = random_layer.SeedGenerator(seed)

    def build(self, input_shape: argument_types.Shape) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
        if not hasattr(self.layer, "kernel"):
            raise ValueError(
                "`layer` must be a dense layer or a convolution, with a "
                f"kernel. Received: a {type(self.layer).__name__}"
            )
        if getattr(self.layer, "data_format", None) == "channels_first":
            raise ValueError(
                "The convolution in `layer` must have its channels last. "
                "Received: data_format='channels_first'"
            )
        odds = self.initial_rate / (1.0 - self.initial_rate)
        self._logit = self.add_weight(
            shape=(),
            initializer=keras.initializers.Constant(math.log(odds)),
            name="logit",
        )
        self._num_inputs = input_shape[-1]
        self._kl_weight.build(self.variable_dtype)
        # Keras evaluates it once per step, however often the layer is called.
        self._logit.regularizer = kl_weight.Attached(
            lambda _: self._divergence()
        )
        self.built = True

    def compute_output_shape(
        self, input_shape: argument_types.Shape
    ) -> argument_types.Shape:
        return self.layer.compute_output_shape(input_shape)

    @property
    def rate(self) -> tf.Tensor:
        """Probability of dropping, a scalar tensor."""
        return ops.sigmoid(self._logit)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        if scopes.uses_means():
            return self.layer(inputs)
        return self.layer(inputs * self._mask(inputs))

    def _get_own_losses(self) -> list[tf.Tensor]:
        # Keras skips regularizers of frozen variables, and `add_loss` in `call`
        # would count each call, in half precision if the layer computes in it.
        losses = super()._get_own_losses()
        if self.built and not self._logit.trainable:
            losses.append(self._divergence())
        return losses

    def _divergence(self) -> tf.Tensor:
        return self._kl_weight.apply(self.kl(), self.name)

    def kl(self) -> tf.Tensor:
        """Computes the divergence from the prior, up to a constant.

        Returns:
            kl: Nats, a scalar.
        """
        rate = self.rate
        squares = ops.sum(ops.square(self.layer.kernel)) / (1.0 - rate)
        if getattr(self.layer, "bias", None) is not None:
            squares += ops.sum(ops.square(self.layer.bias))
        entropy = -(
            rate * ops.log_sigmoid(self._logit)
            + (1.0 - rate) * ops.log_sigmoid(-self._logit)
        )
        return 0.5 * squares / self.prior_scale**2 - self._num_inputs * entropy

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "initial_rate": self.initial_rate,
            "prior_scale": self.prior_scale,
            "temperature": self.temperature,
            "num_train_examples": self.num_train_examples,
            "kl_scale": self._kl_weight.initial_kl_scale,
            "seed": self.seed,
            "activity_regularizer": keras.saving.serialize_keras_object(
                self.activity_regularizer
            ),
        }

    def _mask(self, inputs: tf.Tensor) -> tf.Tensor:
        """Draws factors of the inputs, of mean about 1."""
        shape = list(ops.shape(inputs))
        if len(shape) > 2:  # whole channels
            shape[1:-1] = [1] * len(shape[1:-1])
        uniform = philox.uniform(
            shape,
            random_draws.next_seed(self.seed_generator),
            keras.config.floatx(),
            _TINY,
            1.0 - _TINY,
        )
        noise = ops.log(uniform) - ops.log1p(-uniform)
        logit = ops.cast(self._logit, noise.dtype)
        kept = ops.sigmoid(-(logit + noise) / self.temperature)
        return ops.cast(kept / ops.sigmoid(-logit), inputs.dtype)
