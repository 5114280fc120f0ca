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
        nll: Nats, summed over all axes of an example, `[B]` or a scalar.
    """
    call = loss.call if isinstance(loss, keras.losses.Loss) else loss
    nll = keras.ops.convert_to_tensor(call(y_true, y_pred))
    return keras.ops.sum(nll, axis=tuple(range(1, len(nll.shape))))
