import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.math import ivon


def settings(**changes):
    return ivon.Settings(50, 0.02, 0.5, 0.9, 0.99, None)._replace(**changes)


def start(rng, size=6):
    loc, momentum = rng.normal(size=(2, size))
    return loc, momentum, np.exp(rng.normal(size=size))


def step(state, gradient, deviation, count, rate, given):
    tensors = [tf.constant(v, tf.float64) for v in (*state, gradient)]
    product = tf.constant(gradient * deviation)
    return [
        np.array(value)
        for value in ivon.step(
            *tensors, product, tf.constant(count, tf.float64), rate, given
        )
    ]


def test_a_step_is_that_of_the_paper():
    rng = np.random.default_rng(0)
    given = settings()
    num, d, h0, b1, b2, _ = given
    state = m, g, precision = start(rng)
    gradient, z = rng.normal(size=(2, 6))
    h = precision - d
    # Of the paper's symbols: s is a variance, eps the deviation of the draw.
    s = 1.0 / (num * (h + d))
    eps = np.sqrt(s) * z
    hessian = gradient * eps / s
    g = b1 * g + (1 - b1) * gradient
    new_h = b2 * h + (1 - b2) * hessian
    new_h += 0.5 * (1 - b2) ** 2 * (h - hessian) ** 2 / (h + d)
    debiased = g / (1 - b1**4)
    m = m - 0.1 * (h0 + d) * (debiased + d * m) / (new_h + d)
    found = step(state, gradient, eps, 3, 0.1, given)
    for value, expected in zip(found, (m, g, new_h + d), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-12)


def test_the_scale_is_that_of_the_posterior():
    precision = np.array([0.5, 2.0])
    np.testing.assert_allclose(
        ivon.scale(precision, 8), [0.5, 0.25], rtol=1e-12
    )


@pytest.mark.parametrize("decay", [0.0, 0.02])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("beta_2", [0.0, 0.9, 0.99999])
def test_precisions_stay_positive_whatever_the_gradient_is(
    decay, dtype, beta_2
):
    rng = np.random.default_rng(1)
    # At `u = -1` the factor of the precision is least, a half.
    sizes = np.concatenate(
        [-np.geomspace(1e-8, 1e12, 400), np.geomspace(1e-8, 1e12, 400)]
    )
    precision = tf.constant(np.exp(3.0 * rng.normal(size=800)), dtype)
    zeros = tf.zeros_like(precision)
    _, _, after = ivon.step(
        zeros,
        zeros,
        precision,
        zeros,
        tf.constant(sizes, dtype),
        tf.zeros([], dtype),
        tf.constant(0.1, dtype),
        settings(weight_decay=decay, beta_2=beta_2),
    )
    assert np.all(np.isfinite(after))
    assert np.all(after / precision >= 0.5 * (1.0 - 1e-6))


def test_the_step_is_clipped_before_the_learning_rate_is_rescaled():
    state = start(np.random.default_rng(2))
    gradient, z = np.full(6, 1e3), np.ones(6)
    given = settings(clip_radius=1e-3)
    loc, _, _ = step(state, gradient, z, 0, 0.1, given)
    np.testing.assert_allclose(
        state[0] - loc, 0.1 * (0.5 + 0.02) * 1e-3, rtol=1e-9
    )


def test_averages_of_a_quadratic_loss_stay_at_its_curvature():
    # The mean step is zero at the optimum: E[product] N p = h.
    rng = np.random.default_rng(3)
    given = settings()
    h = np.exp(rng.normal(size=6))
    precision = h + given.weight_decay
    draws = rng.normal(size=(200000, 6))
    scale = ivon.scale(precision, given.num_train_examples)
    products = np.mean(h * np.square(scale * draws), axis=0)
    hessian = products * given.num_train_examples * precision
    np.testing.assert_allclose(hessian, h, rtol=0.03)
    state = (np.zeros(6), np.zeros(6), precision)
    _, _, after = step(state, products, np.ones(6), 0, 0.1, given)
    np.testing.assert_allclose(after, precision, rtol=1e-3)
