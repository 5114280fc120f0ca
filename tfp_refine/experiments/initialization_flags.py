"""Flags of the initialization experiment, and what they stand for."""

import math

from absl import flags

from tfp_refine import _validation
from tfp_refine import datasets
from tfp_refine import regularizers
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags

TASKS = ("curves", "toy")
KINDS = ("regression", "classification", "images")
# Of the curves; all but the last are initializers.
METHODS = (
    "uninformative",
    "heuristic",
    "xavier_normal",
    "orthogonal",
    "lsuv",
    "iblm",
    "iblm_paper",
    "mc_dropout",
)
# Hidden layers of the toy, tanh; and of the tables, ReLU.
_HIDDEN = {"toy": ["20"] * 3, "deep": ["100"] * 5, "shallow": ["100"]}

FLAGS = flags.FLAGS
flags.DEFINE_list(
    "task",
    list(TASKS),
    f"What to look at, of {', '.join(TASKS)}: metrics on test data against "
    "training steps; predictions for a function of one variable, before "
    "training and after it.",
)
flags.DEFINE_list(
    "method",
    [name for name in METHODS if name != "iblm_paper"],
    f"What to compare, of {', '.join(METHODS)}: initializers of the "
    "posteriors, and a network with dropout, also in predictions. iblm has the "
    "recommended options; the toy is without mc_dropout.",
)
flags.DEFINE_string(
    "dataset",
    "energy",
    "Data set of the curves: energy, yacht, concrete, breast_cancer, iris and "
    "digits come with the package or with scikit-learn. Other tables are "
    "folders of --data_dir as for `uci`; other images, such as mnist, are read "
    "through tensorflow_datasets.",
)
flags.DEFINE_enum(
    "kind",
    None,
    KINDS,
    "What --dataset is. Defaults to what it is known as: to regression for the "
    "tables of `uci`, to classification for those of scikit-learn, else to "
    "images.",
)
flags.DEFINE_bool("download", False, "Download images that are missing.")
flags.DEFINE_string(
    "unseen_dataset",
    None,
    "Of images: another data set, whose entropies are compared with those of "
    "test images, such as fashion_mnist for mnist. Defaults to test images "
    "turned by 90 degrees.",
)
flags.DEFINE_enum(
    "model",
    None,
    ["shallow", "deep", "lenet5"],
    "One hidden layer of 100 units, five of them, or LeNet-5. Defaults to "
    "deep, and for images to lenet5.",
)
flags.DEFINE_list("hidden", None, "Hidden units, in place of those of --model.")
flags.DEFINE_integer("splits", 5, "Number of train-test splits.", 1)
flags.DEFINE_integer("train_steps", 3000, "Steps of training.", 1)
flags.DEFINE_integer("batch_size", 64, "Examples in a step.", 1)
flags.DEFINE_float("learning_rate", 1e-3, "Adam's.", 0)
flags.DEFINE_integer(
    "evaluations", 15, "Points of a curve; or somewhat more.", 2
)
flags.DEFINE_integer(
    "num_samples", 128, "Draws of each predictive distribution.", 1
)
flags.DEFINE_string(
    "prior_scale",
    "he",
    "Standard deviation of the weights' prior: a number, fan_in (variance 1 / "
    "fan_in, where uninformative and heuristic are the same) or he (2 / "
    "fan_in).",
)
flags.DEFINE_float(
    "noise_scale",
    math.exp(-1.0),
    "Initial standard deviation of the noise of standardized regression "
    "targets; it is learned.",
    0,
)
flags.DEFINE_float(
    "dropout", None, "Rate of mc_dropout. Defaults to 0.1, images: 0.5.", 0, 1
)
flags.DEFINE_integer("toy_steps", 5000, "Of toy: steps of training.", 1)
flags.DEFINE_integer("toy_points", 512, "Of toy: training examples.", 2)

