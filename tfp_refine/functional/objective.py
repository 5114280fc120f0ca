"""A model with its data and its loss: the objective of every method."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import losses
from tfp_refine.functional import data
from tfp_refine.functional import links
from tfp_refine.functional import model_inputs
from tfp_refine.functional import several_outputs
from tfp_refine.functional import streams
from tfp_refine.losses import likelihood


def resolve(model, loss=None):
    """Finds the loss that stands for the negative log likelihood.

    It is a Keras loss, its name, or a callable `(y_true, y_pred)`; if `None`,
    the loss that the model was compiled with.
    """
    loss = _known(model, loss)
    if keras.tree.is_nested(loss):
        raise ValueError(
            "A model of one output, with one loss, is needed here. Received: "
            f"loss={loss!r}"
        )
    return keras.losses.get(loss)


def resolve_sum(model, outputs, loss=None):
    """Finds the loss of all outputs of a model, some of which are given.

    It may be several in a dict or list, as Keras takes them: then a
    `SummedLoss`, with the `loss_weights` that the model was compiled with if
    `loss` is `None`. A function takes all outputs at once, but not if the model
    was compiled with it, as in `fit`.
    """
    factors = compiled_loss_weights(model) if loss is None else None
    known = _known(model, loss)
    is_one = not any(map(keras.tree.is_nested, (known, outputs)))
    if several_outputs.takes_all(loss) or (is_one and factors is None):
        return keras.losses.get(known)
    return several_outputs.SummedLoss(model, outputs, known, factors)


def compiled_loss_weights(model):
    """Returns the `loss_weights` that a model was compiled with, or `None`."""
    compiled = getattr(model, "_compile_loss", None)
    return getattr(compiled, "_user_loss_weights", None)


def _known(model, loss):
    if loss is None:
        loss = getattr(model, "loss", None)
    if loss is None:
        raise ValueError(
            "The negative log likelihood is unknown: compile the model with a "
            "loss, or pass `loss=...`."
        )
    return loss


def parts(loss, y_true, y_pred, weights=None):
    """Returns the `several_outputs.Part`s of a loss, one for each output."""
    if isinstance(loss, several_outputs.SummedLoss):
        return loss.parts(y_true, y_pred, weights)
    return [several_outputs.Part("", loss, 1.0, y_true, y_pred, weights)]


def summed_nll(parts):
    """Computes the sum of `negative_log_likelihood` over parts of a loss.

    Values of further axes are averaged where there are several.
    """
    if len(parts) == 1 and parts[0].factor == 1.0:
        return negative_log_likelihood(*_arguments(parts[0]))
    total = 0.0
    for part in parts:
        nll = negative_log_likelihood(*_arguments(part))
        nll = keras.ops.mean(nll, axis=list(range(1, len(nll.shape))))
        total += part.factor * tf.cast(nll, keras.config.floatx())
    return total


def _arguments(part):
    return part.loss, part.y_true, part.y_pred, part.weights


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


def check_likelihood(loss, y_pred=None):
    """Raises a `ValueError` if a loss of Keras is no log likelihood, or a mean.

    The likelihood of an example, of independent targets, is a product: a mean
    over outputs or positions would weigh the data down by their number.
    `y_pred` are the outputs of some examples; `None` if they are unknown.
    """
    function = getattr(loss, "fn", loss)
    if not str(getattr(function, "__module__", "")).startswith("keras."):
        return
    if function not in _LIKELIHOODS or getattr(loss, "label_smoothing", 0.0):
        raise ValueError(
            "A loss that is the negative log likelihood of a distribution is "
            "needed. Of Keras, these are crossentropies without label "
            "smoothing, the squared and the absolute error of one output, "
            "`Poisson` and `CTC`; of this library all of `tfr.losses`, such as "
            "`StudentTNLL()` for outliers. Received: "
            f"loss={loss!r}"
        )
    shape = tuple(getattr(y_pred, "shape", ()))
    averaged = shape[1:-1] if function in _OF_CLASSES else shape[1:]
    if function is keras.losses.ctc or all(size == 1 for size in averaged):
        return
    count = "several" if None in averaged else np.prod(averaged)
    raise ValueError(
        f"Keras' {function.__name__} is a mean over the {count} "
        f"{'positions' if function in _OF_CLASSES else 'outputs'}, where the "
        f"log likelihood of an example is a sum: it would be {count} times too "
        f"small. Compile the model with {_LIKELIHOODS[function]}, or pass it "
        f"as `loss`, and train with it. Received: loss={loss!r}"
    )


def check_compiled_loss(model):
    """Raises a `ValueError` unless a compiled loss is a log likelihood.

    Of several outputs, the sum of theirs. Outputs of a subclass of
    `keras.Model` are unknown: there, means over them are not seen.
    """
    functional = getattr(model, "_functional", None) or model  # of Sequential
    outputs = getattr(functional, "_outputs_struct", None)
    if outputs is None:
        for loss in keras.tree.flatten(model.loss):
            check_likelihood(keras.losses.get(loss))
    else:
        loss = resolve_sum(model, outputs)
        count = len(getattr(loss, "names", (None,)))
        for part in parts(loss, (None,) * count, outputs):
            check_likelihood(part.loss, part.y_pred)
    factors = keras.tree.flatten(compiled_loss_weights(model))
    if any(factor not in (None, 1.0) for factor in factors):
        raise ValueError(
            "The log likelihood of all outputs is the sum of theirs, without "
            "`loss_weights`: give `sample_weight` where examples count more. "
            f"Received: loss_weights={compiled_loss_weights(model)!r}"
        )


# Losses of Keras that are likelihoods, up to constants, with those of ours that
# take the sum.
_OF_CLASSES = {
    keras.losses.categorical_crossentropy,
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.kl_divergence,
}
_LIKELIHOODS = {
    **dict.fromkeys(_OF_CLASSES, "`tfr.losses.CategoricalNLL()`"),
    keras.losses.binary_crossentropy: (
        "`tfr.losses.BernoulliNLL()`, which reads logits"
    ),
    keras.losses.mean_squared_error: (
        "`tfr.losses.GaussianNLL(scale)`, scale=0.5**0.5 for the squared error"
    ),
    keras.losses.mean_absolute_error: (
        "a loss that is the sum, such as `tfr.losses.StudentTNLL()`"
    ),
    keras.losses.poisson: (
        "`tfr.losses.PoissonNLL()`, which reads logarithms of rates"
    ),
    keras.losses.ctc: None,
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


class Objective:
    """A model, its training data and its loss, checked to fit each other.

    Data are as for `data.examples`; those of several outputs, and the loss, as
    for `resolve_sum`. The likelihood
    of an example counts as often as its weight, or that of its class, says.
    With `per_example` the loss must return one value for each example, and
    outputs must not be masked, as sums over examples need. `at` is the vector
    and the fixed weights to use, if not those of the model.

    Attributes:
        view: `WeightView` of the model.
        jit_compile: Whether XLA compiles steps, as it would those of `fit`.
        loss: Result of `resolve_sum`.
        link: Result of `links.find`.
        data: `(x, y)`, tensors `[N, ...]` (or nested), or `(x, y, weight)`,
            weights `[N]`, or `[N, ...]` of positions. Of several outputs, `y`
            is a tuple of the targets of those with a loss, and so are weights
            that differ. Or a `Stream` of them.
        num_examples: `N`.
        head: The first two examples, a tuple likewise.
        params: The model's current vector, unless `at` says otherwise.
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
        at=None,
    ):
        self.view = view
        model = view.model
        self.jit_compile = model.jit_compile and not model.run_eagerly
        _known(model, loss)
        self.params, self.fixed = at or (view.params(), view.fixed())
        self.loss = self.head_nll = None
        self.data, self.num_examples = streams.examples(
            x,
            y,
            sample_weight,
            class_weight,
            fit=lambda given: self._fit(given, loss),
            check=lambda block: self._check(block, per_example),
        )

    def arrange(self, given):
        """Arranges data `(x, y)` or `(x, y, weight)` as `data` has them."""
        if isinstance(self.loss, several_outputs.SummedLoss):
            return self.loss.arrange(given)
        return given

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
        """Computes `nll` from the model's outputs for the batch."""
        return summed_nll(self._parts(batch, outputs))

    def check_examples(self):
        """Raises a `ValueError` if the loss returns the mean of a batch."""
        if not np.ndim(self.head_nll):
            raise ValueError(
                "The loss must return one value for each example, `[B]`, as "
                "held-out examples are scored one by one. Received: loss="
                f"{self.loss!r}, which returns a mean"
            )

    def _parts(self, batch, outputs):
        _, y, *weights = batch
        return parts(self.loss, y, outputs, *weights)

    def _fit(self, given, loss):
        """Returns all data, or a block of a stream, as `data` has them.

        The first ones decide the kind of a loss of several outputs.
        """
        x, *others = given
        given = (model_inputs.fit(self.view.model, x), *others)
        if self.loss is None:
            check_finite(self.view.model, weights=(self.params, self.fixed))
            outputs = self._outputs = self._head_outputs(given, loss)
            self.loss = resolve_sum(self.view.model, outputs, loss)
            self.link = links.find(self.view.model, loss, outputs)
        return self.arrange(given)

    def _head_outputs(self, given, loss):
        """Returns outputs of two examples; `given` are all of the data."""
        try:
            x = data.take(given[0], slice(0, 2))
            return self.view.call(x, self.params, self.fixed, 0)
        except Exception as error:
            raise _not_evaluated(given, loss, error) from error

    def _check(self, block, per_example):
        """Checks all data, or block after block of a stream."""
        if self.head_nll is None:
            self.head = data.take(block, slice(0, 2))
            self.head_nll = self._check_likelihood(block, per_example)
            return
        block_parts = self._parts(block, self._outputs)
        for part in block_parts:
            check_targets(*_arguments(part))
        if any(_is_masked(part.y_pred) for part in block_parts):
            self._check_unmasked(block)

    def _check_likelihood(self, block, per_example):
        """Runs two examples, so that a mismatch shows before long work."""
        head = self.head
        try:
            for part in self._parts(block, self._outputs):
                check_targets(*_arguments(part))
            head_parts = self._parts(head, self._outputs)
            values = [
                negative_log_likelihood(*_arguments(part))
                for part in head_parts
            ]
        except Exception as error:
            raise _not_evaluated(block, self.loss, error) from error
        masks = [_is_masked(part.y_pred) for part in head_parts]
        for part, is_masked in zip(head_parts, masks, strict=True):
            if is_masked and not isinstance(part.loss, losses.LikelihoodLoss):
                raise ValueError(
                    f"The outputs{part.where} of the model "
                    f"'{self.view.model.name}' are masked, which only the "
                    "losses of `tfr.losses` regard here: for classes, "
                    "`tfr.losses.CategoricalNLL()`. Received: "
                    f"loss={part.loss!r}"
                )
        if any(masks):
            self._check_unmasked(block)
        if per_example:
            count = data.num_examples(head[0])
            for part, nll in zip(head_parts, values, strict=True):
                _check_sum_of(part, nll, count)
        return summed_nll(head_parts).numpy()

    def _check_unmasked(self, block):
        """Checks all targets that count, by the masks of the outputs."""
        for begin in range(0, data.num_examples(block), _BLOCK):
            few = data.take(block, slice(begin, begin + _BLOCK))
            outputs = self.view.call(few[0], self.params, self.fixed, 0)
            for part in self._parts(few, outputs):
                mask = likelihood.mask_of(part.y_pred)
                if mask is not None:
                    part.loss.check_targets(
                        part.y_true, part.y_pred, mask, part.weights
                    )


def _is_masked(outputs):
    return any(
        likelihood.mask_of(output) is not None
        for output in keras.tree.flatten(outputs)
    )


def _check_sum_of(part, nll, count):
    """Raises a `ValueError` unless a loss is a log likelihood, `[B]`."""
    if nll.shape.rank != 0 and tuple(nll.shape) != (count,):
        raise ValueError(
            f"The loss{part.where} must return one value for each example, "
            "`[B]`: over further axes `fit` takes the mean, and the bound "
            "needs the sum, as the losses of `tfr.losses` are; for classes, "
            "`tfr.losses.CategoricalNLL()`. Received: shape "
            f"{tuple(nll.shape)} for {count} examples"
        )
    check_likelihood(part.loss, part.y_pred)


def _not_evaluated(given, loss, error):
    x, y = keras.tree.map_structure(
        lambda value: tuple(value.shape), list(given[:2])
    )
    return ValueError(
        "The model and its loss cannot be evaluated on the data. Received: x "
        f"of shape {x}, y of shape {y}, loss={loss!r} ({error})"
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
