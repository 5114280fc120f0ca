"""The models that the uncertainty experiment compares."""

from absl import flags

from tfp_refine import regularizers
from tfp_refine.experiments import image_models
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import uncertainty_flags

FLAGS = flags.FLAGS


def layer_classes(method, **changes):
    """Returns the classes of the layers of a method with posteriors.

    Args:
        method: "ffg" or "mnf".
        **changes: Arguments of the layers with precedence over the flags.

    Returns:
        conv_layer: Class of convolutions, a `functools.partial`.
        dense_layer: Class of dense layers, a `functools.partial`.
    """
    if method == "ffg":
        changes["flow_length"] = 0
    return mnf_flags.layer_classes(**changes)


def layer_arguments(num_examples):
    """Returns the arguments of these layers that models pass on to them.

    Args:
        num_examples: Number of training examples.

    Returns:
        arguments: Dict.
    """
    prior = regularizers.GaussianKL(FLAGS.prior_scale)
    return {
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
        **changes: As for `layer_classes`.

    Returns:
        model: `keras.Model` that returns logits.

    Raises:
        ValueError: If flags do not fit each other.
    """
    conv_layer, dense_layer = layer_classes(method, **changes)
    model = image_models.build(
        uncertainty_flags.model_of(input_shape),
        input_shape,
        num_classes,
        hidden=tuple(run_flags.numbers("hidden", int)),
        variational="none" if method == "map" else "full",
        batch_norm=False,
        conv_layer=conv_layer,
        dense_layer=dense_layer,
        prior_scale=FLAGS.prior_scale,
        seed=seed,
        layer_arguments=layer_arguments(num_examples),
    )
    image_models.compile_classifier(model, FLAGS.learning_rate)
    return model
