"""Losses that are negative log likelihoods, and say of which distribution."""

import math
from typing import Any
from typing import ClassVar

import keras
import tensorflow as tf
from tensorflow_probability import distributions as tfd

from tfp_refine import _validation


@keras.saving.register_keras_serializable(package="tfp_refine")
class LikelihoodLoss(_validation.Shown, keras.losses.Loss):
    """Base of losses that are exact negative log likelihoods, in nats.

    The outputs of a model are the parameters of one distribution per target.
    The value of an example is the sum over its targets: values, labels, and
    positions of a sequence or an image, without those that the Keras mask of
    the outputs leaves out. The default `reduction` is the mean of these sums
    over examples, masked or not.

    A `sample_weight`, `[batch_size]`, counts the likelihood of example `i`
    `w_i` times; `[batch_size, ...]`, that of each of its positions.

    Targets that the distribution cannot produce, such as fractional class
    numbers or negative counts, are a `ValueError` in eager execution, and make
    the loss NaN in compiled programs. `refine`, `elbo` and the other functions
    that take data check all of it first.
    """

    # Requirement on targets, for messages; empty if any number will do.
    _support: ClassVar[str] = ""
    # Whether the outputs must not be probabilities.
    from_logits: ClassVar[bool] = False

    def __init__(
        self,
        *,
        name: str | None = None,
        reduction: str | None = "sum_over_batch_size",
        dtype: str | keras.DTypePolicy | None = None,
    ) -> None:
        super().__init__(
            name=_validation.check_name(name),
            reduction=_validation.check_reduction(reduction),
            dtype=_validation.check_dtype(dtype),
        )

    def predictive(self, outputs: tf.Tensor) -> tfd.Distribution:
        """Returns the distributions of targets that outputs stand for.

        Args:
            outputs: Outputs of a model, `[..., K]`: of a batch, or draws of
                them.

        Returns:
            distribution: Of one number per target, without event axes. Its
                batch shape is that of targets, behind the axes of draws.

        Raises:
            NotImplementedError: If a subclass does not implement it.
            ValueError: If the loss reads no such outputs.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `predictive`"
        )

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        return self.example_nll(y_true, y_pred, mask_of(y_pred))

    def __call__(
        self,
        y_true: tf.Tensor,
        y_pred: tf.Tensor,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        # Keras would weigh values [B] by masks and weights [B, T].
        if _is_of_examples(sample_weight):  # [B] or [B, 1]
            sample_weight = keras.ops.reshape(sample_weight, [-1])
        nll = self.example_nll(y_true, y_pred, mask_of(y_pred), sample_weight)
        if not _is_of_examples(sample_weight):
            sample_weight = None
        reduced = _Values(self.name, self.reduction, self.dtype)
        return reduced(nll, nll, sample_weight)

    def example_nll(
        self,
        y_true: tf.Tensor,
        y_pred: tf.Tensor,
        mask: tf.Tensor | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Computes the negative log likelihood of each example, nats.

        Args:
            y_true: Targets, `[batch_size, ...]`.
            y_pred: Outputs of the model, `[batch_size, ..., K]`.
            mask: Which positions count, booleans, leading axes of the targets.
            sample_weight: Weights of positions. Those of whole examples,
                `[batch_size]`, only say here which ones do not count.

        Returns:
            nll: `[batch_size]`.

        Raises:
            ValueError: If shapes disagree, outputs are probabilities where
                logits are wanted, or, in eager execution, targets are
                impossible.
        """
        self._check_logits(y_pred)
        y_true, y_pred = (
            keras.ops.convert_to_tensor(value, dtype=self.dtype)
            for value in (y_true, y_pred)
        )
        distribution = self.predictive(y_pred)
        if len(y_pred.shape) < 2:  # the sum below would be one over the batch
            raise ValueError(
                "The model must output a row of values for each example, "
                "[batch_size, ..., K]. Received: outputs of shape "
                f"{tuple(y_pred.shape)}"
            )
        targets = self._targets(y_true, distribution.batch_shape, distribution)
        counts, weights = self._counts(targets, mask, sample_weight)
        targets, is_possible = self._checked(targets, counts, distribution)
        nll = -self._log_prob(targets, distribution)
        if is_possible is not None:
            nll = keras.ops.where(is_possible, nll, math.nan)
        if counts is not None:
            nll = keras.ops.where(counts, nll, 0.0)
        if sample_weight is not None and not _is_of_examples(sample_weight):
            nll *= weights
        # [B]: a mean over positions would weigh the likelihood down.
        return tf.reduce_sum(nll, axis=list(range(1, len(nll.shape))))

    def check_targets(
        self,
        y_true: tf.Tensor,
        outputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> None:
        """Checks that targets of examples are possible.

        Args:
            y_true: Targets, `[N, ...]`.
            outputs: Outputs of the model for some example, `[B, ..., K]`.
            mask: Which positions of `y_true` count, as for `example_nll`.
            sample_weight: Weights of examples or positions, of which those
                that are 0 do not count, as for `example_nll`.

        Raises:
            ValueError: If shapes disagree, or targets are impossible.
        """
        y_true, outputs = (
            keras.ops.convert_to_tensor(value, dtype=self.dtype)
            for value in (y_true, outputs)
        )
        distribution = self.predictive(outputs[:1])
        shape = tf.TensorShape([None]).concatenate(distribution.batch_shape[1:])
        targets = self._targets(y_true, shape, distribution)
        counts, _ = self._counts(targets, mask, sample_weight)
        self._checked(targets, counts, distribution)

    def _targets(
        self, y_true: tf.Tensor, shape: Any, distribution: tfd.Distribution
    ) -> tf.Tensor:
        """Brings targets to a shape: one number for each of them."""
        del distribution
        if len(y_true.shape) == len(shape) - 1 and shape[-1] == 1:
            y_true = keras.ops.expand_dims(y_true, -1)
        if len(y_true.shape) != len(shape) or any(
            a is not None and b is not None and a != b
            for a, b in zip(y_true.shape, shape, strict=True)
        ):
            raise ValueError(
                "The targets must have the shape that the outputs stand for, "
                f"{tuple(shape)}. Received: y_true.shape={tuple(y_true.shape)}"
            )
        return y_true

    def _counts(
        self,
        targets: tf.Tensor,
        mask: tf.Tensor | None,
        sample_weight: tf.Tensor | None,
    ) -> tuple[tf.Tensor | None, tf.Tensor | None]:
        """Says which targets count, and how much; `None` if all do, alike."""
        counts = None if mask is None else _like("mask", mask, targets)
        if sample_weight is None:
            return counts, None
        weights = keras.ops.convert_to_tensor(sample_weight, self.dtype)
        weights = _like("sample_weight", weights, targets)
        used = weights != 0.0
        return used if counts is None else counts & used, weights

    def _are_possible(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor | None:
        """Says which targets are possible; `None` if all numbers are."""
        del targets, distribution
        return None

    def _log_prob(
        self, targets: tf.Tensor, distribution: tfd.Distribution
    ) -> tf.Tensor:
        return distribution.log_prob(targets)

    def _checked(
        self,
        targets: tf.Tensor,
        counts: tf.Tensor | None,
        distribution: tfd.Distribution,
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Replaces targets that have no likelihood, for finite gradients."""
        is_possible = self._are_possible(targets, distribution)
        valid = is_possible
        if is_possible is not None and counts is not None:
            valid = is_possible = is_possible | ~counts
        if is_possible is not None and tf.executing_eagerly():
            bad = targets[~is_possible]
            if len(bad):
                raise ValueError(
                    f"The targets of {type(self).__name__} must be "
                    f"{self._support_of(distribution)}. Received: "
                    f"{self._described(float(bad[0]))}, {len(bad)} such"
                )
        if counts is not None:
            valid = counts if valid is None else valid & counts
        if valid is not None:
            targets = keras.ops.where(valid, targets, 0.0)
        return targets, is_possible

    def _support_of(self, distribution: tfd.Distribution) -> str:
        del distribution
        return self._support

    def _described(self, target: float) -> str:
        return f"{target:g}"

    def _check_logits(self, outputs: tf.Tensor) -> None:
        if self.from_logits and hasattr(outputs, "_keras_logits"):
            raise ValueError(
                f"{type(self).__name__} reads logits. Received: outputs of a "
                "softmax or a sigmoid. Remove this activation, or the layer."
            )


class _Values(keras.losses.Loss):
    """Reduces values of examples as Keras does."""

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        del y_true
        return y_pred


def mask_of(outputs: tf.Tensor) -> tf.Tensor | None:
    """Returns the Keras mask of outputs, or `None`."""
    return getattr(outputs, "_keras_mask", None)


def heads(
    loss: LikelihoodLoss, outputs: tf.Tensor, names: list[str]
) -> list[tf.Tensor]:
    """Splits outputs, `[..., len(names) * D]`, into parts, `[..., D]` each."""
    outputs = keras.ops.convert_to_tensor(outputs)
    if len(outputs.shape) == 0 or outputs.shape[-1] % len(names):
        raise ValueError(
            f"{type(loss).__name__} reads {' and '.join(names)} of each target "
            f"from the last axis, so a multiple of {len(names)} values. "
            f"Received: outputs of shape {tuple(outputs.shape)}"
        )
    return keras.ops.split(outputs, len(names), axis=-1)


def _is_of_examples(weights: tf.Tensor | None) -> bool:
    return weights is not None and all(
        size == 1 for size in keras.ops.convert_to_tensor(weights).shape[1:]
    )


def _like(name: str, value: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Gives a mask, or weights, `[B, ...]`, as many axes as targets have."""
    missing = len(targets.shape) - len(value.shape)
    wanted = targets.shape[: len(value.shape)]
    if missing < 0 or any(
        None not in sizes and sizes[0] not in (1, sizes[1])
        for sizes in zip(value.shape, wanted, strict=False)
    ):
        raise ValueError(
            f"`{name}` must have the shape of the targets, "
            f"{tuple(targets.shape)}, or of their first axes. Received: shape "
            f"{tuple(value.shape)}"
        )
    if name == "mask":
        value = keras.ops.cast(value, "bool")
    return keras.ops.reshape(value, [*keras.ops.shape(value), *[1] * missing])
