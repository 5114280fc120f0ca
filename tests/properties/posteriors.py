"""Strategies of priors, posterior families and other options of weights."""

from hypothesis import strategies as st

from tfp_refine import layers
from tfp_refine import regularizers


def positive(low=1e-3, high=1e3):
    """Draws positive numbers, of every order of magnitude in between."""
    return st.one_of(
        st.sampled_from([low, 1.0, high]).filter(lambda x: low <= x <= high),
        st.floats(low, high, allow_nan=False),
    )


def _proportions(one=True):
    return st.floats(1e-3, 1.0, exclude_max=not one)


_PRIOR_SCALES = st.one_of(st.sampled_from(["fan_in", "he"]), positive())

# Gaussian or not, of every class; the last one needs a draw of the weights.
_PRIORS = [
    st.builds(regularizers.GaussianKL, prior_scale=_PRIOR_SCALES),
    st.builds(
        regularizers.EmpiricalBayesKL,
        closed_form=st.booleans(),
        initial_prior_scale=_PRIOR_SCALES,
        learn_mean=st.booleans(),
        inverse_gamma=st.one_of(
            st.none(), st.tuples(positive(0.1, 10.0), positive(0.01, 10.0))
        ),
    ),
    st.builds(
        regularizers.EmpiricalBayesKL,
        initial_prior_scale=_PRIOR_SCALES,
        learn_mean=st.booleans(),
        trainable=st.just(False),
    ),
    st.builds(
        regularizers.CollapsedMeanKL,
        alpha_reg=_proportions(),
        prior_scale=_PRIOR_SCALES,
        learn=st.sampled_from([None, "gradient", "closed_form"]),
    ),
    st.builds(
        regularizers.CollapsedMeanKL,
        learn=st.sampled_from(["gradient", "closed_form"]),
        exponential_rate=positive(0.01, 10.0),
        shared=st.booleans(),
    ),
    st.builds(
        regularizers.CollapsedVarianceKL,
        shape=positive(0.01, 100.0),
        rate=positive(),
    ),
    st.builds(
        regularizers.CollapsedMeanVarianceKL,
        shape=positive(0.01, 100.0),
        rate=positive(),
        delta=_proportions(),
    ),
    st.builds(regularizers.LogUniformKL),
]
_SCALE_MIXTURE = st.builds(
    regularizers.ScaleMixtureKL,
    mixture_weight=_proportions(one=False),
    scale_1=positive(),
    scale_2=positive(),
)
_NAMES = [
    "collapsed_mean_kl",
    "collapsed_mean_variance_kl",
    "collapsed_variance_kl",
    "empirical_bayes_kl",
    "gaussian_kl",
    "log_uniform_kl",
]

INITIAL_SCALES = positive(1e-6, 2.0)


def priors(draws_weights):
    """Draws KL regularizers, their names, or none.

    Args:
        draws_weights: Whether the layer draws weights, which some need.
    """
    options = [st.none(), st.sampled_from(_NAMES), *_PRIORS]
    if draws_weights:
        options += [st.just("scale_mixture_kl"), _SCALE_MIXTURE]
    return st.one_of(options)


def families():
    """Draws posterior families, or their names."""
    seeds = st.integers(0, 2**20)
    return st.one_of(
        st.sampled_from(["fixed_variance", "k_tied", "low_rank", "mean_field"]),
        st.builds(layers.MeanFieldPosterior, initial_scale=INITIAL_SCALES),
        st.builds(layers.FixedVariancePosterior, st.floats(1e-6, 2.0)),
        st.builds(
            layers.KTiedPosterior,
            rank=st.sampled_from([None, 1]),
            initial_scale=INITIAL_SCALES,
            seed=seeds,
        ),
        st.builds(
            layers.LowRankPosterior,
            rank=st.sampled_from([None, 1]),
            initial_scale=INITIAL_SCALES,
            seed=seeds,
        ),
    )


@st.composite
def of_weight(draw, name, draws_weights, has_family=True):
    """Draws the arguments of one weight tensor.

    Args:
        draw: Of Hypothesis.
        name: Their first part, such as "kernel".
        draws_weights: As for `priors`.
        has_family: Whether its posterior is an argument.
    """
    regularizer, posterior = f"{name}_regularizer", f"{name}_posterior"
    if not has_family:
        return {regularizer: draw(priors(draws_weights))}
    if draw(st.integers(0, 4)) == 0:  # a point estimate
        options = st.sampled_from(["l2", "gaussian_kl", None])
        return {posterior: None, regularizer: draw(options)}
    return {
        posterior: draw(families()),
        regularizer: draw(priors(draws_weights)),
    }
