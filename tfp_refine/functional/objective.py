"""A model with its data and its loss: the objective of every method."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import losses
from tfp_refine.functional import data
from tfp_refine.functional import model_inputs
from tfp_refine.losses import likelihood
from tfp_refine.math import ordinal


def resolve(model, loss=None):
    """Finds the loss that stands for the negative log likelihood.

    It is a Keras loss, its name, or a callable `(y_true, y_pred)`; if `None`,
    the loss that the model was compiled with.
    """
    if loss is None:
        loss = getattr(model, "loss", None)
    if loss is None:
        raise ValueError(
            "The negative log likelihood is unknown: compile the model with a "
            "loss, or pass `loss=...`."
        )
    if isinstance(loss, list | tuple | dict):
        raise ValueError(
            "A model with a loss for each output needs one callable "
            "`loss=(y_true, y_pred) -> [N]` here, such as the sum of what the "
            "`call`s of losses of `tfr.losses` return. Received: "
            f"loss={loss!r}"
        )
    return keras.losses.get(loss)


def negative_log_likelihood(loss, y_true, y_pred, weights=None):
    """Computes `-log p(y | x, w)` for each example, nats, `[B]`.

    It counts as often as the weights say, `[B]`, or those of positions, `[B,
    ...]`. The loss' reduction is not used. A callable may return a scalar, the
    mean over the batch, or keep further axes. Only `losses.LikelihoodLoss`
    regards the mask of the outputs.
    """
    if isinstance(loss, losses.LikelihoodLoss):
        mask = likelihood.mask_of(y_pred)
        nll = loss.example_nll(y_true, y_pred, mask, weights)
        if weights is not None and len(weights.shape) > 1:
            return nll  # weighed position by position
    else:
        nll = _nll_of_callable(loss, y_true, y_pred)
    if weights is None:
        return nll
    missing = len(nll.shape) - len(weights.shape)
    if missing < 0:
        raise ValueError(
            f"With `sample_weight` the loss must return a value for each "
            f"weight, {tuple(weights.shape)}. Received: loss={loss!r}, whose "
            f"values have the shape {tuple(nll.shape)}"
        )
    shape = [*keras.ops.shape(weights), *[1] * missing]
    return nll * tf.cast(keras.ops.reshape(weights, shape), nll.dtype)


def _nll_of_callable(loss, y_true, y_pred):
    # As Keras does before it calls a loss: half precision is widened, and
    # targets `[B]` beside outputs `[B, 1]` are not broadcast to `[B, B]`.
    is_loss = isinstance(loss, keras.losses.Loss)
    dtype = loss.dtype if is_loss else keras.config.floatx()
    y_true, y_pred = keras.tree.map_structure(
        lambda value: keras.ops.cast(value, dtype), (y_true, y_pred)
    )
    if not is_loss and not isinstance(y_pred, list | tuple | dict):
        y_true = _of_rank(y_true, y_pred)
    call = loss.call if is_loss else loss
    nll = keras.ops.convert_to_tensor(call(y_true, y_pred))
    if len(nll.shape) > 1 and all(size == 1 for size in nll.shape[1:]):
        nll = keras.ops.reshape(nll, [-1])
    return nll


def check_targets(loss, y_true, y_pred, weights=None):
    """Raises a `ValueError` if targets are impossible for the outputs.

    TensorFlow itself stops on a CPU, with a message about an internal
    operation, and computes NaN elsewhere. `y_pred` are the outputs of some
    examples; `weights`, of all, say which targets count for the losses of
    `tfr.losses`: those that are not 0.
    """
    if isinstance(loss, losses.LikelihoodLoss):
        if likelihood.mask_of(y_pred) is None:  # else of these examples only
            loss.check_targets(y_true, y_pred, None, weights)
        return
    if not (
        isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
        or loss is keras.losses.sparse_categorical_crossentropy
    ):
        return
    y_true = np.asarray(y_true)
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        y_true = y_true[y_true != ignored]
        if not y_true.size:
            return
    num_classes = y_pred.shape[-1]
    low, high = float(np.min(y_true)), float(np.max(y_true))
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"Class numbers must be in [0, {num_classes}), as the model has "
            f"{num_classes} outputs. Received: values from {low:g} to {high:g}"
        )
    fractions = y_true[y_true != np.floor(y_true)]
    if fractions.size:
        raise ValueError(
            "Class numbers must be whole numbers. Received: "
            f"{fractions.size} fractions, such as {float(fractions[0]):g}"
        )


def check_sum(loss, y_pred):
    """Raises a `ValueError` if a loss of Keras is a mean over outputs.

    Their likelihood, of independent targets, is a product: the mean would
    weigh the data down by the number of targets. `y_pred` are the outputs of
    some examples.
    """
    shape = getattr(y_pred, "shape", ())
    if len(shape) < 2 or shape[-1] == 1:
        return
    for (loss_class, function), instead in _MEANS.items():
        if isinstance(loss, loss_class) or loss is function:
            raise ValueError(
                f"Keras' {loss_class.__name__} is a mean over the "
                f"{shape[-1]} outputs, where the log likelihood of an example "
                f"is a sum: it would be {shape[-1]} times too small. Compile "
                f"the model with {instead}, or pass it as `loss`, and train "
                f"with it. Received: loss={loss!r}"
            )


_MEANS = {
    (
        keras.losses.BinaryCrossentropy,
        keras.losses.binary_crossentropy,
    ): "`tfr.losses.BernoulliNLL()`, which reads logits",
    (
        keras.losses.BinaryFocalCrossentropy,
        keras.losses.binary_focal_crossentropy,
    ): "`tfr.losses.BernoulliNLL()`, which reads logits",
    (
        keras.losses.MeanSquaredError,
        keras.losses.mean_squared_error,
    ): "`tfr.losses.GaussianNLL(scale)`, scale=0.5**0.5 for the squared error",
    (
        keras.losses.Poisson,
        keras.losses.poisson,
    ): "`tfr.losses.PoissonNLL()`, which reads logarithms of rates",
    **{
        pair: "a loss that is the sum, such as `tfr.losses.StudentTNLL()`"
        for pair in (
            (keras.losses.MeanAbsoluteError, keras.losses.mean_absolute_error),
            (
                keras.losses.MeanSquaredLogarithmicError,
                keras.losses.mean_squared_logarithmic_error,
            ),
            (keras.losses.Huber, keras.losses.huber),
            (keras.losses.LogCosh, keras.losses.log_cosh),
        )
    },
}


def _of_rank(y_true, y_pred):
    """Adds or drops the targets' last axis if it alone is missing, or 1."""
    rank, wanted = len(y_true.shape), len(y_pred.shape)
    if rank == wanted - 1 and y_pred.shape[-1] == 1:
        return keras.ops.expand_dims(y_true, -1)
    if rank == wanted + 1 and y_true.shape[-1] == 1:
        return keras.ops.squeeze(y_true, -1)
    return y_true


