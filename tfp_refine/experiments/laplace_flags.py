"""Flags of the Laplace experiment, and what they stand for."""

from absl import flags

from tfp_refine import _validation
from tfp_refine import datasets
from tfp_refine.experiments import class_data
from tfp_refine.experiments import image_models
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import shift_flags
from tfp_refine.laplace import predictives
from tfp_refine.laplace import refinement

TASKS = ("comparison", "toy", "integration")
METHODS = (
    "map",
    "temperature",
    "laplace",
    "refined",
    "from_scratch",
    "nuts",
)
KINDS = ("images", "table", "text")
RULES = ("marginal_likelihood", "grid_search")
_TEXTS = ("20newsgroups", "ag_news_subset", "imdb_reviews", "trec")
_MODELS = {"images": "lenet5", "table": "mlp", "text": "gru"}
# The paper's batch and epochs, and most steps.
_MAX_STEPS, _EPOCHS = 30000, 100

FLAGS = flags.FLAGS
flags.DEFINE_list(
    "task",
    list(TASKS),
    f"What to do, of {', '.join(TASKS)}: compare posteriors of the weights of "
    "a trained classifier; draw the posterior of a logistic regression with "
    "two weights; measure the errors with which predictions are integrated.",
)
flags.DEFINE_list(
    "method",
    list(METHODS),
    f"Of comparison: what to compare, of {', '.join(METHODS)}. The trained "
    "weights; the same with scaled logits; Laplace's approximation; that, "
    "refined by flows; flows from N(0, I) in its place; the no-U-turn sampler, "
    "the reference of the distances (MMD).",
)
flags.DEFINE_string(
    "dataset",
    "digits",
    "Data set: digits, breast_cancer, iris and wine come with scikit-learn. "
    "Other images, such as mnist, and texts, such as trec, are read through "
    "tensorflow_datasets, 20newsgroups through scikit-learn; tables are "
    "folders of --data_dir as for `uci`, and texts may be files "
    "DATASET/{train,test}/CLASS/NAME.txt there.",
)
flags.DEFINE_enum(
    "kind",
    None,
    KINDS,
    "What --dataset is. Defaults to what it is known as, else to images.",
)
flags.DEFINE_string(
    "model",
    None,
    f"{image_models.NAMES}; gru, which reads the rows of an image or the words "
    "of a text; or the file of a trained model, FILE.keras, which must end in "
    "a Dense layer. Defaults to lenet5 for images, mlp for tables, gru for "
    "texts.",
)
flags.DEFINE_enum(
    "scaling",
    "standardized",
    class_data.SCALINGS,
    "Inputs as the model takes them: standardized, as for models that are "
    "trained here; pixels from 0 to 1 (unit); or as they are (none).",
)
flags.DEFINE_list(
    "hidden", ["64"], "Hidden units of --model=mlp; of gru, its units."
)
flags.DEFINE_integer("vocabulary", 10000, "Of texts: most words to know.", 2)
flags.DEFINE_integer(
    "sequence_length", 100, "Of texts: words that are read.", 1
)
flags.DEFINE_integer("embedding", 64, "Of texts: numbers for each word.", 1)
flags.DEFINE_integer(
    "train_steps",
    None,
    "Steps of training. Defaults to 30000, or to 100 epochs if that is less.",
    1,
)
flags.DEFINE_integer("batch_size", 128, "Examples in a step of training.", 1)
flags.DEFINE_float(
    "learning_rate", 1e-3, "Adam's in training; falls to 0 as a cosine.", 0
)
flags.DEFINE_float(
    "prior_scale",
    1.0,
    "Standard deviation of the Gaussian prior that the model is trained with.",
    0,
)
flags.DEFINE_integer(
    "checkpoint_steps", 500, "Training steps between two checkpoints.", 1
)
flags.DEFINE_float(
    "validation_fraction",
    0.1,
    "Part of the training set for temperature and --prior_precision="
    "grid_search.",
    0,
    1,
)
flags.DEFINE_enum(
    "layers",
    "last",
    ["last", "all"],
    "Layers with a posterior; all, diagonal, is for small models.",
)
flags.DEFINE_enum(
    "hessian", "full", ["full", "kron", "diag"], "Of the last layer."
)
flags.DEFINE_string(
    "prior_precision",
    "marginal_likelihood",
    "1 / variance of the weights' prior, or how it is chosen: "
    "marginal_likelihood, or grid_search on the validation data.",
)
flags.DEFINE_enum(
    "predictive",
    "mc",
    sorted(predictives.PREDICTIVES),
    "How Laplace's approximation predicts. "
    + "; ".join(
        f"{name}: {how}" for name, how in predictives.PREDICTIVES.items()
    )
    + ".",
)
flags.DEFINE_enum("flow", "radial", ["radial", "planar"], "Kind of the flows.")
flags.DEFINE_list(
    "flow_lengths", ["1", "5", "10", "30"], "Numbers of flows to refine with."
)
flags.DEFINE_enum(
    "space",
    "whitened",
    ["whitened", "paper"],
    "Where flows act: on standard normal draws, or on weights.",
)
flags.DEFINE_integer(
    "refine_epochs", None, "Defaults to 20, or more for 2000 steps.", 1
)
flags.DEFINE_float(
    "refine_learning_rate",
    None,
    "Adam's; falls to 0 as a cosine. Defaults to 0.1, in paper space to 1e-3.",
    0,
)
flags.DEFINE_integer(
    "refine_samples",
    None,
    "Draws in a step of refinement. Defaults to 16, in paper space to 1.",
    1,
)
flags.DEFINE_integer("nuts_chains", 4, "Chains of the no-U-turn sampler.", 1)
flags.DEFINE_integer("nuts_warmup", 300, "Transitions that are dropped.", 1)
flags.DEFINE_integer("nuts_samples", 300, "Transitions that are kept.", 4)
flags.DEFINE_integer(
    "num_samples", 200, "Draws of each predictive distribution.", 1
)
flags.DEFINE_integer("toy_points", 50, "Of toy: training examples.", 4)
flags.DEFINE_integer("toy_steps", 3000, "Of toy: steps that VB trains for.", 1)
flags.DEFINE_float("toy_prior_scale", 10.0, "Of toy: that of the weights.", 0)

