import numpy as np
import tensorflow as tf
from scipy import optimize

from tests.support import linear_gaussian
from tfp_refine import regularizers


def test_bound_of_a_linear_model_is_best_at_the_closed_form():
    problem = linear_gaussian.LinearGaussian(
        num_examples=200, noise_scale=0.3, prior_scale=0.4
    )
    gamma = problem.prior_scale**2
    x, y = problem.x.astype(np.float64), problem.y.astype(np.float64)
    precision = x.T @ x / problem.noise_scale**2

    def posterior(alpha):
        """Returns the posterior that is best at a given `alpha_reg`."""
        loc = np.linalg.solve(
            precision + alpha / gamma * np.eye(2), x.T @ y
        ) / np.square(problem.noise_scale)
        return loc, (np.diag(precision) + 1.0 / gamma)[:, None] ** -0.5

    def bound(alpha):
        """Computes the collapsed bound, exactly, up to a constant."""
        loc, scale = posterior(alpha)
        residual = np.sum((y - x @ loc) ** 2) + np.sum(x**2 @ scale**2)
        kl = regularizers.CollapsedMeanKL(alpha, problem.prior_scale)
        return -0.5 * residual / problem.noise_scale**2 - float(kl(loc, scale))

    grid = np.linspace(0.02, 1.0, 99)
    index = np.argmax([bound(alpha) for alpha in grid])
    assert 0 < index < len(grid) - 1  # an optimum inside
    best = optimize.minimize_scalar(
        lambda alpha: -bound(alpha),
        bounds=(grid[index - 1], grid[index + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    ).x
    learned = regularizers.CollapsedMeanKL(
        prior_scale=problem.prior_scale, learn="closed_form"
    )
    loc, _ = posterior(best)
    np.testing.assert_allclose(
        learned.current_alpha_reg(tf.constant(loc)), best, rtol=1e-5
    )
