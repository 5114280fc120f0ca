"""Flags of priors and posteriors."""

from absl import flags

from tfp_refine import layers
from tfp_refine import regularizers

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "prior",
    None,
    ["empirical_bayes", "gaussian"],
    "Prior of the weights: of scale --prior_scale, or of a scale learned for "
    "each tensor. Defaults to gaussian for `uci`, to empirical_bayes for "
    "`image`.",
)
flags.DEFINE_float(
    "prior_scale",
    None,
    "Standard deviation of the prior, the initial one if it is learned. "
    "Defaults to 1 for `uci`, to 0.1 for `image`.",
    0,
)
flags.DEFINE_float(
    "initial_scale",
    None,
    "Initial standard deviation of the posterior. Defaults to 1e-3 for `uci`, "
    "to 1e-2 for `image`.",
    0,
)


def layer_arguments():
    """Returns the arguments of variational layers that flags give.

    Returns:
        arguments: Dict.
    """
    regularizer = (
        regularizers.EmpiricalBayesKL(initial_prior_scale=FLAGS.prior_scale)
        if FLAGS.prior == "empirical_bayes"
        else regularizers.GaussianKL(FLAGS.prior_scale)
    )
    posterior = layers.MeanFieldPosterior(FLAGS.initial_scale)
    return {
        "kernel_posterior": posterior,
        "bias_posterior": posterior,
        "kernel_regularizer": regularizer,
        "bias_regularizer": regularizer,
    }
