"""Flags of the comparison, and what they stand for."""

import math
import pathlib

from absl import flags

from tfp_refine import _validation
from tfp_refine import datasets
from tfp_refine.experiments import image_models
from tfp_refine.experiments import refinement_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import shift_flags

KINDS = ("images", "table", "regression")
# Height from which images are for convolutions of 5x5 and two poolings.
_LENET_HEIGHT = 16

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "dataset",
    "yacht",
    "Data set: yacht, energy and concrete (regression) come with the package, "
    "digits, breast_cancer, iris and wine with scikit-learn. Other images, "
    "such as mnist, are read through tensorflow_datasets; tables are folders "
    "of --data_dir.",
)
flags.DEFINE_enum(
    "kind",
    None,
    KINDS,
    "What --dataset is: images, a table with classes, or one with numbers to "
    "predict. Defaults to what it is known as; else to regression if "
    "--data_dir has such a folder, and to images if not.",
)
flags.DEFINE_integer(
    "seeds",
    2,
    "Repetitions: other initial weights, batches and noise, for tables other "
    "splits too. The results of more seeds are added to those that are there.",
    1,
)
flags.DEFINE_string(
    "model",
    None,
    f"{image_models.NAMES}. Defaults to lenet5 for images of {_LENET_HEIGHT} "
    "rows or more, else to mlp.",
)
flags.DEFINE_list("hidden", ["50"], "Hidden units of --model=mlp.")
flags.DEFINE_bool("batch_norm", False, "Batch normalization in a ResNet.")
flags.DEFINE_enum(
    "likelihood",
    "homoscedastic",
    ["homoscedastic", "heteroscedastic"],
    "Of regression: Gaussian noise of one scale that is learned, or of a scale "
    "that is the network's second output.",
)
flags.DEFINE_integer(
    "train_steps",
    None,
    "Steps in which each network, or member of an ensemble, is trained; some "
    "systems take more steps from there. "
    "Defaults to 8000 for tables, and for images to 30000, or 100 epochs if "
    "that is less.",
    1,
)
flags.DEFINE_integer("batch_size", 64, "Examples in a step.", 1)
flags.DEFINE_float(
    "learning_rate",
    None,
    "Adam's; falls to 0 as a cosine. Defaults to 3e-3 for images, else to "
    "1e-2.",
    0,
)
flags.DEFINE_float(
    "prior_scale",
    None,
    "Standard deviation of the prior of each weight, for all systems that do "
    "not infer it, but for cm, whose prior has the variance 1 / fan_in given "
    "its mean. Defaults to 0.3 for images, else to 1.",
    0,
)
flags.DEFINE_float(
    "initial_scale",
    1e-2,
    "Standard deviation that posteriors start from (and that of vi_fv).",
    0,
)
flags.DEFINE_float(
    "validation_fraction",
    0.1,
    "Of data with classes: part of the training set for temperature scaling.",
    0,
    1,
)


def check():
    """Checks flags, and gives values to those whose defaults depend on others.

    Raises:
        ValueError: If a flag is invalid.
    """
    run_flags.check_tensorboard()
    kind = FLAGS.kind or _usual_kind(FLAGS.dataset)
    _check_of_kind(kind)
    is_image = kind == "images"
    run_flags.fill(
        kind=kind,
        output_dir=f"results/compare/{FLAGS.dataset}",
        learning_rate=3e-3 if is_image else 1e-2,
        prior_scale=0.3 if is_image else 1.0,
        variance_ratios=[
            "0.5*10" if (FLAGS.model or "").startswith("resnet") else "0.7*5"
        ],
    )
    if kind != "regression":
        shift_flags.check(kind)
        if not 0.0 < FLAGS.validation_fraction < 1.0:
            raise ValueError(
                "--validation_fraction must be between 0 and 1. "
                f"Received: {FLAGS.validation_fraction}"
            )
    for name in ("learning_rate", "prior_scale", "initial_scale"):
        _validation.positive(f"--{name}", FLAGS[name].value)
    hidden()
    refinement_flags.variance_ratios()
    if FLAGS.model is not None:
        image_models.usual_variational(FLAGS.model)
    if not is_image and FLAGS.model not in (None, "mlp"):
        raise ValueError(
            f"--kind={kind} has --model=mlp. Received: --model={FLAGS.model}"
        )


def fill(x):
    """Gives values to flags whose defaults depend on the data.

    Args:
        x: Training inputs, `[N, ...]`.
    """
    is_large = x.ndim == 4 and x.shape[1] >= _LENET_HEIGHT
    steps = 8000
    if FLAGS.kind == "images":
        steps = min(30000, 100 * math.ceil(len(x) / FLAGS.batch_size))
    run_flags.fill(model="lenet5" if is_large else "mlp", train_steps=steps)


def hidden():
    """Returns the units of the hidden layers of an MLP.

    Raises:
        ValueError: If they are not positive.
    """
    units = run_flags.numbers("hidden", int)
    if not units or min(units) < 1:
        raise ValueError(
            "--hidden must hold positive numbers. "
            f"Received: {','.join(FLAGS.hidden)}"
        )
    return tuple(units)


def _check_of_kind(kind):
    """Checks that no flag was given that means nothing here."""
    foreign = {
        "images": ("likelihood",),
        "table": ("likelihood", "rotations", "corruptions", "batch_norm"),
        "regression": (
            "validation_fraction",
            "batch_norm",
            *shift_flags.EVALUATION,
        ),
    }[kind]
    given = [f"--{name}" for name in foreign if FLAGS[name].present]
    if given:
        raise ValueError(
            f"--dataset={FLAGS.dataset}, of --kind={kind}, has no use for "
            f"{', '.join(given)}."
        )


def _usual_kind(dataset):
    if dataset in datasets.CLASS_TABLES:
        return "images" if dataset == "digits" else "table"
    own = pathlib.Path(FLAGS.data_dir or "") / dataset / "data"
    if dataset in datasets.UCI_NAMES or (FLAGS.data_dir and own.is_dir()):
        return "regression"
    return "images"
