"""Flags of single systems of the comparison."""

from absl import flags

from tfp_refine import _validation

FLAGS = flags.FLAGS
flags.DEFINE_float(
    "alpha_reg",
    0.05,
    "Of cm, and delta of cmv: how much of the pull of the means to zero is "
    "left, in (0, 1].",
)
flags.DEFINE_float("precision_shape", 0.5, "Of cv and cmv: Gamma prior.", 0)
flags.DEFINE_float("precision_rate", 0.01, "Of cv and cmv: its rate.", 0)
flags.DEFINE_float(
    "dropout",
    None,
    "Rate of mc_dropout, initial of concrete_dropout. Defaults to 0.05, for "
    "images to 0.3.",
    0,
    1,
)
flags.DEFINE_float(
    "adversarial_epsilon",
    0.01,
    "Of deep_ensemble_adversarial: how far inputs move, in parts of the range "
    "of each.",
    0,
)
flags.DEFINE_float(
    "sgd_learning_rate",
    None,
    "Of swag and multi_swag, and of csghmc at the start of a cycle. Defaults "
    "to 0.01 for classes, and to 1e-5 for regression, whose loss is steep.",
    0,
)
flags.DEFINE_integer(
    "swag_snapshots", 40, "Of swag, multi_swag: weights to average.", 2
)
flags.DEFINE_integer(
    "swag_rank", 20, "Of swag, multi_swag: rank of a covariance.", 2
)
flags.DEFINE_integer(
    "cycles", 4, "Of csghmc: cycles that --train_steps make.", 1
)
flags.DEFINE_integer("samples_per_cycle", 3, "Of csghmc.", 1)
flags.DEFINE_float(
    "temperature",
    None,
    "Of csghmc: 1 is the posterior of Bayes. Defaults to 1 / N.",
    0,
)
flags.DEFINE_integer("flows", 5, "Of laplace_refined: number of flows.", 1)
flags.DEFINE_integer("nuts_chains", 4, "Chains of nuts, nuts_last_layer.", 1)
flags.DEFINE_integer("nuts_warmup", 200, "Transitions that are dropped.", 1)
flags.DEFINE_integer("nuts_samples", 200, "Transitions that are kept.", 4)
flags.DEFINE_integer(
    "nuts_max_tree_depth",
    8,
    "Of nuts: a trajectory doubles at most so often.",
    1,
)
flags.DEFINE_integer(
    "max_sampled_weights",
    2000,
    "Most weights of a network for nuts, which samples all of them.",
    1,
)
flags.DEFINE_integer(
    "max_laplace_weights",
    20000,
    "Most weights of a network for laplace_all, which has gradients for each "
    "example and output.",
    1,
)


def check(is_image, is_regression):
    """Checks flags, and gives values to those whose defaults depend on others.

    Args:
        is_image: Whether the data are images.
        is_regression: Whether targets are numbers.

    Raises:
        ValueError: If a flag is invalid.
    """
    if FLAGS.dropout is None:
        FLAGS.dropout = 0.3 if is_image else 0.05
    if FLAGS.sgd_learning_rate is None:
        FLAGS.sgd_learning_rate = 1e-5 if is_regression else 0.01
    for name in (
        "adversarial_epsilon",
        "precision_shape",
        "precision_rate",
        "sgd_learning_rate",
    ):
        _validation.positive(f"--{name}", FLAGS[name].value)
    _validation.proportion("--alpha_reg", FLAGS.alpha_reg)
    _validation.proportion("--dropout", FLAGS.dropout, one=False)
    if FLAGS.swag_rank > FLAGS.swag_snapshots:
        raise ValueError(
            "--swag_rank must not exceed --swag_snapshots. Received: "
            f"{FLAGS.swag_rank} and {FLAGS.swag_snapshots}"
        )