# Flags that decide the results of the toy, and of all but it.
_OF_TOY = ("noise_scale", "toy_points", "toy_steps")
_OF_CURVES = (
    "dataset",
    "dropout",
    "evaluations",
    "hidden",
    "kind",
    "model",
    "noise_scale",
    "train_steps",
    "unseen_dataset",
)
# Flags that do not decide the results of a task, a split and a method.
_INCIDENTAL = ("download", "method", "splits", "task", *run_flags.INCIDENTAL)


def decisive(values):
    """Returns the flags that decide all results.

    Args:
        values: Dict of flags.

    Returns:
        decisive: Dict of some of them.
    """
    others = {*_INCIDENTAL, *_OF_TOY, *_OF_CURVES}
    return {name: v for name, v in values.items() if name not in others}


def record_name(task, method, split=0, data=None):
    """Returns the name of a record, another one for other flags of its task.

    Args:
        task: "curves" or "toy".
        method: Name of a method.
        split: Number of the train-test split.
        data: Text that tells data sets apart.

    Returns:
        name: Path without an ending.
    """
    names = {"curves": _OF_CURVES, "toy": _OF_TOY}[task]
    values = {name: FLAGS[name].value for name in names}
    digest = record.digest_of_json({"data": data, **values})
    return f"{task}/{method}_{split}_{digest}"


def check():
    """Checks flags, and gives values to those whose defaults depend on others.

    Raises:
        ValueError: If a flag is invalid.
    """
    run_flags.check_names("method", METHODS)
    run_flags.check_tensorboard()
    run_flags.check_names("task", TASKS)
    kind = FLAGS.kind or _usual_kind(FLAGS.dataset)
    run_flags.fill(
        kind=kind,
        output_dir=f"results/initialization/{FLAGS.dataset}",
        model="lenet5" if kind == "images" else "deep",
        dropout=0.5 if kind == "images" else 0.1,
    )
    for name in ("learning_rate", "noise_scale"):
        _validation.positive(f"--{name}", FLAGS[name].value)
    regularizers.GaussianKL(prior_scale())
    if not 0.0 < FLAGS.dropout < 1.0:
        raise ValueError(
            "--dropout must be between 0 and 1. "
            f"Received: --dropout={FLAGS.dropout}"
        )
    if FLAGS.evaluations > FLAGS.train_steps:
        raise ValueError(
            "--evaluations must be at most --train_steps. Received: "
            f"{FLAGS.evaluations} and {FLAGS.train_steps}"
        )
    if FLAGS.model == "lenet5":
        if kind != "images" or FLAGS.hidden is not None:
            raise ValueError(
                "--model=lenet5 is for images, without --hidden. Received: "
                f"--kind={kind}, --hidden={FLAGS.hidden}"
            )
    else:
        run_flags.fill(hidden=_HIDDEN[FLAGS.model])
        units = run_flags.numbers("hidden", int)
        if not units or min(units) < 1:
            raise ValueError(
                "--hidden must hold positive numbers. "
                f"Received: {','.join(FLAGS.hidden)}"
            )
    if FLAGS.unseen_dataset is not None and kind != "images":
        raise ValueError(
            "--unseen_dataset is for images. Received: "
            f"--dataset={FLAGS.dataset}, --kind={kind}"
        )


def _usual_kind(dataset):
    if dataset in datasets.UCI_NAMES:
        return "regression"
    if dataset in datasets.CLASS_TABLES and dataset != "digits":
        return "classification"
    return "images"


def methods(task="curves"):
    """Returns the methods of a task, in their usual order."""
    return [
        method
        for method in METHODS
        if method in FLAGS.method and (task, method) != ("toy", "mc_dropout")
    ]


def tasks():
    """Returns the tasks to run, in their usual order."""
    return [task for task in TASKS if task in FLAGS.task]


def hidden(task):
    """Returns the hidden units of the network of a task, a tuple."""
    if task == "toy":
        return tuple(map(int, _HIDDEN["toy"]))
    return tuple(run_flags.numbers("hidden", int))


def prior_scale():
    """Returns a number, or the name of a rule."""
    try:
        return float(FLAGS.prior_scale)
    except ValueError:
        return FLAGS.prior_scale
