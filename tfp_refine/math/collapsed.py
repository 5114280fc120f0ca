"""Divergences from priors whose parameters are integrated out.

Each weight's prior has parameters of its own, with a prior in turn; the best
variational posterior of these is known, and so the bound is a function of
the weight's posterior alone: "collapsed".

Reference:
    - [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX),
      "Collapsed Variational Bounds for Bayesian Neural Networks"
"""

import math

import tensorflow as tf

from tfp_refine.math import gaussian


def collapsed_mean_kl(
    q: gaussian.Gaussian,
    prior_scale: tf.Tensor | float,
    alpha_reg: tf.Tensor | float,
) -> tf.Tensor:
    """Computes the collapsed divergence when prior means are inferred (CM).

    The prior is `w ~ N(m, gamma)`, `m ~ N(0, h)`, with
    `alpha_reg = gamma / (gamma + h)`. The best posterior of `m` is
    `N((1 - alpha_reg) loc, (1 - alpha_reg) gamma)`; for `q = N(loc, s)` remains

        0.5 (log(gamma / s) + (s + alpha_reg loc**2) / gamma - 1)
        - 0.5 log(alpha_reg)

    With `m` integrated out, the prior of `w` is `N(0, gamma / alpha_reg)`, and
    the divergence from it is lower. By the chain rule, of independent `q(w)`
    and `q(m)` from the joint prior,

        KL(q(w) q(m) || p(w, m)) = KL(q(w) || p(w)) + E_w KL(q(m) || p(m | w)),

    where `p(m | w) = N((1 - alpha_reg) w, (1 - alpha_reg) gamma)` has the
    variance of the best `q(m)`, and its mean at `w = loc`. The rest of the last
    term is the squared distance of the means,
    `(1 - alpha_reg)**2 s / (2 (1 - alpha_reg) gamma)`: a collapsed divergence
    is larger by `0.5 (1 - alpha_reg) s / gamma`, the price of a `q(m)` that
    does not follow `w`.

    `prior_scale` is `sqrt(gamma)`; `alpha_reg` is in (0, 1], and at 1 it is the
    divergence from `N(0, gamma)`. Nats, `[...]`, at least
    `-0.5 log(alpha_reg)`.
    """
    alpha_reg = tf.convert_to_tensor(alpha_reg, q.loc.dtype)
    offset = 1.0 + tf.math.log(alpha_reg)

    # Its own gradient, for speed: it costs as much as `gaussian.kl_divergence`.
    @tf.custom_gradient
    def divergence(loc, scale, prior_scale, alpha_reg):
        ratio = scale / prior_scale
        pull = tf.square(loc / prior_scale)
        squares = tf.square(ratio) + alpha_reg * pull

        def gradient(upstream):
            precision = 1.0 / tf.square(prior_scale)
            return (
                upstream * (alpha_reg * loc * precision),
                upstream * (scale * precision - 1.0 / scale),
                upstream * ((1.0 - squares) / prior_scale),
                upstream * (0.5 * (pull - 1.0 / alpha_reg)),
            )

        return 0.5 * (squares - offset) - tf.math.log(ratio), gradient

    return divergence(*gaussian.broadcast(*q, prior_scale, alpha_reg))


def total_collapsed_mean_kl(
    q: gaussian.Gaussian,
    prior_scale: tf.Tensor | float,
    alpha_reg: tf.Tensor | float,
) -> tf.Tensor:
    """Computes the sum of `collapsed_mean_kl`, nats, a scalar.

    `prior_scale` and `alpha_reg` are scalars. It costs as much as
    `gaussian.total_kl_divergence`.
    """
    alpha_reg = tf.convert_to_tensor(alpha_reg, q.loc.dtype)
    count = tf.cast(tf.size(q.loc), q.loc.dtype)
    prior = gaussian.Gaussian(0.0, prior_scale)
    return gaussian.total_kl_divergence(
        q, prior, alpha_reg
    ) - 0.5 * count * tf.math.log(alpha_reg)


def collapsed_mean_variance_kl(
    q: gaussian.Gaussian, shape: float, rate: float, delta: float
) -> tf.Tensor:
    """Computes the same when means and variances are inferred (CMV, CV).

    The prior is `w ~ N(m, 1 / tau)`, `m ~ N(0, 1 / (t tau))`,
    `tau ~ Gamma(shape, rate)`, with `delta = t / (1 + t)`. At `delta=1` the
    means are fixed at zero (CV). The result is

        (a + 0.5) log(b + s / 2 + delta loc**2 / 2) - 0.5 log s - 0.5
        - 0.5 log delta - a log b + log Gamma(a) - log Gamma(a + 0.5)

    nats, `[...]`, for `q = N(loc, s)`, shape `a` and rate `b`, in units of a
    variance. At its minimum, `loc = 0` and `s = b / a`.
    """
    # With log b taken out: large shapes and rates cancel in float32.
    energy = (tf.square(q.scale) + delta * tf.square(q.loc)) / (2.0 * rate)
    constant = (
        -0.5
        - 0.5 * math.log(delta)
        + math.lgamma(shape)
        - math.lgamma(shape + 0.5)
    )
    return (
        (shape + 0.5) * tf.math.log1p(energy)
        - tf.math.log(q.scale / math.sqrt(rate))
        + constant
    )
