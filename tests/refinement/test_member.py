import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp

from tests.support import statistics
from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian
from tfp_refine.refinement import member


def _state(rng, size=5, dtype=np.float64):
    return member.MemberState(
        params=tf.constant(rng.normal(size=(2, size)), dtype),
        prior_loc=tf.constant(rng.normal(size=size), dtype),
        prior_scale=tf.constant(rng.uniform(0.5, 2.0, size), dtype),
        cost=tf.constant(1.5, tf.float64),
    )


def test_kl_gradient_is_the_derivative_of_the_kl(rng):
    state = _state(rng)
    with tf.GradientTape() as tape:
        tape.watch(state.params)
        q = member.posterior(state.params, state.prior_loc)
        kl = tfp.distributions.kl_divergence(
            tfp.distributions.Normal(*q),
            tfp.distributions.Normal(state.prior_loc, state.prior_scale),
        )
    np.testing.assert_allclose(
        member.kl_gradient(state.params, state.prior_loc, state.prior_scale),
        tape.gradient(kl, state.params),
        rtol=1e-12,
    )


def test_condition_on_draw_is_conditioning_at_the_drawn_part(rng):
    state, noise = _state(rng), tf.constant(rng.normal(size=5))
    after = member.condition_on_draw(state, tf.constant(0.6, tf.float64), noise)
    q = member.posterior(state.params, state.prior_loc)
    p = gaussian.Gaussian(state.prior_loc, state.prior_scale)
    part_posterior = auxiliary.auxiliary_posterior(q, p, 0.6)
    part = part_posterior.loc + part_posterior.scale * noise
    q_given = auxiliary.posterior_given_auxiliary(q, p, 0.6, part)
    np.testing.assert_allclose(
        member.posterior(after.params, after.prior_loc), q_given, rtol=1e-9
    )
    np.testing.assert_allclose(
        after.prior_loc, state.prior_loc + part, rtol=1e-9
    )
    np.testing.assert_allclose(
        after.prior_scale, state.prior_scale * np.sqrt(0.4), rtol=1e-9
    )
    paid = tf.reduce_sum(auxiliary.log_density_ratio(q, p, 0.6, part))
    np.testing.assert_allclose(after.cost, 1.5 + paid, rtol=1e-9)


def test_without_optimization_kl_plus_cost_keeps_its_expectation(rng):
    # METHODS 2.2 f: the chain rule of the KL, over a chain of three draws.
    start = _state(rng)._replace(cost=tf.constant(0.0, tf.float64))

    def chain(noise):
        state = start
        for index, ratio in enumerate((0.7, 0.5, 0.3)):
            state = member.condition_on_draw(
                state, tf.constant(ratio, tf.float64), noise[index]
            )
        kl = member.kl_divergence(
            state.params, state.prior_loc, state.prior_scale
        )
        return kl + state.cost

    noise = tf.constant(rng.normal(size=(20000, 3, 5)))
    totals = tf.vectorized_map(chain, noise).numpy()
    expected = member.kl_divergence(
        start.params, start.prior_loc, start.prior_scale
    ).numpy()
    statistics.assert_mean(totals, expected, resolves=0.3)


@pytest.mark.parametrize("scale", [1e-4, 1e-1])
def test_conditioning_in_float32_keeps_the_posterior_scale(scale):
    raw = np.log(np.expm1(scale))
    state = member.MemberState(
        params=tf.constant([[0.3], [raw]], tf.float32),
        prior_loc=tf.constant([0.0], tf.float32),
        prior_scale=tf.constant([1e-3], tf.float32),
        cost=tf.constant(0.0, tf.float64),
    )
    after = member.condition_on_draw(
        state, tf.constant(0.7, tf.float64), tf.constant([0.5], tf.float64)
    )
    s, v = scale**2, 1e-6
    expected = np.sqrt(s * 0.3 * v / (0.7 * s + 0.3 * v))
    np.testing.assert_allclose(
        member.posterior(after.params, after.prior_loc).scale,
        [expected],
        rtol=1e-5,
    )


# With columns of point estimates.


def _with_points(rng, count=2):
    state = _state(rng)
    points = tf.constant(rng.normal(size=(2, count)))
    return state, state._replace(params=tf.concat([state.params, points], 1))


def test_points_have_no_part_in_posterior_and_kl(rng):
    state, longer = _with_points(rng)
    prior = (state.prior_loc, state.prior_scale)
    np.testing.assert_array_equal(
        member.posterior(longer.params, longer.prior_loc),
        member.posterior(state.params, state.prior_loc),
    )
    assert member.kl_divergence(longer.params, *prior) == (
        member.kl_divergence(state.params, *prior)
    )
    gradient = member.kl_gradient(longer.params, *prior)
    np.testing.assert_array_equal(
        gradient[:, :5], member.kl_gradient(state.params, *prior)
    )
    assert gradient.shape == (2, 7)
    np.testing.assert_array_equal(gradient[:, 5:], 0.0)


def test_conditioning_leaves_points_alone(rng):
    state, longer = _with_points(rng)
    noise, ratio = tf.constant(rng.normal(size=5)), tf.constant(0.6, tf.float64)
    expected = member.condition_on_draw(state, ratio, noise)
    found = member.condition_on_draw(longer, ratio, noise)
    np.testing.assert_array_equal(found.params[:, 5:], longer.params[:, 5:])
    np.testing.assert_array_equal(found.params[:, :5], expected.params)
    for one, other in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(one, other)
