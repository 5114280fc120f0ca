"""The models that the initialization experiment compares."""

import keras
from absl import flags

from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import regularizers
from tfp_refine.experiments import image_models
from tfp_refine.experiments import initialization_flags
from tfp_refine.initializers import iblm

FLAGS = flags.FLAGS
_INITIALIZERS = {
    "uninformative": initializers.Uninformative,
    "heuristic": initializers.Heuristic,
    "xavier_normal": initializers.XavierNormal,
    "orthogonal": initializers.Orthogonal,
    "lsuv": initializers.LSUV,
    "iblm": initializers.IBLM,
    "iblm_paper": iblm.PaperIBLM,
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
        model = models.to_mc_dropout(
            model,
            FLAGS.dropout,
            num_train_examples=num_examples,
            prior_scale=initialization_flags.prior_scale(),
            seed=seed,
        )
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
