"""The models that the initialization experiment compares."""

import functools

import keras
from absl import flags

from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import regularizers
from tfp_refine import stateless
from tfp_refine.experiments import image_models
from tfp_refine.experiments import initialization_flags

FLAGS = flags.FLAGS
_INITIALIZERS = {
    "uninformative": initializers.Uninformative,
    "heuristic": initializers.Heuristic,
    "xavier_normal": initializers.XavierNormal,
    "orthogonal": initializers.Orthogonal,
    "lsuv": initializers.LSUV,
    "iblm": initializers.IBLM,
    "iblm_paper": functools.partial(initializers.IBLM, "paper"),
}


def initialize(method, model, x, y, seed):
    """Initializes a model as a method does; dropout needs nothing.

    Args:
        method: Name of a method.
        model: `keras.Model`.
        x: Training inputs.
        y: Training targets.
        seed: Integer.
    """
    if method in _INITIALIZERS:
        make = _INITIALIZERS[method]
        make(seed=seed, verbose=FLAGS.progress)(model, x, y)


def build(method, input_shape, num_outputs, num_examples, seed, task="curves"):
    """Builds and compiles a model.

    Args:
        method: Name of a method.
        input_shape: Shape of an example.
        num_outputs: Number of logits; or `None` for a regression, with noise.
        num_examples: Number of training examples.
        seed: Integer.
        task: "curves" or "toy".

    Returns:
        model: `keras.Model`, not initialized.

    Raises:
        ValueError: If flags do not fit each other.
    """
    arguments = _layer_arguments(method, num_examples) | {"seed": seed}
    if task == "curves" and FLAGS.model == "lenet5":
        model = models.LeNet5(
            input_shape, num_outputs, activation="relu", **arguments
        )
    else:
        arguments["layer"] = arguments.pop("dense_layer")
        del arguments["conv_layer"]
        model = models.MLP(
            input_shape,
            num_outputs or 1,
            hidden=initialization_flags.hidden(task),
            activation="tanh" if task == "toy" else "relu",
            noise_scale=None if num_outputs else FLAGS.noise_scale,
            **arguments,
        )
    if method == "mc_dropout":
        model = _with_dropout(model, num_examples, seed)
    if num_outputs:
        image_models.compile_classifier(model, FLAGS.learning_rate)
    else:
        model.compile(
            optimizer=keras.optimizers.Adam(FLAGS.learning_rate),
            loss=losses.HeteroscedasticGaussianNLL(),
            jit_compile=False,
        )
    return model


def _layer_arguments(method, num_examples):
    if method != "mc_dropout":
        prior = regularizers.GaussianKL(initialization_flags.prior_scale())
        return {
            "conv_layer": layers.Conv2DFlipout,
            "dense_layer": layers.DenseLocalReparameterization,
            "kernel_regularizer": prior,
            "bias_regularizer": prior,
            "num_train_examples": num_examples,
        }
    return {
        "conv_layer": keras.layers.Conv2D,
        "dense_layer": keras.layers.Dense,
    }


def _with_dropout(model, num_examples, seed):
    """Adds dropout that also acts in predictions, and weight decay.

    The decay is the bound's divergence from the prior (Gal and Ghahramani,
    2016, https://arxiv.org/abs/1506.02142, Eq. 4), divided by `num_examples` as
    the loss is a mean.

    Args:
        model: Functional `keras.Model`, a chain of layers.
        num_examples: Number of training examples.
        seed: Integer.

    Returns:
        model: Another one, with new weights.
    """
    rate = FLAGS.dropout
    x = model.inputs[0]
    first, *_, last = (v for v in model.layers if hasattr(v, "kernel"))
    for index, layer in enumerate(model.layers[1:]):
        config = layer.get_config()
        if not hasattr(layer, "kernel"):
            x = type(layer).from_config(config)(x)
            continue
        scale = initialization_flags.prior_scale_of(layer.kernel.shape)
        decay = 0.5 / (num_examples * scale**2)
        # Keras' units that are kept are divided by `1 - rate`, so the weights
        # of the paper are its kernels divided by that.
        keep = 1.0 if layer is first else 1.0 - rate
        config["kernel_regularizer"] = keras.regularizers.L2(decay / keep)
        config["bias_regularizer"] = keras.regularizers.L2(decay)
        x = type(layer).from_config(config)(x)
        if layer is not last:
            x = layers.MCDropout(rate, seed=stateless.seeds.key(seed, index))(x)
    return keras.Model(model.inputs, x, name=model.name)
