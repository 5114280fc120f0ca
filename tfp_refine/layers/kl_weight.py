"""The factor with which a layer's KL divergence enters the loss."""

import keras

from tfp_refine import _validation


class KLWeight:
    """Divides a KL divergence by the number of training examples.

    Both numbers are variables once created, so that a change needs no new
    trace; they belong to the training run, not to the layer's weights, so they
    are neither saved nor copied with these.

    Args:
        initial_kl_scale: Value of `kl_scale` when it is created.

    Attributes:
        initial_kl_scale: Float.
        kl_scale: Scalar `keras.Variable`, 1 for a true bound; `None` before
            `build`.

    Raises:
        ValueError: If `initial_kl_scale` is negative or not finite.
    """

    def __init__(self, initial_kl_scale=1.0):
        self.initial_kl_scale = _validation.not_negative(
            "kl_scale", initial_kl_scale
        )
        self.kl_scale = None
        self._num_train_examples = None
        self._divisor = None

    @property
    def num_train_examples(self):
        """Number of training examples, or `None` if it was never given."""
        return self._num_train_examples

    @num_train_examples.setter
    def num_train_examples(self, value):
        if value is not None:
            value = _validation.positive_integer("num_train_examples", value)
        self._num_train_examples = value
        if value is not None and self._divisor is not None:
            self._divisor.assign(float(value))

    def build(self, dtype):
        """Creates the variables, if they do not exist yet.

        Args:
            dtype: "float32" or "float64", that of the KL divergence.
        """
        if self.kl_scale is None:
            self.kl_scale = _scalar("kl_scale", self.initial_kl_scale, dtype)
            self._divisor = _scalar(
                "num_train_examples", self._num_train_examples or 1, dtype
            )

    def apply(self, kl, layer_name):
        """Computes what enters the loss.

        Args:
            kl: KL divergence of a weight tensor, nats, a scalar.
            layer_name: Name of its layer, for the error.

        Returns:
            loss: Nats for each training example, a scalar.

        Raises:
            ValueError: If the number of training examples was never given.
        """
        if self._num_train_examples is None:
            raise ValueError(
                f"Layer '{layer_name}' does not know the number of training "
                "examples that its KL divergence must be divided by. Pass "
                "`num_train_examples=...` to the layer, or call "
                "`tfp_refine.layers.set_num_train_examples(model, n)` before "
                "training."
            )
        kl = keras.ops.cast(kl, self.kl_scale.dtype)
        return kl * (self.kl_scale / self._divisor)


class WeighsKL:
    """Mixed into layers that have a `KLWeight`, `_kl_weight`."""

    _kl_weight = None

    @property
    def num_train_examples(self):
        """Number of training examples, or `None` if it was never given."""
        return self._kl_weight.num_train_examples

    @num_train_examples.setter
    def num_train_examples(self, value):
        self._kl_weight.num_train_examples = value

    @property
    def kl_scale(self):
        """Scalar variable, a factor on the KL; `None` before `build`."""
        return self._kl_weight.kl_scale


def _scalar(name, value, dtype):
    # An initializer, not a value: a subclassed model may build its layers
    # inside a trace, where Keras can only create variables of this kind.
    return keras.Variable(
        keras.initializers.Constant(float(value)),
        shape=(),
        dtype=dtype,
        trainable=False,
        autocast=False,
        name=name,
    )
