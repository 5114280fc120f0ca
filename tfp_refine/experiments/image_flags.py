"""Flags of the image experiment, and what they stand for."""

import functools

import keras
from absl import flags

from tfp_refine import datasets
from tfp_refine.experiments import image_models
from tfp_refine.experiments import posterior_flags
from tfp_refine.experiments import refinement_flags
from tfp_refine.experiments import run_flags

METHODS = ("map", "vi", "control", "refined_vi", "mnf")
_DEFAULT_METHODS = ("vi", "refined_vi")
# The paper's steps and batch; on a small set as many steps as these epochs
# have, and as many batches an epoch.
_MAX_STEPS, _MAX_EPOCHS = 30000, 500
_MAX_BATCH, _MIN_BATCHES = 256, 10

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "dataset",
    "digits",
    "Data set: digits comes with scikit-learn; others, such as mnist, "
    "fashion_mnist, cifar10, cifar100, svhn_cropped or stl10, are read through "
    "tensorflow_datasets.",
)
flags.DEFINE_bool("download", False, "Download data sets that are missing.")
flags.DEFINE_list(
    "method",
    None,
    f"Methods to run, of {', '.join(METHODS)}; control trains on for as many "
    "steps as refinement takes, mnf trains multiplicative normalizing flows. "
    "Defaults to "
    f"{','.join(_DEFAULT_METHODS)}, or to map with --variational=none.",
)
flags.DEFINE_string("model", "lenet5", f"{image_models.NAMES}.")
flags.DEFINE_list("hidden", ["400", "400"], "Hidden units of --model=mlp.")
flags.DEFINE_enum(
    "variational",
    None,
    ["none", "hybrid", "full"],
    "Weights with a posterior: none, all, or half of a ResNet's convolutions. "
    "Defaults to hybrid for ResNets and full for others.",
)
flags.DEFINE_bool("batch_norm", False, "Batch normalization in a ResNet.")
flags.DEFINE_enum(
    "conv_estimator",
    "flipout",
    sorted(image_models.CONV_LAYERS),
    "How convolutions draw their outputs.",
)
flags.DEFINE_enum(
    "dense_estimator",
    "local_reparameterization",
    sorted(image_models.DENSE_LAYERS),
    "How dense layers draw their outputs.",
)
flags.DEFINE_integer(
    "train_steps",
    None,
    "Steps of training. Defaults to 30000, or to 500 epochs if that is less.",
    1,
)
flags.DEFINE_integer(
    "epochs", None, "Epochs of training, in place of --train_steps.", 1
)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Examples in a step. Defaults to 256, or to a tenth of the training set if "
    "that is less.",
    1,
)
flags.DEFINE_float(
    "learning_rate",
    None,
    "Adam's, in training. Defaults to 3e-3 for LeNet-5, to 1e-3 for others.",
    0,
)
flags.DEFINE_enum(
    "learning_rate_schedule",
    "constant",
    ["constant", "linear", "step"],
    "linear: to zero at the end; step: times 0.1, 0.01, 1e-3 and 5e-4 after "
    "81, 121, 161 and 181 epochs.",
)
flags.DEFINE_enum(
    "augment",
    "none",
    ["none", "crop", "crop_and_flip"],
    "Shift training images at random by up to an eighth, and mirror them.",
)
flags.DEFINE_float(
    "validation_fraction", 0.0, "Part of the training set to validate on.", 0, 1
)
flags.DEFINE_integer(
    "early_stopping_patience",
    None,
    "Checkpoints without a lower validation loss after which training stops. "
    "Defaults to never.",
    1,
)
flags.DEFINE_integer(
    "checkpoint_steps", 500, "Training steps between two checkpoints.", 1
)
flags.DEFINE_string(
    "ood_dataset",
    None,
    "Another data set, whose test images should be told from this one's.",
)
flags.DEFINE_list(
    "rotations",
    [],
    "Degrees by which test images are turned, such as 15,30,45,60.",
)
flags.DEFINE_list(
    "flipped_pixels",
    [],
    "Fractions of the pixels of test images to invert, such as 0.01,0.1.",
)
flags.DEFINE_bool(
    "pruning",
    False,
    "Plot the posteriors of the trained models' layers, and the likelihood "
    "without the hidden units that they use least; not of mnf.",
)
flags.DEFINE_list(
    "corruptions",
    [],
    f"Corruptions of test images, of {', '.join(datasets.CORRUPTIONS)}.",
)
flags.DEFINE_integer(
    "shift_examples",
    2000,
    "Test images that are turned, flipped or corrupted.",
    1,
)
flags.DEFINE_integer(
    "eval_batch_size", 1000, "Images computed at a time in evaluation.", 1
)