_OF_LAPLACE = ("hessian", "layers", "prior_precision")
_OF_REFINEMENT = (
    "flow",
    "refine_epochs",
    "refine_learning_rate",
    "refine_samples",
    "space",
)
_OF_NUTS = ("nuts_chains", "nuts_samples", "nuts_warmup")
_OF_METHODS = {
    "map": (),
    "temperature": (),
    "laplace": _OF_LAPLACE,
    "refined": (*_OF_LAPLACE, *_OF_REFINEMENT),
    "from_scratch": (*_OF_LAPLACE, *_OF_REFINEMENT),
    "nuts": (*_OF_LAPLACE, *_OF_NUTS),
    "vb": ("toy_steps",),
}
_OF_TOY = ("toy_points", "toy_prior_scale")
_OF_PREDICTIONS = ("num_samples", "predictive")
_OF_EVALUATION = (*_OF_PREDICTIONS, *shift_flags.EVALUATION)
# Flags that do not decide what a folder holds: records have others' in their
# names.
_INCIDENTAL = (
    "download",
    "flow_lengths",
    "kind",
    "method",
    "task",
    "toy_steps",
    *_OF_EVALUATION,
    *_OF_REFINEMENT,
    *_OF_NUTS,
    *_OF_TOY,
    *run_flags.INCIDENTAL,
)


def decisive(values):
    """Returns the flags that decide all results.

    Args:
        values: Dict of flags.

    Returns:
        decisive: Dict of some of them.
    """
    others = {*_INCIDENTAL, *_OF_LAPLACE}
    return {name: v for name, v in values.items() if name not in others}


def record_name(folder, system, *others):
    """Returns the name of a record, another one for other flags of it.

    Args:
        folder: "posteriors", "distances", "metrics" or "toy".
        system: Name of a system.
        *others: What else decides the record, for JSON.

    Returns:
        name: Path without an ending.
    """
    method, _ = split(system)
    names = set(_OF_METHODS[method])
    if folder == "metrics":
        names.update(_OF_EVALUATION)
    if folder == "distances":
        names.update(_OF_METHODS["nuts"])
    if folder == "toy":
        names = {*_OF_METHODS[method], *_OF_TOY} - set(_OF_LAPLACE)
    if "prior_precision" in names and FLAGS.prior_precision == "grid_search":
        names.update(_OF_PREDICTIONS)  # by which it is chosen
    values = {name: FLAGS[name].value for name in sorted(names)}
    return f"{folder}/{system}_{record.digest_of_json([values, *others])}"


