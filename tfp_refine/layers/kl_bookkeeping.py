"""Tells all layers of a model how their KL divergence is weighted."""

from tfp_refine import _validation


def set_num_train_examples(model, num_train_examples):
    """Tells every variational layer of a model the size of the training set.

    It takes effect at once, also in functions that are traced already.

    Args:
        model: `keras.Model`, or a single layer.
        num_train_examples: Positive integer: the training examples, after a
            validation split, before augmentation.

    Raises:
        ValueError: If it is not a positive integer, or if the model has no
            variational layers.
    """
    for layer in _variational_layers(model):
        layer.num_train_examples = num_train_examples


def set_kl_scale(model, kl_scale):
    """Sets the factor on the KL divergence of every built layer of a model.

    A saved model does not keep it: it has the layers' argument `kl_scale`.

    Args:
        model: Built `keras.Model`, or a single layer.
        kl_scale: Factor; 1 is a true bound. Annealing raises it from 0 to 1.

    Raises:
        ValueError: If the factor is negative or not finite, or the model is not
            built or has no variational layers.
    """
    kl_scale = _validation.not_negative("kl_scale", kl_scale)
    for layer in _variational_layers(model):
        if not layer.built:
            raise ValueError(
                f"The model must be built before its KL is scaled. Layer "
                f"'{layer.name}' is not."
            )
        if layer.kl_scale is not None:  # a posterior, not a point estimate
            layer.kl_scale.assign(kl_scale)


def _variational_layers(model):
    layers = [
        layer
        for layer in model._flatten_layers()
        if hasattr(layer, "variational_weights")
    ]
    if not layers:
        raise ValueError(
            f"'{model.name}' has no variational layers to tell the KL's weight."
        )
    return layers