# Flags of the evaluation: others of the same trainings can be added later.
EVALUATION = (
    "corruptions",
    "eval_batch_size",
    "flipped_pixels",
    "num_samples",
    "ood_dataset",
    "pruning",
    "rotations",
    "shift_examples",
)
# Flags that do not decide the results of a method; `train_steps` stands for
# `epochs`.
INCIDENTAL = (
    "download",
    "epochs",
    "method",
    *run_flags.INCIDENTAL,
    *refinement_flags.INCIDENTAL,
)


def fill_by_model():
    """Gives values to flags whose defaults depend on the model.

    Raises:
        ValueError: If flags do not fit each other.
    """
    run_flags.fill(
        variational=image_models.usual_variational(FLAGS.model),
        regularizer=["empirical_bayes"],
        initial_scale=1e-2,
        learning_rate=3e-3 if FLAGS.model.startswith("lenet") else 1e-3,
    )
    posterior_flags.check()
    is_map = FLAGS.variational == "none"
    run_flags.fill(
        method=["map"] if is_map else list(_DEFAULT_METHODS),
        variance_ratios=[
            "0.5*10" if FLAGS.variational == "hybrid" else "0.7*5"
        ],
    )
    run_flags.check_names("method", METHODS)
    if is_map and set(FLAGS.method) != {"map"}:
        raise ValueError(
            "--variational=none leaves no posterior to train: only "
            f"--method=map. Received: {','.join(FLAGS.method)}"
        )
    if "mnf" in FLAGS.method and FLAGS.model.startswith("resnet"):
        raise ValueError(
            "--method=mnf is for --model=mlp, lenet5 or lenet5_caffe. "
            f"Received: --model={FLAGS.model}"
        )
    if FLAGS.epochs is not None and FLAGS.train_steps is not None:
        raise ValueError("Give --epochs or --train_steps, not both.")
    if FLAGS.early_stopping_patience and not FLAGS.validation_fraction:
        raise ValueError(
            "--early_stopping_patience needs a --validation_fraction."
        )


def fill_by_data(num_examples):
    """Gives values to flags whose defaults depend on the data.

    Args:
        num_examples: Number of training examples.
    """
    usual = min(_MAX_BATCH, num_examples // _MIN_BATCHES)
    run_flags.fill(batch_size=max(1, usual))
    per_epoch = steps_per_epoch(num_examples)
    run_flags.fill(
        train_steps=min(_MAX_STEPS, _MAX_EPOCHS * per_epoch)
        if FLAGS.epochs is None
        else FLAGS.epochs * per_epoch
    )


def steps_per_epoch(num_examples):
    """Returns the steps of an epoch: batches that are full."""
    return max(1, num_examples // FLAGS.batch_size)


def learning_rate(num_examples):
    """Returns Adam's learning rate, a float or a schedule.

    Args:
        num_examples: Number of training examples.

    Returns:
        learning_rate: For `keras.optimizers.Adam`.
    """
    rate = FLAGS.learning_rate
    if FLAGS.learning_rate_schedule == "constant":
        return rate
    if FLAGS.learning_rate_schedule == "linear":
        return linear_decay(FLAGS.train_steps)
    return keras.optimizers.schedules.PiecewiseConstantDecay(
        [
            (epoch + 1) * steps_per_epoch(num_examples) - 1
            for epoch in (80, 120, 160, 180)
        ],
        [rate * factor for factor in (1.0, 1e-1, 1e-2, 1e-3, 5e-4)],
    )


def linear_decay(steps):
    """Returns a learning rate that falls to zero within some steps."""
    return keras.optimizers.schedules.PolynomialDecay(
        FLAGS.learning_rate, steps, end_learning_rate=0.0
    )


def augmentation(image_shape):
    """Returns what augments a batch, or `None`.

    Args:
        image_shape: Height, width and channels.

    Returns:
        augment: As for `datasets.training_batches`.
    """
    if FLAGS.augment == "none":
        return None
    return functools.partial(
        datasets.crop_and_flip,
        padding=max(1, min(image_shape[:2]) // 8),
        flip=FLAGS.augment == "crop_and_flip",
    )