# Examples that a model is called on at a time, to check targets.
_BLOCK = 1024


class Link(NamedTuple):
    """Relation of a classifier's outputs to class probabilities.

    Attributes:
        function: `"softmax"`: classes exclude each other, `C` along the last
            axis. `"sigmoid"`: of one output the second of two classes; of
            several, labels that do not exclude each other. `"ordinal"`:
            ordered classes, from `C - 1` outputs (`losses.OrdinalNLL`).
        from_logits: Whether outputs are logits; else they are probabilities.
    """

    function: str
    from_logits: bool

    def probabilities(self, outputs):
        """Computes class probabilities, `[..., C]`, of outputs `[..., C]`.

        They are `[..., 2]` for a sigmoid of one output, and `[..., C]` for
        `C - 1` outputs of ordered classes.
        """
        if self.function == "ordinal":
            return tf.exp(ordinal.log_probs(outputs))
        if self.function == "softmax":
            return tf.nn.softmax(outputs) if self.from_logits else outputs
        probs = tf.sigmoid(outputs) if self.from_logits else outputs
        if outputs.shape[-1] > 1:
            return probs
        complement = tf.sigmoid(-outputs) if self.from_logits else 1.0 - outputs
        return tf.concat([complement, probs], axis=-1)


def find_link(model, loss=None):
    """Returns the `Link` of a model, or `None` if nothing says it classifies.

    The loss, that which it was compiled with if `None`, or else the activation
    of the last layer says so.
    """
    if loss is None:
        loss = getattr(model, "loss", None)
    if isinstance(loss, str | dict):
        try:
            loss = keras.losses.get(loss)
        except (TypeError, ValueError):
            loss = None
    if loss is not None:
        for function, (classes, functions) in _LINKS.items():
            if isinstance(loss, classes) or loss in functions:
                return Link(function, bool(getattr(loss, "from_logits", False)))
        return None
    layers = [None, *model._flatten_layers(include_self=False)]
    activation = getattr(layers[-1], "activation", None)
    name = getattr(activation, "__name__", None)
    if name in ("softmax", "sigmoid"):
        return Link(name, from_logits=False)
    return None


_LINKS = {
    "ordinal": ((losses.OrdinalNLL,), ()),
    "softmax": (
        (
            losses.CategoricalNLL,
            keras.losses.SparseCategoricalCrossentropy,
            keras.losses.CategoricalCrossentropy,
            keras.losses.CategoricalFocalCrossentropy,
        ),
        (
            keras.losses.sparse_categorical_crossentropy,
            keras.losses.categorical_crossentropy,
        ),
    ),
    "sigmoid": (
        (
            losses.BernoulliNLL,
            keras.losses.BinaryCrossentropy,
            keras.losses.BinaryFocalCrossentropy,
        ),
        (keras.losses.binary_crossentropy,),
    ),
}


