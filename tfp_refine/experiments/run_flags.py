"""Flags of every experiment, and how its main program ends."""

import importlib.util
import sys

from absl import app
from absl import flags

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "data_dir",
    None,
    "Folder of data sets that do not come with the package: for tables, "
    "NAME/data/{data,index_features,index_target}.txt; for images, what "
    "tensorflow_datasets prepared.",
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Folder for results.json, plots and what a restart needs. Defaults to "
    "results/EXPERIMENT/DATASET.",
)
flags.DEFINE_integer("seed", 0, "Fixes splits, training and draws.", 0)
flags.DEFINE_bool("tensorboard", False, "Log scalars for TensorBoard.")
flags.DEFINE_bool("progress", True, "Show progress bars.")

# Flags that do not decide results; the data itself stands for --data_dir.
INCIDENTAL = ("data_dir", "output_dir", "progress", "tensorboard")


def run(name, make_experiment, argv):
    """Checks an experiment, runs it, and tells in one line what went wrong.

    Args:
        name: Name of the experiment, for messages.
        make_experiment: Function that checks the flags, and returns an object
            with a method `run`.
        argv: What `absl.app.run` passes.
    """
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        make_experiment().run()
    except KeyboardInterrupt:
        sys.exit(f"{name}: stopped. The same command continues where it was.")
    except (ValueError, OSError, FloatingPointError) as error:
        sys.exit(f"{name}: {error}")
    except Exception as error:
        # Some libraries answer an interruption by an error of their own.
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        sys.exit(f"{name}: stopped. The same command continues where it was.")


def fill(**defaults):
    """Gives values to flags that were not given, so that the record has them.

    Args:
        **defaults: Values by the flags' names.
    """
    for name, value in defaults.items():
        if FLAGS[name].value is None:
            FLAGS[name].value = value


def values(*modules):
    """Returns the flags that some modules define, as a dict.

    Args:
        *modules: Modules.

    Returns:
        values: Dict from a flag's name to its value.
    """
    return {
        flag.name: flag.value
        for module in modules
        for flag in FLAGS.get_flags_for_module(module)
    }


def defaults(*modules):
    """Returns the default values of the flags that some modules define.

    Args:
        *modules: Modules.

    Returns:
        defaults: Dict from a flag's name to its default value.
    """
    return {
        flag.name: flag.default
        for module in modules
        for flag in FLAGS.get_flags_for_module(module)
    }


def numbers(name, convert):
    """Reads the numbers of a list flag.

    Args:
        name: Name of the flag.
        convert: `int` or `float`.

    Returns:
        numbers: List.

    Raises:
        ValueError: If an entry is no such number.
    """
    entries = FLAGS[name].value
    try:
        return [convert(entry) for entry in entries]
    except ValueError as error:
        raise ValueError(
            f"--{name} must be a comma-separated list of numbers. "
            f"Received: {','.join(entries)}"
        ) from error


def check_names(flag, known):
    """Checks that a list flag names some of what an experiment has.

    Args:
        flag: Name of the flag.
        known: Names that it may hold.

    Raises:
        ValueError: If it holds another, or none.
    """
    names = FLAGS[flag].value
    if set(names) - set(known) or not names:
        raise ValueError(
            f"--{flag} must name some of {', '.join(known)}. "
            f"Received: {','.join(names)}"
        )


def check_tensorboard():
    """Checks that --tensorboard can be obeyed.

    Raises:
        ValueError: If the package is missing.
    """
    if FLAGS.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "--tensorboard needs the package tensorboard: "
            "pip install 'tfp_refine[tensorboard]'"
        )
