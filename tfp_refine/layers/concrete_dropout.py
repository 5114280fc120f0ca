"""Dropout whose rate is learned."""

import math

import keras
from keras import ops

from tfp_refine import _validation
from tfp_refine.layers import kl_weight
from tfp_refine.layers import mean_weights
from tfp_refine.layers import random_layer

_TINY = 1e-7


@keras.saving.register_keras_serializable(package="tfp_refine")
class ConcreteDropout(
    kl_weight.WeighsKL, random_layer.RandomLayer, keras.layers.Wrapper
):
    """Drops a layer's inputs at a rate that the bound learns.

    The layer is called on inputs that are dropped, and divided by the
    probability of being kept, in training and in predictions. Masks are relaxed
    to the interval [0, 1] (the concrete distribution), so that the rate has a
    gradient. The divergence from the prior, an expression in the kernel and the
    rate `p` with `K` inputs,
    `|kernel|**2 / (2 (1 - p) s**2) + |bias|**2 / (2 s**2) - K H(p)`, enters the
    loss, over the number of training examples.

    Args:
        layer: Dense layer or convolution, whose inputs are dropped: features,
            or for a convolution whole channels, which must be the last axis.
        initial_rate: Rate at the start, in (0, 1). Defaults to `0.1`.
        prior_scale: `s`, standard deviation of the weights' prior.
        temperature: Of the relaxation. Defaults to `0.1`.
        num_train_examples: Number of training examples.
        kl_scale: Factor on the divergence; 1 is a true bound.
        seed: Integer that fixes the noise; fresh if `None`.
        **kwargs: Arguments of `keras.layers.Layer`.

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

    # No weight of it has a density, which refinement would need.
    variational_weights = ()

    def __init__(
        self,
        layer,
        initial_rate=0.1,
        prior_scale=1.0,
        temperature=0.1,
        num_train_examples=None,
        kl_scale=1.0,
        seed=None,
        **kwargs,
    ):
        super().__init__(layer, **kwargs)
        self.initial_rate = _validation.proportion(
            "initial_rate", initial_rate, one=False
        )
        self.prior_scale = _validation.positive("prior_scale", prior_scale)
        self.temperature = _validation.positive("temperature", temperature)
        self.seed = seed
        self._kl_weight = kl_weight.KLWeight(kl_scale)
        self._kl_weight.num_train_examples = num_train_examples
        self.seed_generator = random_layer.SeedGenerator(seed)

    def build(self, input_shape=None):
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
        # Keras evaluates it once a step, however often the layer is called.
        self._logit.regularizer = lambda _: self._divergence()
        self.built = True

    def compute_output_shape(self, input_shape):
        return self.layer.compute_output_shape(input_shape)

    @property
    def rate(self):
        """Probability of dropping, a scalar tensor."""
        return ops.sigmoid(self._logit)

    def call(self, inputs):
        if not self._logit.trainable:
            self.add_loss(self._divergence())
        if mean_weights.is_active():
            return self.layer(inputs)
        return self.layer(inputs * self._mask(inputs))

    def _divergence(self):
        return self._kl_weight.apply(self.kl(), self.name)

    def kl(self):
        """Computes the divergence from the prior, up to a constant; nats."""
        rate = self.rate
        squares = ops.sum(ops.square(self.layer.kernel)) / (1.0 - rate)
        if getattr(self.layer, "bias", None) is not None:
            squares += ops.sum(ops.square(self.layer.bias))
        entropy = -(
            rate * ops.log_sigmoid(self._logit)
            + (1.0 - rate) * ops.log_sigmoid(-self._logit)
        )
        return 0.5 * squares / self.prior_scale**2 - self._num_inputs * entropy

    def get_config(self):
        return super().get_config() | {
            "initial_rate": self.initial_rate,
            "prior_scale": self.prior_scale,
            "temperature": self.temperature,
            "num_train_examples": self.num_train_examples,
            "kl_scale": self._kl_weight.initial_kl_scale,
            "seed": self.seed,
        }

    def _mask(self, inputs):
        """Draws what inputs are multiplied with, of mean about 1."""
        shape = list(ops.shape(inputs))
        if len(shape) > 2:  # whole channels
            shape[1:-1] = [1] * len(shape[1:-1])
        uniform = keras.random.uniform(
            shape, _TINY, 1.0 - _TINY, seed=self.seed_generator
        )
        noise = ops.log(uniform) - ops.log1p(-uniform)
        logit = ops.cast(self._logit, noise.dtype)
        kept = ops.sigmoid(-(logit + noise) / self.temperature)
        return ops.cast(kept / ops.sigmoid(-logit), inputs.dtype)
