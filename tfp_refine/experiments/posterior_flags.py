"""Flags of priors and posteriors."""

from absl import flags

from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

REGULARIZERS = (
    "gaussian",
    "empirical_bayes",
    "collapsed_mean",
    "collapsed_variance",
    "collapsed_mean_variance",
    "log_uniform",
    "scale_mixture",
)
# What the paper on refinement uses: regularizer, posterior, factor on the KL.
USUAL = (
    ("gaussian", "mean_field", 1.0),
    ("empirical_bayes", "mean_field", 1.0),
)
POSTERIORS = ("mean_field", "fixed_variance", "k_tied", "low_rank")

FLAGS = flags.FLAGS
flags.DEFINE_list(
    "regularizer",
    None,
    "KL divergence, and so prior of the weights, of "
    f"{', '.join(REGULARIZERS)}; several are run one after another and "
    "compared. Defaults to gaussian for `uci`, to empirical_bayes for `image`.",
)
flags.DEFINE_list(
    "posterior",
    ["mean_field"],
    f"Posterior family of the kernels, of {', '.join(POSTERIORS)}; not of mnf; "
    "several are "
    "compared. Biases are mean_field, or fixed_variance as the kernels.",
)
flags.DEFINE_string(
    "prior_scale",
    None,
    "Standard deviation of the prior; initial if it is learned, given the "
    "prior's mean if that is inferred: a number, fan_in (variance 1 / fan_in) "
    "or he (2 / fan_in). Defaults to fan_in for collapsed_mean, else to 1 for "
    "`uci` and to 0.1 for `image`.",
)
flags.DEFINE_bool(
    "learn_prior_mean",
    False,
    "Learn the mean of the empirical_bayes prior too, one for each tensor.",
)
flags.DEFINE_float(
    "alpha_reg",
    0.05,
    "Of collapsed_mean, and delta of collapsed_mean_variance: how much of the "
    "pull of the means to zero is left, in (0, 1].",
)
flags.DEFINE_enum(
    "learn_alpha_reg",
    "no",
    ["no", "gradient", "closed_form"],
    "How the alpha_reg of collapsed_mean is learned, one for the model.",
)
flags.DEFINE_float(
    "precision_shape",
    0.5,
    "Shape of the Gamma prior of precisions, of collapsed_variance and "
    "collapsed_mean_variance.",
)
flags.DEFINE_float(
    "precision_rate", 0.01, "Its rate: unneeded weights get rate / shape."
)
flags.DEFINE_float(
    "initial_scale",
    None,
    "Initial standard deviation of the posterior, the only one of "
    "fixed_variance. Defaults to 1e-3 for `uci`, to 1e-2 for `image`.",
)
flags.DEFINE_integer(
    "posterior_rank",
    None,
    "Rank of k_tied or low_rank. Defaults to 2 or 5, or less in small layers.",
    1,
)
flags.DEFINE_float(
    "kl_scale", 1.0, "Factor on the KL divergence; 1 is a true bound.", 0
)


def check():
    """Checks the names that the list flags hold.

    Raises:
        ValueError: If one is unknown, or none is given.
    """
    for name, known in (
        ("regularizer", REGULARIZERS),
        ("posterior", POSTERIORS),
    ):
        values = FLAGS[name].value
        if (
            not values
            or set(values) - set(known)
            or len(set(values)) < len(values)
        ):
            raise ValueError(
                f"--{name} must name, once each, some of {', '.join(known)}. "
                f"Received: {','.join(values)}"
            )


def label(regularizer, posterior):
    """Returns a name for one of several priors and posteriors."""
    parts = [regularizer] if len(FLAGS.regularizer) > 1 else []
    if len(FLAGS.posterior) > 1:
        parts.append(posterior)
    return "_".join(parts) or regularizer


def system():
    """Returns regularizer, posterior and factor on the KL, a tuple."""
    return FLAGS.regularizer[0], FLAGS.posterior[0], FLAGS.kl_scale


def has_marginal_prior():
    """Tells whether bounds are computed with the prior's means integrated out.

    So they compare with those of refinement, and with those of other priors.
    """
    return FLAGS.regularizer[0] == "collapsed_mean"


def layer_arguments(default_prior_scale):
    """Returns the arguments of variational layers that flags give.

    The list flags hold one name each here.

    Args:
        default_prior_scale: Of Gaussian priors, unless --prior_scale is given.

    Returns:
        arguments: Dict.

    Raises:
        ValueError: If a flag is invalid.
    """
    kernel, bias = _posteriors(FLAGS.posterior[0])
    return {
        "kernel_posterior": kernel,
        "bias_posterior": bias,
        **prior_arguments(default_prior_scale),
    }


def prior_arguments(default_prior_scale):
    """Returns those of them that are of the prior.

    Args:
        default_prior_scale: As for `layer_arguments`.

    Returns:
        arguments: Dict.

    Raises:
        ValueError: If a flag is invalid.
    """
    regularizer = _regularizer(FLAGS.regularizer[0], default_prior_scale)
    return {
        "kernel_regularizer": regularizer,
        "bias_regularizer": regularizer,
        "kl_scale": FLAGS.kl_scale,
    }


def check_refinable(model):
    """Checks that a posterior can be refined, before it is trained.

    Args:
        model: Built `keras.Model`.

    Raises:
        ValueError: If its prior or its posterior is of another kind.
    """
    try:
        functional.MeanFieldView(model).prior()
    except ValueError as error:
        raise ValueError(
            f"--method=refined_vi: {error} Leave that method out."
        ) from error


def prior_scale(default):
    """Reads --prior_scale.

    Args:
        default: Value if it is not given.

    Returns:
        prior_scale: A float, or a name.

    Raises:
        ValueError: If it is no positive number, and no name.
    """
    if FLAGS.prior_scale is None:
        return default
    try:
        return float(FLAGS.prior_scale)
    except ValueError:
        return FLAGS.prior_scale


def _regularizer(name, default_prior_scale):
    if name == "gaussian":
        return regularizers.GaussianKL(prior_scale(default_prior_scale))
    if name == "empirical_bayes":
        return regularizers.EmpiricalBayesKL(
            initial_prior_scale=prior_scale(default_prior_scale),
            learn_mean=FLAGS.learn_prior_mean,
        )
    if name == "collapsed_mean":
        learn = FLAGS.learn_alpha_reg
        return regularizers.CollapsedMeanKL(
            FLAGS.alpha_reg,
            prior_scale("fan_in"),
            learn=None if learn == "no" else learn,
            shared=learn != "no",
        )
    if name == "scale_mixture":
        return regularizers.ScaleMixtureKL()
    if name == "log_uniform":
        return regularizers.LogUniformKL()
    gamma = (FLAGS.precision_shape, FLAGS.precision_rate)
    if name == "collapsed_variance":
        return regularizers.CollapsedVarianceKL(*gamma)
    return regularizers.CollapsedMeanVarianceKL(*gamma, delta=FLAGS.alpha_reg)


def _posteriors(family):
    """Returns the posterior families of kernels and of biases."""
    scale, rank = FLAGS.initial_scale, FLAGS.posterior_rank
    mean_field = layers.MeanFieldPosterior(scale)
    if family == "fixed_variance":
        fixed = layers.FixedVariancePosterior(scale)
        return fixed, fixed
    if family == "k_tied":
        return layers.KTiedPosterior(rank, scale), mean_field
    if family == "low_rank":
        return layers.LowRankPosterior(rank, scale), mean_field
    return mean_field, mean_field
