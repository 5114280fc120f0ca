"""The models of the image experiment, by name."""

import re

import keras

from tfp_refine import layers
from tfp_refine import models

CONV_LAYERS = {
    "flipout": layers.Conv2DFlipout,
    "local_reparameterization": layers.Conv2DLocalReparameterization,
    "reparameterization": layers.Conv2DReparameterization,
}
DENSE_LAYERS = {
    "flipout": layers.DenseFlipout,
    "local_reparameterization": layers.DenseLocalReparameterization,
    "reparameterization": layers.DenseReparameterization,
}
NAMES = (
    "mlp, lenet5, lenet5_caffe, lenet5_wide, resnet20 or resnetN with N = 6 n "
    "+ 2"
)
# LeNet-5 as Louizos and Welling have it: for MNIST, and for CIFAR-10.
_LENETS = {"lenet5_caffe": (20, 50, 500), "lenet5_wide": (192, 192, 1000)}


def usual_variational(name):
    """Returns which weights of a model usually have posteriors.

    Args:
        name: Name of the model.

    Returns:
        variational: "hybrid" for a ResNet, "full" for the others.

    Raises:
        ValueError: If there is no such model.
    """
    if not re.fullmatch(r"mlp|lenet5|lenet5_caffe|lenet5_wide|resnet\d+", name):
        raise ValueError(f"--model must be {NAMES}. Received: {name}")
    return "hybrid" if name.startswith("resnet") else "full"


def build(
    name,
    input_shape,
    num_classes,
    *,
    hidden,
    variational,
    batch_norm,
    conv_layer,
    dense_layer,
    prior_scale,
    seed,
    layer_arguments,
):
    """Builds a model.

    Args:
        name: Name of the model.
        input_shape: Height, width and channels.
        num_classes: Number of classes.
        hidden: Units of the hidden layers of an MLP.
        variational: "none", "hybrid" or "full".
        batch_norm: Whether a ResNet has batch normalization.
        conv_layer: Class of the variational convolutions.
        dense_layer: Class of the variational dense layers.
        prior_scale: Standard deviation of the weights' prior in a model
            without posteriors; a ResNet has its own L2 penalty.
        seed: Integer.
        layer_arguments: Arguments of the variational layers.

    Returns:
        model: `keras.Model` that returns logits, not compiled.

    Raises:
        ValueError: If there is no such model.
    """
    chosen = {
        "conv_layer": conv_layer,
        "dense_layer": dense_layer,
        "seed": seed,
        **layer_arguments,
    }
    if name.startswith("resnet"):
        # The biases of a ResNet are point estimates.
        chosen.pop("bias_posterior", None)
        return models.ResNet(
            input_shape,
            num_classes,
            depth=int(name.removeprefix("resnet")),
            variational=variational,
            batch_norm=batch_norm,
            **chosen,
        )
    if batch_norm or variational == "hybrid":
        raise ValueError(
            "--batch_norm and --variational=hybrid are for ResNets. "
            f"Received: --model={name}"
        )
    if variational == "none":
        if isinstance(prior_scale, str):
            raise ValueError(
                "A model without posteriors needs a --prior_scale that is a "
                f"number. Received: {prior_scale}"
            )
        # What stands for a Gaussian prior in a loss that is a mean.
        penalty = keras.regularizers.L2(
            0.5 / (layer_arguments["num_train_examples"] * prior_scale**2)
        )
        chosen = {
            "conv_layer": keras.layers.Conv2D,
            "dense_layer": keras.layers.Dense,
            "kernel_regularizer": penalty,
            "bias_regularizer": penalty,
            "seed": seed,
        }
    if name == "mlp":
        chosen["layer"] = chosen.pop("dense_layer")
        del chosen["conv_layer"]
        return models.MLP(input_shape, num_classes, hidden=hidden, **chosen)
    if name in _LENETS:
        chosen |= {"widths": _LENETS[name], "padding": "valid"}
    return models.LeNet5(input_shape, num_classes, **chosen)


def compile_classifier(model, learning_rate):
    """Compiles a model that returns logits.

    Args:
        model: `keras.Model`.
        learning_rate: Adam's, a float or a schedule.
    """
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(
                name="nll", from_logits=True
            ),
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        ],
        jit_compile=False,
    )
