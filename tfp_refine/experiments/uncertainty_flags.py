"""Flags of the uncertainty experiment, and what they stand for."""

from absl import flags

from tfp_refine import _validation
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags

TASKS = ("unseen", "attack", "random_labels", "cubic")
METHODS = ("map", "ffg", "mnf")
MODELS = ("mlp", "lenet5", "lenet5_caffe", "lenet5_wide")
TITLES = {"map": "MAP", "ffg": "FFG", "mnf": "MNF"}
# The paper's batch and, on a small set, as many steps as these epochs have.
_MAX_BATCH, _MIN_BATCHES = 100, 10
_MAX_STEPS, _MAX_EPOCHS = 30000, 500
# Pixels of a side from which on the paper's network fits.
_SIDE_OF_CAFFE = 28

FLAGS = flags.FLAGS
flags.DEFINE_list(
    "task",
    list(TASKS),
    f"What to look at, of {', '.join(TASKS)}: predictive entropies on a set "
    "whose classes were not trained on; images perturbed by their gradient's "
    "sign; training on labels that were drawn at random; a regression on 20 "
    "points of a cubic function.",
)
flags.DEFINE_list(
    "method",
    list(METHODS),
    f"Methods to compare, of {', '.join(METHODS)}: a network without "
    "posteriors, a fully factorized Gaussian posterior, multiplicative "
    "normalizing flows.",
)
flags.DEFINE_string(
    "dataset",
    "digits",
    "Data set: digits comes with scikit-learn; others, such as mnist or "
    "cifar10, are read through tensorflow_datasets.",
)
flags.DEFINE_bool("download", False, "Download data sets that are missing.")
flags.DEFINE_string(
    "unseen_dataset",
    None,
    "Another data set, of unseen images, such as fashion_mnist or kmnist for "
    "mnist. Defaults to classes of --dataset that are not trained on.",
)
flags.DEFINE_list(
    "classes",
    None,
    "Numbers of the classes that are trained on. Defaults to all with an "
    "--unseen_dataset, else to the first half.",
)
flags.DEFINE_string(
    "model",
    None,
    "mlp, lenet5, or the paper's: lenet5_caffe for MNIST, lenet5_wide for "
    "CIFAR-10. Defaults to lenet5_caffe, or to lenet5 for images smaller than "
    "28 pixels.",
)
flags.DEFINE_list("hidden", ["400", "400"], "Hidden units of --model=mlp.")
flags.DEFINE_float(
    "prior_scale", 1.0, "Standard deviation of the weights' prior."
)
flags.DEFINE_integer(
    "train_steps",
    None,
    "Steps of training. Defaults to 30000, or to 500 epochs if that is less.",
    1,
)
flags.DEFINE_integer(
    "batch_size",
    None,
    "Examples in a step. Defaults to 100, or to a tenth of the training set if "
    "that is less.",
    1,
)
flags.DEFINE_float("learning_rate", 1e-3, "Adam's.", 0)
flags.DEFINE_integer(
    "checkpoint_steps", 500, "Training steps between two checkpoints.", 1
)
flags.DEFINE_integer(
    "num_samples", 100, "Draws of each predictive distribution.", 1
)
flags.DEFINE_list(
    "epsilons",
    ["0", "0.05", "0.1", "0.15", "0.2", "0.25", "0.3", "0.4", "0.5"],
    "Of attack: strengths, as parts of the range of a pixel.",
)
flags.DEFINE_integer(
    "attack_samples", 20, "Of attack: draws that the gradient averages.", 1
)
flags.DEFINE_integer(
    "attack_examples", 1000, "Of attack: number of test images.", 1
)
flags.DEFINE_integer(
    "random_label_examples", 500, "Of random_labels: training images.", 1
)
flags.DEFINE_integer(
    "random_label_steps", 3000, "Of random_labels: steps of training.", 1
)
flags.DEFINE_float(
    "random_label_log_var_init",
    -1.0,
    "Of random_labels: in place of --log_var_init. Posteriors that start "
    "narrow remember the labels, and forget them as they widen.",
)
flags.DEFINE_integer("cubic_steps", 10000, "Of cubic: steps of training.", 1)
flags.DEFINE_integer("cubic_units", 100, "Of cubic: hidden units.", 1)

# Flags that decide the results of some tasks alone.
_OF_TASKS = {
    "unseen": ("num_samples",),
    "attack": ("attack_examples", "attack_samples", "epsilons", "num_samples"),
    "random_labels": (
        "random_label_examples",
        "random_label_log_var_init",
        "random_label_steps",
    ),
    "cubic": ("cubic_steps", "cubic_units", "num_samples"),
}
# Flags that do not decide the results of a task and method.
_INCIDENTAL = ("download", "method", "task", *run_flags.INCIDENTAL)


def decisive(values):
    """Returns the flags that decide the results of all tasks.

    Args:
        values: Dict of flags.

    Returns:
        decisive: Dict of some of them.
    """
    others = {*_INCIDENTAL, *(n for names in _OF_TASKS.values() for n in names)}
    return {name: v for name, v in values.items() if name not in others}


def record_name(task, method):
    """Returns the name of a record, another one for other flags of its task."""
    values = {name: FLAGS[name].value for name in _OF_TASKS[task]}
    return f"{task}/{method}_{record.digest_of_json(values)}"


def check():
    """Checks flags, and gives values to those whose defaults depend on others.

    Raises:
        ValueError: If a flag is invalid.
    """
    run_flags.check_names("method", METHODS)
    run_flags.check_tensorboard()
    run_flags.check_names("task", TASKS)
    run_flags.fill(
        output_dir=f"results/uncertainty/{FLAGS.dataset}", max_std=0.5
    )
    mnf_flags.check()
    for name in ("prior_scale", "learning_rate"):
        _validation.positive(f"--{name}", FLAGS[name].value)
    for epsilon in run_flags.numbers("epsilons", float):
        _validation.not_negative("--epsilons", epsilon)
    if FLAGS.model not in (None, *MODELS):
        raise ValueError(
            f"--model must be one of {', '.join(MODELS)}. "
            f"Received: {FLAGS.model}"
        )


def methods():
    """Returns the methods to run, in their usual order."""
    return [method for method in METHODS if method in FLAGS.method]


def tasks():
    """Returns the tasks to run, in their usual order."""
    return [task for task in TASKS if task in FLAGS.task]


def model_of(image_shape):
    """Returns the name of the model for images of a shape."""
    if FLAGS.model is not None:
        return FLAGS.model
    return (
        "lenet5_caffe" if min(image_shape[:2]) >= _SIDE_OF_CAFFE else "lenet5"
    )


def batch_size(num_examples):
    """Returns the examples of a step, of so many."""
    usual = max(1, min(_MAX_BATCH, num_examples // _MIN_BATCHES))
    return FLAGS.batch_size or usual


def train_steps(num_examples):
    """Returns the steps of training on so many examples."""
    per_epoch = max(1, num_examples // batch_size(num_examples))
    return FLAGS.train_steps or min(_MAX_STEPS, _MAX_EPOCHS * per_epoch)
