"""One member's refinement as pure functions of its state."""

from typing import Any
from typing import NamedTuple

import tensorflow as tf

from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian
from tfp_refine.math import softplus


class MemberState(NamedTuple):
    """Posterior, prior and paid cost of one member (or, stacked, of all).

    Attributes:
        params: Means and untransformed scales, `[2, W]`; then the columns of
            `D` deterministic weights, if they are refined too.
        prior_loc: Mean of the conditional prior `p(w | a_1:k)`, `[W]`.
        prior_scale: Its standard deviation, `[W]`.
        cost: `sum_k log q(a_k) - log p(a_k)`, nats, a float64 scalar.
        fixed: Values of the model's other weights, a tuple, where members
            differ in them; else empty.
        kl_scale: Factor on the KL divergence and the cost, a float64 scalar.
    """

    params: tf.Tensor
    prior_loc: tf.Tensor
    prior_scale: tf.Tensor
    cost: tf.Tensor
    fixed: Any = ()
    kl_scale: Any = 1.0


def posterior(params: tf.Tensor, prior_loc: tf.Tensor) -> gaussian.Gaussian:
    """Reads the posterior, `[..., W]`, from `params [..., 2, W + D]`."""
    loc, raw = tf.unstack(params[..., : prior_loc.shape[-1]], axis=-2)
    return gaussian.Gaussian(loc, tf.math.softplus(raw))


def kl_divergence(params, prior_loc, prior_scale) -> tf.Tensor:
    """Computes `KL(q(w) || p(w | a_1:k))`, nats, summed over all weights."""
    prior = gaussian.Gaussian(prior_loc, prior_scale)
    q = posterior(params, prior_loc)
    return tf.reduce_sum(gaussian.kl_divergence(q, prior), axis=-1)


def kl_gradient(params, prior_loc, prior_scale) -> tf.Tensor:
    """Computes the gradient of `kl_divergence` for `params`, their shape."""
    prior = gaussian.Gaussian(prior_loc, prior_scale)
    q = posterior(params, prior_loc)
    d_loc, d_scale = gaussian.kl_gradient(q, prior)
    size = prior_loc.shape[-1]
    d_raw = d_scale * tf.math.sigmoid(params[1, :size])
    gradient = tf.stack([d_loc, d_raw])
    num_deterministic = params.shape[-1] - size
    if num_deterministic:
        gradient = tf.pad(gradient, [[0, 0], [0, num_deterministic]])
    return gradient


def condition_on_draw(
    state: MemberState, ratio: tf.Tensor, noise: tf.Tensor
) -> MemberState:
    """Draws the next auxiliary variable and conditions on it.

    Returns a state with `q(w | a)`, `p(w | a)` and the cost of `a` added. The
    variance ratio is in (0, 1), the noise standard normal, `[W]`, all in
    float64: the costs of all weights are summed, and the conditional scales can
    be small beside the prior's.
    """
    dtype = state.params.dtype
    q = posterior(tf.cast(state.params, tf.float64), state.prior_loc)
    prior = gaussian.Gaussian(
        tf.cast(state.prior_loc, tf.float64),
        tf.cast(state.prior_scale, tf.float64),
    )
    q_part = auxiliary.auxiliary_posterior(q, prior, ratio)
    part = q_part.loc + q_part.scale * noise
    paid = auxiliary.log_density_ratio(q, prior, ratio, part)
    q = auxiliary.posterior_given_auxiliary(q, prior, ratio, part)
    prior = auxiliary.prior_given_auxiliary(prior, ratio, part)
    return MemberState(
        params=tf.concat(
            [
                tf.cast(tf.stack([q.loc, softplus.inverse(q.scale)]), dtype),
                state.params[:, tf.shape(state.prior_loc)[0] :],
            ],
            axis=1,
        ),
        prior_loc=tf.cast(prior.loc, dtype),
        prior_scale=tf.cast(prior.scale, dtype),
        cost=state.cost + tf.reduce_sum(paid),
        fixed=state.fixed,
        kl_scale=state.kl_scale,
    )
