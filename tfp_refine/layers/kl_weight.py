"""The factor with which the KL divergence of layers enters the loss."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation


class KLWeight:
    """Divides a KL divergence by the number of training examples.

    Both numbers are variables once `build` is called, so that a change needs no
    new trace. They belong to the training run, not to the layer's weights: they
    are neither saved nor copied with these.
    """

    def __init__(
        self,
        initial_kl_scale: float = 1.0,
        num_train_examples: int | None = None,
    ) -> None:
        self.initial_kl_scale = _checked_scale(initial_kl_scale)
        self.kl_scale: keras.Variable = None
        self._divisor: keras.Variable = None
        self.num_train_examples = num_train_examples

    @property
    def num_train_examples(self) -> int | None:
        """Number of training examples, or `None` if it is not set."""
        return self._num_train_examples

    @num_train_examples.setter
    def num_train_examples(self, value: int | None) -> None:
        if value is not None:
            value = _validation.positive_integer("num_train_examples", value)
        self._num_train_examples = value
        if value is not None and self._divisor is not None:
            self._divisor.assign(float(value))

    def build(self, dtype: str) -> None:
        """Creates the variables if they do not exist yet."""
        if self.kl_scale is None:
            self.kl_scale = _scalar("kl_scale", self.initial_kl_scale, dtype)
            self._divisor = _scalar(
                "num_train_examples", self._num_train_examples or 1, dtype
            )

    def apply(self, kl: tf.Tensor, layer_name: str) -> tf.Tensor:
        """Scales a scalar KL divergence (nats) to nats per training example."""
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
    """Mixin of layers that have a `KLWeight`, `_kl_weight`."""

    _kl_weight: KLWeight

    @property
    def num_train_examples(self) -> int | None:
        """Number of training examples, or `None` if it is not set."""
        return self._kl_weight.num_train_examples

    @num_train_examples.setter
    def num_train_examples(self, value: int | None) -> None:
        self._kl_weight.num_train_examples = value

    @property
    def kl_scale(self) -> keras.Variable | None:
        """Scalar variable, a factor on the KL; `None` before `build`."""
        return self._kl_weight.kl_scale


class Attached(keras.regularizers.Regularizer):
    """A function of a variable as its regularizer: Keras 3.12 takes no other.

    It belongs to the variable of one layer, and is never saved.
    """

    def __init__(self, function: Callable[[tf.Tensor], tf.Tensor]) -> None:
        self._function = function

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return self._function(x)


def _checked_scale(kl_scale: float) -> float:
    kl_scale = _validation.not_negative("kl_scale", kl_scale)
    if kl_scale:  # within float32
        _validation.scale("kl_scale", max(kl_scale, 1.0))
    return kl_scale


def _scalar(name: str, value: float, dtype: str) -> keras.Variable:
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


def set_num_train_examples(
    model: keras.layers.Layer, num_train_examples: int
) -> None:
    """Sets the size of the training set in every variational layer of a model.

    It takes effect at once, also in functions that are traced already.

    Args:
        model: `keras.Model`, or a single layer.
        num_train_examples: Positive integer: the training examples, after a
            validation split, before augmentation.

    Raises:
        ValueError: If `num_train_examples` is not a positive integer, or the
            model has no variational layers.

    Example:

    ```python
    model = tfp_refine.models.MLP((13,))
    tfp_refine.layers.set_num_train_examples(model, len(x_train))
    ```
    """
    for layer in _variational_layers(model):
        layer.num_train_examples = num_train_examples


def set_kl_scale(model: keras.layers.Layer, kl_scale: float) -> None:
    """Sets the factor on the KL divergence of every built layer of a model.

    A saved model does not keep it, but the layers' argument `kl_scale`.

    Args:
        model: Built `keras.Model`, or a single layer.
        kl_scale: Factor; 1 is a true bound. Annealing raises it from 0 to 1.

    Raises:
        ValueError: If the factor is negative or not finite, or the model is not
            built or has no variational layers.

    Example:

    ```python
    tfp_refine.layers.set_kl_scale(model, 0.1)
    model.fit(x_train, y_train, epochs=100)
    tfp_refine.layers.set_kl_scale(model, 1.0)
    ```
    """
    kl_scale = _checked_scale(kl_scale)
    for layer in _variational_layers(model):
        if not layer.built:
            raise ValueError(
                f"The model must be built before its KL is scaled. Layer "
                f"'{layer.name}' is not."
            )
        if layer.kl_scale is not None:  # a posterior, not a point estimate
            layer.kl_scale.assign(kl_scale)


def _variational_layers(model: keras.layers.Layer) -> list[Any]:
    layers = [
        layer
        for layer in _validation.instance(
            "model", model, keras.layers.Layer, "a keras.Model or a layer"
        )._flatten_layers()
        if hasattr(layer, "variational_weights")
    ]
    if not layers:
        raise ValueError(f"'{model.name}' has no variational layers.")
    return layers
