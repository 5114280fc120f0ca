"""The models that the uncertainty experiment compares."""

from absl import flags

from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.experiments import image_models
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import uncertainty_flags

FLAGS = flags.FLAGS


def layer_arguments(method, num_examples, **changes):
    """Returns the arguments of the layers of a method with posteriors.

    Args:
        method: "ffg" or "mnf".
        num_examples: Number of training examples.
        **changes: Arguments with precedence over the flags.

    Returns:
        arguments: Dict.
    """
    arguments = mnf_flags.layer_arguments() | changes
    if method == "ffg":
        arguments["flow_length"] = 0
    prior = regularizers.GaussianKL(FLAGS.prior_scale)
    return {
        **arguments,
        "kernel_regularizer": prior,
        "bias_regularizer": prior,
        "num_train_examples": num_examples,
    }


def classifier(method, input_shape, num_classes, num_examples, seed, **changes):
    """Builds and compiles a classifier of images.

    Args:
        method: "map", "ffg" or "mnf".
        input_shape: Height, width and channels.
        num_classes: Number of classes.
        num_examples: Number of training examples.
        seed: Integer.
        **changes: As for `layer_arguments`.

    Returns:
        model: `keras.Model` that returns logits.

    Raises:
        ValueError: If flags do not fit each other.
    """
    model = image_models.build(
        uncertainty_flags.model_of(input_shape),
        input_shape,
        num_classes,
        hidden=tuple(run_flags.numbers("hidden", int)),
        variational="none" if method == "map" else "full",
        batch_norm=False,
        conv_layer=layers.Conv2DMNF,
        dense_layer=layers.DenseMNF,
        prior_scale=FLAGS.prior_scale,
        seed=seed,
        layer_arguments=layer_arguments(method, num_examples, **changes),
    )
    image_models.compile_classifier(model, FLAGS.learning_rate)
    return model
