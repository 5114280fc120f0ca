"""Negative log likelihood of each example, from a model's loss."""

import keras


def resolve(model, loss=None):
    """Finds the loss that stands for the negative log likelihood.

    Args:
        model: `keras.Model`.
        loss: A Keras loss, its name, or a callable `(y_true, y_pred)`; the
            loss that the model was compiled with if `None`.

    Returns:
        loss: `keras.losses.Loss` or callable.

    Raises:
        ValueError: If there is none, or one for each of several outputs.
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
    """Computes `-log p(y | x, w)` for each example.

    Args:
        loss: What `resolve` returned. Its reduction is not used. If a callable
            returns a scalar, that is taken for the mean over the batch.
        y_true: Targets, `[B, ...]`.
        y_pred: Outputs of the model, `[B, ...]`.

    Returns:
        nll: Nats, `[B]` (further axes only if the loss keeps them), or a
            scalar.
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
    """Checks that class numbers are classes of the outputs.

    TensorFlow itself stops on a CPU, with a message about an internal
    operation, and computes NaN elsewhere.

    Args:
        loss: What `resolve` returned.
        y_true: All targets, `[N, ...]`.
        y_pred: Some outputs of the model, `[B, ..., C]`.

    Raises:
        ValueError: If the loss takes class numbers, and one is not in
            `[0, C)`.
    """
    if not _takes_class_numbers(loss):
        return
    num_classes = y_pred.shape[-1]
    low, high = float(keras.ops.min(y_true)), float(keras.ops.max(y_true))
    if low < 0 or high >= num_classes:
        raise ValueError(
            f"Class numbers must be in [0, {num_classes}), as the model has "
            f"{num_classes} outputs. Received: values from {low:g} to {high:g}"
        )


def _takes_class_numbers(loss):
    return isinstance(loss, keras.losses.SparseCategoricalCrossentropy) or (
        loss is keras.losses.sparse_categorical_crossentropy
    )


def _of_rank(y_true, y_pred):
    """Adds or drops the targets' last axis if it alone is missing, or 1."""
    rank, wanted = len(y_true.shape), len(y_pred.shape)
    if rank == wanted - 1 and y_pred.shape[-1] == 1:
        return keras.ops.expand_dims(y_true, -1)
    if rank == wanted + 1 and y_true.shape[-1] == 1:
        return keras.ops.squeeze(y_true, -1)
    return y_true
