"""Flags of refinement, and of the draws that methods are compared with."""

import functools

from absl import flags

from tfp_refine import distribute
from tfp_refine.experiments import run_flags
from tfp_refine.functional import update_rules
from tfp_refine.math import variance_schedule
from tfp_refine.refinement import settings

FLAGS = flags.FLAGS
flags.DEFINE_integer(
    "num_members",
    10,
    "Members of the refined ensemble, for `compare` of deep ensembles too.",
    1,
)
flags.DEFINE_list(
    "variance_ratios",
    None,
    "For each auxiliary variable, the part of the remaining prior variance "
    "that it takes; 0.5*10 stands for ten times 0.5. Defaults to 0.7*5, and "
    "for a hybrid ResNet to 0.5*10.",
)
flags.DEFINE_list(
    "variance_fractions",
    None,
    "The same as parts of the original variance, as the paper prints it; "
    "overrides --variance_ratios.",
)
flags.DEFINE_integer(
    "steps", 200, "Refinement steps for each auxiliary variable and member.", 1
)
flags.DEFINE_float(
    "refine_learning_rate",
    1e-2,
    "Adam's before the first auxiliary variable, in refinement. The paper: "
    "1e-3, constant.",
    0,
)
flags.DEFINE_enum(
    "refine_learning_rate_decay",
    "linear",
    list(update_rules.DECAYS),
    "Of that rate within each auxiliary variable, to zero.",
)
flags.DEFINE_bool(
    "refine_deterministic",
    False,
    "Refine weights without a posterior along with the others.",
)
flags.DEFINE_integer(
    "num_eval_samples", 10, "Weight draws in each estimate of a bound.", 1
)
flags.DEFINE_enum(
    "mapping",
    "auto",
    list(settings.MAPPINGS),
    "How members are computed together: each on a core (map), each operation "
    "for all (vmap), or whichever is faster here.",
)
flags.DEFINE_integer(
    "members_per_batch",
    None,
    "Members that are computed at a time, which bounds memory. Defaults to "
    "all.",
    1,
)
flags.DEFINE_bool(
    "distributed",
    False,
    "Refine on the workers of the cluster whose chief this is, by the "
    "environment variable TF_CONFIG; see tfp_refine.distribute.",
)
flags.DEFINE_integer(
    "num_samples",
    100,
    "Draws of each predictive distribution, spread over the members.",
    1,
)

# They do not decide results, but for rounding.
INCIDENTAL = ("distributed", "mapping", "members_per_batch")


@functools.cache
def connect():
    """Connects to the cluster if the flags say so; to be called first of all.

    Returns:
        coordinator: `ClusterCoordinator`, or `None`.

    Raises:
        ValueError: If `TF_CONFIG` describes no cluster whose chief this is.
        TimeoutError: If a process of the cluster does not answer.
    """
    return distribute.connect() if FLAGS.distributed else None


def check_draws():
    """Checks that the draws spread evenly over the members.

    Raises:
        ValueError: If not.
    """
    if FLAGS.num_samples % FLAGS.num_members:
        raise ValueError(
            "--num_samples must be a multiple of --num_members, so that "
            "every member is drawn as often. Received: "
            f"{FLAGS.num_samples} and {FLAGS.num_members}"
        )


def variance_ratios():
    """Reads the ratios of the auxiliary variables.

    Returns:
        ratios: Tuple of floats in (0, 1).

    Raises:
        ValueError: If they are not numbers, or not in (0, 1).
    """
    if FLAGS.variance_fractions:
        return variance_schedule.ratios_from_fractions(
            run_flags.numbers("variance_fractions", float)
        )
    ratios = []
    for entry in FLAGS.variance_ratios:
        ratio, _, times = entry.partition("*")
        try:
            ratios += [float(ratio)] * int(times or 1)
        except ValueError as error:
            raise ValueError(
                "--variance_ratios must be a comma-separated list of numbers, "
                "or of NUMBER*TIMES. "
                f"Received: {','.join(FLAGS.variance_ratios)}"
            ) from error
    return variance_schedule.check_ratios(ratios)


def options():
    """Returns the keyword arguments of `refine` that flags give."""
    return {
        "num_members": FLAGS.num_members,
        "steps": FLAGS.steps,
        "learning_rate": FLAGS.refine_learning_rate,
        "learning_rate_decay": FLAGS.refine_learning_rate_decay,
        "refine_deterministic": FLAGS.refine_deterministic,
        "num_eval_samples": FLAGS.num_eval_samples,
        "mapping": FLAGS.mapping,
        "members_per_batch": FLAGS.members_per_batch,
        "coordinator": connect(),
        "verbose": int(FLAGS.progress),
    }
