"""The split of a Gaussian weight into an auxiliary part and a rest.

Under the prior `p(w) = N(m, v)` a weight is the sum of two independent parts,
`w = a + c`, with `a ~ N(0, r v)` and `c ~ N(m, (1 - r) v)`; `r` in (0, 1) is
the variance ratio. A posterior `q(w) = N(mu, s)` then has a marginal `q(a)` and
conditionals `q(w | a)`, all Gaussian and element by element:

    p(w | a) = N(m + a, (1 - r) v)
    q(a)     = N(r (mu - m), r D)                  D = r s + (1 - r) v
    q(w | a) = N(mu + (s / D) (a - r (mu - m)), s (1 - r) v / D)

This is the innovation form of the appendix of [Havasi et al., 2021](
https://doi.org/10.3390/e23111475). It has products of variances only, never a
root of their difference: all scales are exact to rounding in float32 too, say
for a posterior scale of 1e-4 and a ratio of 1 - 1e-6 (a Python float: as a
float32 tensor it would have lost its digits before it gets here). Means and log
density ratios are differences, as exact as their largest term.
"""

import tensorflow as tf

from tfp_refine.math.gaussian import Gaussian


def auxiliary_prior(prior: Gaussian, ratio: float) -> Gaussian:
    """Computes `p(a)`, the prior of the auxiliary part, `[...]`."""
    scale = prior.scale * tf.sqrt(_as(ratio, prior.scale))
    return Gaussian(tf.zeros_like(scale), scale)


def auxiliary_posterior(q: Gaussian, prior: Gaussian, ratio: float) -> Gaussian:
    """Computes `q(a)`, `[...]`, the posterior of the auxiliary part."""
    innovation_var = _innovation_var(q, prior, ratio)
    ratio = _as(ratio, q.loc)
    loc = ratio * (q.loc - prior.loc)
    return Gaussian(loc, tf.sqrt(ratio * innovation_var))


def prior_given_auxiliary(
    prior: Gaussian, ratio: float, auxiliary: tf.Tensor
) -> Gaussian:
    """Computes `p(w | a)`; its `scale` keeps the shape of `prior.scale`."""
    rest = tf.sqrt(_one_minus(ratio, prior.scale))
    return Gaussian(prior.loc + auxiliary, prior.scale * rest)


def posterior_given_auxiliary(
    q: Gaussian, prior: Gaussian, ratio: float, auxiliary: tf.Tensor
) -> Gaussian:
    """Computes `q(w | a)`, `[...]`, given the value of `a`, `[...]`."""
    innovation_var = _innovation_var(q, prior, ratio)
    gain = tf.square(q.scale) / innovation_var
    innovation = auxiliary - _as(ratio, q.loc) * (q.loc - prior.loc)
    rest_var = _one_minus(ratio, q.loc) * tf.square(prior.scale)
    shrink = tf.sqrt(rest_var / innovation_var)
    return Gaussian(q.loc + gain * innovation, q.scale * shrink)


def log_density_ratio(
    q: Gaussian, prior: Gaussian, ratio: float, auxiliary: tf.Tensor
) -> tf.Tensor:
    """Computes `log q(a) - log p(a)`, nats, `[...]`; the caller sums.

    Its expectation under `q(a)` is `KL(q(a) || p(a))`. It is exactly the price
    that the bound pays for fixing the auxiliary part at `a`.
    """
    rest = _one_minus(ratio, q.loc)
    ratio = _as(ratio, q.loc)
    # q(a) has variance r D, p(a) has variance r v: only D / v is needed.
    var_ratio = ratio * tf.square(q.scale / prior.scale) + rest
    from_prior = auxiliary / prior.scale
    from_posterior = from_prior - ratio * (q.loc - prior.loc) / prior.scale
    return -0.5 * tf.math.log(var_ratio) + (
        tf.square(from_prior) - tf.square(from_posterior) / var_ratio
    ) / (2.0 * ratio)


def _innovation_var(q, prior, ratio):
    """Computes `D = r s + (1 - r) v`, the variance of `a / sqrt(r)`."""
    rest_var = _one_minus(ratio, q.loc) * tf.square(prior.scale)
    return _as(ratio, q.loc) * tf.square(q.scale) + rest_var


def _as(ratio, like):
    return tf.convert_to_tensor(ratio, dtype=like.dtype)


def _one_minus(ratio, like):
    # A Python float is subtracted in float64, before it loses digits.
    return tf.convert_to_tensor(1.0 - ratio, dtype=like.dtype)
