"""A model with its data and its loss: the objective of every method."""

from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import data


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
            f"`loss=(y_true, y_pred) -> [N]` here. Received: loss={loss!r}"
        )
    return keras.losses.get(loss)


def negative_log_likelihood(loss, y_true, y_pred):
    """Computes `-log p(y | x, w)` for each example, nats, `[B]`.

    The loss' reduction is not used. A callable may return a scalar, the mean
    over the batch, or keep further axes.
    """
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


def check_labels(loss, y_true, y_pred):
    """Raises a `ValueError` if class numbers are no classes of the outputs.

    TensorFlow itself stops on a CPU, with a message about an internal
    operation, and computes NaN elsewhere.
    """
    if not (
        isinstance(loss, keras.losses.SparseCategoricalCrossentropy)
        or loss is keras.losses.sparse_categorical_crossentropy
    ):
        return
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        y_true = np.asarray(y_true)
        y_true = y_true[y_true != ignored]
        if not y_true.size:
            return
    num_classes = y_pred.shape[-1]
    low, high = float(keras.ops.min(y_true)), float(keras.ops.max(y_true))
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"Class numbers must be in [0, {num_classes}), as the model has "
            f"{num_classes} outputs. Received: values from {low:g} to {high:g}"
        )


def _of_rank(y_true, y_pred):
    """Adds or drops the targets' last axis if it alone is missing, or 1."""
    rank, wanted = len(y_true.shape), len(y_pred.shape)
    if rank == wanted - 1 and y_pred.shape[-1] == 1:
        return keras.ops.expand_dims(y_true, -1)
    if rank == wanted + 1 and y_true.shape[-1] == 1:
        return keras.ops.squeeze(y_true, -1)
    return y_true


class Link(NamedTuple):
    """Relation of a classifier's outputs to class probabilities.

    Attributes:
        function: `"softmax"`: classes exclude each other, `C` along the last
            axis. `"sigmoid"`: of one output the second of two classes; of
            several, labels that do not exclude each other.
        from_logits: Whether outputs are logits; else they are probabilities.
    """

    function: str
    from_logits: bool

    def probabilities(self, outputs):
        """Computes class probabilities, `[..., C]`, of outputs `[..., C]`.

        They are `[..., 2]` for a sigmoid of one output.
        """
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
    "softmax": (
        (
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
            keras.losses.BinaryCrossentropy,
            keras.losses.BinaryFocalCrossentropy,
        ),
        (keras.losses.binary_crossentropy,),
    ),
}


class Objective:
    """A model, its training data and its loss, checked to fit each other.

    Data are as for `data.examples`, the loss as for `resolve`. With
    `per_example` the loss must return one value for each example, and outputs
    must not be masked, as sums over examples need.

    Attributes:
        view: `WeightView` of the model.
        loss: What `resolve` returned.
        link: What `find_link` returned.
        data: `(x, y)`, tensors `[N, ...]` (or nested).
        num_examples: `N`.
        params: The model's current vector.
        fixed: Values of its fixed weights.
        head_nll: Negative log likelihood of the first examples at a fixed
            draw, to distinguish objectives.
    """

    def __init__(self, view, x, y=None, loss=None, per_example=True):
        self.view = view
        self.loss = resolve(view.model, loss)
        self.link = find_link(view.model, loss)
        x, y, self.num_examples = data.examples(x, y)
        data.check_fits(view.model, x)
        self.data = (x, y)
        self.params, self.fixed = view.params(), view.fixed()
        check_finite(view.model, weights=(self.params, self.fixed))
        self.head_nll = self._check_likelihood(per_example)

    def nll(self, x, y, params, fixed, key, index):
        """Computes the negative log likelihood of each example, nats, `[B]`.

        Arguments are as for `WeightView.call`. A loss that returns a mean gives
        a scalar.
        """
        outputs = self.view.call(x, params, fixed, key, index)
        return negative_log_likelihood(self.loss, y, outputs)

    def training_loss(self, x, y, params, fixed, key, index):
        """Computes the mean loss of a batch in training mode, nats, a scalar.

        Also returns `fixed` after the call, and the sum of the model's losses.
        """
        outputs, fixed, penalty = self.view.call_and_update(
            x, params, fixed, key, index, True
        )
        nll = tf.reduce_mean(negative_log_likelihood(self.loss, y, outputs))
        return tf.cast(nll, penalty.dtype), fixed, penalty

    def _check_likelihood(self, per_example):
        """Runs two examples, so that a mismatch shows before long work."""
        x, y = data.take(self.data, slice(0, 2))
        try:
            outputs = self.view.call(x, self.params, self.fixed, 0)
            check_labels(self.loss, self.data[1], outputs)
            nll = negative_log_likelihood(self.loss, y, outputs)
        except Exception as error:
            shapes = keras.tree.map_structure(
                lambda value: tuple(value.shape), self.data
            )
            raise ValueError(
                "The model and its loss cannot be evaluated on the data. "
                f"Received: x of shape {shapes[0]}, y of shape {shapes[1]}, "
                f"loss={self.loss!r} ({error})"
            ) from error
        if not per_example:
            return nll.numpy()
        if any(
            getattr(output, "_keras_mask", None) is not None
            for output in keras.tree.flatten(outputs)
        ):
            raise ValueError(
                f"The outputs of the model '{self.view.model.name}' are "
                "masked, and the likelihood cannot be weighted by masks here."
            )
        count = data.num_examples(x)
        if nll.shape.rank != 0 and tuple(nll.shape) != (count,):
            raise ValueError(
                "The loss must return one value for each example, `[B]`: over "
                "further axes `fit` takes the mean, and the bound needs the "
                f"sum. Received: shape {tuple(nll.shape)} for {count} examples"
            )
        return nll.numpy()


def check_finite(model, **values):
    """Raises a `ValueError` unless the named values of a model are finite."""
    for name, value in values.items():
        for leaf in keras.tree.flatten(value):
            if leaf is not None and not np.all(np.isfinite(leaf)):
                raise ValueError(
                    f"The {name} of the model '{model.name}' must be finite. "
                    "Received: NaN or infinite values. Did training diverge?"
                )