def check():
    """Checks flags, and gives values to those whose defaults depend on others.

    Raises:
        ValueError: If a flag is invalid.
    """
    run_flags.check_names("method", METHODS)
    run_flags.check_names("task", TASKS)
    run_flags.check_tensorboard()
    kind = FLAGS.kind or _usual_kind(FLAGS.dataset)
    run_flags.fill(
        kind=kind,
        model=_MODELS[kind],
        output_dir=f"results/laplace/{FLAGS.dataset}",
    )
    for name in ("learning_rate", "prior_scale", "toy_prior_scale"):
        _validation.positive(f"--{name}", FLAGS[name].value)
    if FLAGS.refine_learning_rate is not None:
        _validation.positive(
            "--refine_learning_rate", FLAGS.refine_learning_rate
        )
    if not 0.0 < FLAGS.validation_fraction < 1.0:
        raise ValueError(
            "--validation_fraction must be between 0 and 1. "
            f"Received: {FLAGS.validation_fraction}"
        )
    prior_precision()
    lengths = _check_counts("flow_lengths")
    if len({*lengths}) < len(lengths):
        raise ValueError(
            "--flow_lengths must hold each number once. "
            f"Received: {','.join(FLAGS.flow_lengths)}"
        )
    _check_counts("hidden")
    if FLAGS.model == "gru" and (kind == "table" or len(FLAGS.hidden) > 1):
        raise ValueError(
            "--model=gru is for images and texts, with one number of --hidden "
            f"units. Received: --kind={kind}, --hidden={','.join(FLAGS.hidden)}"
        )
    if not FLAGS.model.endswith(".keras"):
        usual = {"images": "standardized", "table": "standardized"}
        if FLAGS.scaling != usual.get(kind, FLAGS.scaling):
            raise ValueError(
                "--scaling is for a trained --model, FILE.keras. "
                f"Received: --scaling={FLAGS.scaling}, --model={FLAGS.model}"
            )
        if kind != "images" and FLAGS.model != _MODELS[kind]:
            raise ValueError(
                f"--kind={kind} has --model={_MODELS[kind]}, or FILE.keras. "
                f"Received: --model={FLAGS.model}"
            )
        if kind == "images" and FLAGS.model != "gru":
            image_models.usual_variational(FLAGS.model)
    shift_flags.check(kind)


def _check_counts(name):
    counts = run_flags.numbers(name, int)
    if not counts or min(counts) < 1:
        raise ValueError(
            f"--{name} must hold positive numbers. "
            f"Received: {','.join(FLAGS[name].value)}"
        )
    return counts


def _usual_kind(dataset):
    if dataset in datasets.CLASS_TABLES and dataset != "digits":
        return "table"
    return "text" if dataset in _TEXTS else "images"


def tasks():
    """Returns the tasks to run, in their usual order."""
    return [task for task in TASKS if task in FLAGS.task]


def systems():
    """Returns the systems to compare: methods, with numbers of flows."""
    found = []
    for method in METHODS:
        if method not in FLAGS.method:
            continue
        if method in ("refined", "from_scratch"):
            lengths = sorted(run_flags.numbers("flow_lengths", int))
            found += [f"{method}_{length}" for length in lengths]
        else:
            found.append(method)
    return found


def split(system):
    """Splits the name of a system.

    Args:
        system: Name.

    Returns:
        method: Name of its method.
        length: Number of flows; `None` if it has none.
    """
    method, _, length = system.rpartition("_")
    return (method, int(length)) if length.isdigit() else (system, None)


def prior_precision():
    """Returns a number, or the name of a rule of `RULES`.

    Raises:
        ValueError: If it is neither.
    """
    if FLAGS.prior_precision in RULES:
        return FLAGS.prior_precision
    try:
        value = float(FLAGS.prior_precision)
    except ValueError:
        value = None
    if value is None or not 0.0 < value < float("inf"):
        raise ValueError(
            "--prior_precision must be a positive number, "
            f"{' or '.join(RULES)}. Received: {FLAGS.prior_precision}"
        )
    return value


def train_steps(num_examples):
    """Returns the steps of training on so many examples."""
    per_epoch = max(1, num_examples // FLAGS.batch_size)
    return FLAGS.train_steps or min(_MAX_STEPS, _EPOCHS * per_epoch)


def refinement_options(length, base="laplace"):
    """Returns the arguments of `refinement.refine` that flags decide."""
    return {
        "flow": refinement.Flow(FLAGS.flow, length, FLAGS.space, base),
        "epochs": FLAGS.refine_epochs,
        "learning_rate": FLAGS.refine_learning_rate,
        "num_samples": FLAGS.refine_samples,
        "verbose": int(FLAGS.progress),
    }


def nuts_options():
    """Returns the arguments of `sampling.nuts` that flags decide."""
    return {
        "num_chains": FLAGS.nuts_chains,
        "num_warmup": FLAGS.nuts_warmup,
        "num_samples": FLAGS.nuts_samples,
        "verbose": int(FLAGS.progress),
    }