class Objective:
    """A model, its training data and its loss, checked to fit each other.

    Data are as for `data.examples`, the loss as for `resolve`. The likelihood
    of an example counts as often as its weight, or that of its class, says.
    With `per_example` the loss must return one value for each example, and
    outputs must not be masked, as sums over examples need.

    Attributes:
        view: `WeightView` of the model.
        loss: What `resolve` returned.
        link: What `find_link` returned.
        data: `(x, y)`, tensors `[N, ...]` (or nested), or `(x, y, weight)`,
            weights `[N]`, or `[N, ...]` of positions.
        num_examples: `N`.
        params: The model's current vector.
        fixed: Values of its fixed weights.
        head_nll: Negative log likelihood of the first examples at a fixed
            draw, to distinguish objectives.
    """

    def __init__(
        self,
        view,
        x,
        y=None,
        loss=None,
        per_example=True,
        *,
        sample_weight=None,
        class_weight=None,
    ):
        self.view = view
        self.loss = resolve(view.model, loss)
        self.link = find_link(view.model, loss)
        (x, *others), self.num_examples = data.examples(
            x, y, sample_weight, class_weight
        )
        self.data = (model_inputs.fit(view.model, x), *others)
        self.params, self.fixed = view.params(), view.fixed()
        check_finite(view.model, weights=(self.params, self.fixed))
        self.head_nll = self._check_likelihood(per_example)

    def nll(self, batch, params, fixed, key, index):
        """Computes the negative log likelihood of each example, nats, `[B]`.

        The batch is a part of `data`; other arguments are as for
        `WeightView.call`. A loss that returns a mean gives a scalar.
        """
        outputs = self.view.call(batch[0], params, fixed, key, index)
        return self.nll_of(batch, outputs)

    def training_loss(self, batch, params, fixed, key, index):
        """Computes the mean loss of a batch in training mode, nats, a scalar.

        Also returns `fixed` after the call, and the sum of the model's losses.
        """
        outputs, fixed, penalty = self.view.call_and_update(
            batch[0], params, fixed, key, index, True
        )
        nll = tf.reduce_mean(self.nll_of(batch, outputs))
        return tf.cast(nll, penalty.dtype), fixed, penalty

    def nll_of(self, batch, outputs):
        """Computes what `nll` does, of the model's outputs for the batch."""
        _, y, *weights = batch
        return negative_log_likelihood(self.loss, y, outputs, *weights)

    def _check_likelihood(self, per_example):
        """Runs two examples, so that a mismatch shows before long work."""
        batch = data.take(self.data, slice(0, 2))
        try:
            outputs = self.view.call(batch[0], self.params, self.fixed, 0)
            check_targets(self.loss, self.data[1], outputs, *self.data[2:])
            nll = self.nll_of(batch, outputs)
        except Exception as error:
            shapes = keras.tree.map_structure(
                lambda value: tuple(value.shape), self.data[:2]
            )
            raise ValueError(
                "The model and its loss cannot be evaluated on the data. "
                f"Received: x of shape {shapes[0]}, y of shape {shapes[1]}, "
                f"loss={self.loss!r} ({error})"
            ) from error
        is_masked = any(
            likelihood.mask_of(output) is not None
            for output in keras.tree.flatten(outputs)
        )
        if is_masked and not isinstance(self.loss, losses.LikelihoodLoss):
            raise ValueError(
                f"The outputs of the model '{self.view.model.name}' are "
                "masked, which only the losses of `tfr.losses` regard here: "
                "for classes, `tfr.losses.CategoricalNLL()`. Received: "
                f"loss={self.loss!r}"
            )
        if is_masked:
            self._check_unmasked()
        if not per_example:
            return nll.numpy()
        count = data.num_examples(batch[0])
        if nll.shape.rank != 0 and tuple(nll.shape) != (count,):
            raise ValueError(
                "The loss must return one value for each example, `[B]`: over "
                "further axes `fit` takes the mean, and the bound needs the "
                "sum, as the losses of `tfr.losses` are; for classes, "
                "`tfr.losses.CategoricalNLL()`. Received: shape "
                f"{tuple(nll.shape)} for {count} examples"
            )
        check_sum(self.loss, outputs)
        return nll.numpy()

    def _check_unmasked(self):
        """Checks all targets that count, by the mask of each block."""
        for begin in range(0, self.num_examples, _BLOCK):
            x, y, *weights = data.take(self.data, slice(begin, begin + _BLOCK))
            outputs = self.view.call(x, self.params, self.fixed, 0)
            self.loss.check_targets(
                y, outputs, likelihood.mask_of(outputs), *weights
            )


def check_finite(model, **values):
    """Raises a `ValueError` unless the named values of a model are finite."""
    for name, value in values.items():
        for leaf in keras.tree.flatten(value):
            if leaf is not None and not np.all(np.isfinite(leaf)):
                raise ValueError(
                    f"The {name} of the model '{model.name}' must be finite. "
                    "Received: NaN or infinite values. Did training diverge?"
                )
