"""Flags of inputs that are not like the training data."""

from absl import flags

from tfp_refine import datasets
from tfp_refine.experiments import class_data
from tfp_refine.experiments import run_flags

_UNSEEN = {
    "images": [class_data.TURNED, class_data.SHUFFLED],
    "table": [class_data.SHUFFLED],
    "text": [class_data.SHUFFLED],
}

FLAGS = flags.FLAGS
flags.DEFINE_bool("download", False, "Download data sets that are missing.")
flags.DEFINE_list(
    "unseen",
    None,
    "Inputs that should be told from test inputs: other data sets; shuffled "
    "(each pixel, column or word is another example's); turned (images, by 90 "
    "degrees). Defaults to turned,shuffled for images, else to shuffled.",
)
flags.DEFINE_list(
    "rotations",
    ["15", "30", "45", "60", "75", "90"],
    "Of images: degrees by which test images are turned.",
)
flags.DEFINE_list(
    "corruptions",
    [],
    f"Of images: corruptions, of {', '.join(datasets.CORRUPTIONS)}.",
)
flags.DEFINE_integer(
    "shift_examples", 2000, "Test images that are turned or corrupted.", 1
)

# Flags that decide evaluations, and nothing else.
EVALUATION = ("corruptions", "rotations", "shift_examples", "unseen")


def check(kind):
    """Checks flags, and gives values to those whose defaults depend on others.

    Args:
        kind: "images", "table" or "text".

    Raises:
        ValueError: If a flag is invalid.
    """
    run_flags.fill(unseen=_UNSEEN[kind])
    if kind == "images":
        run_flags.numbers("rotations", float)


def shifts():
    """Returns what the flags say, `class_data.Shifts`."""
    return class_data.Shifts(
        tuple(FLAGS.unseen),
        tuple(run_flags.numbers("rotations", float)),
        tuple(FLAGS.corruptions),
        FLAGS.shift_examples,
    )
