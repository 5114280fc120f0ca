"""The variational bound of a model, on all of its training data."""

import numpy as np

from tfp_refine import arguments
from tfp_refine import stateless
from tfp_refine.refinement import evaluator as evaluator_lib
from tfp_refine.refinement import member
from tfp_refine.refinement import problem as problem_lib


def elbo(model, x, y=None, *, loss=None, num_samples=10, seed=None):
    """Estimates the evidence lower bound (ELBO) of a model.

    `E_q[log p(y | x, w)] - KL(q || p)`, summed over the training set; the KL
    divergence is exact and the expectation an average over draws.

    Args:
        model: Built `keras.Model` with variational layers.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        num_samples: Weight draws. Defaults to `10`.
        seed: Integer that fixes the draws; fresh ones if `None`.

    Returns:
        elbo: Nats, for the whole training set, a float.

    Raises:
        ValueError: As for `refine`.
    """
    num_samples = arguments.positive_integer("num_samples", num_samples)
    key = stateless.seeds.key(stateless.seeds.check(seed))
    problem = problem_lib.Problem(model, x, y, loss)
    state = member.MemberState(
        params=problem.params[np.newaxis],
        prior_loc=problem.prior[0][np.newaxis],
        prior_scale=problem.prior[1][np.newaxis],
        cost=np.zeros(1),
    )
    log_likelihood, kl = evaluator_lib.Evaluator(problem)(
        state, [key], np.arange(problem.num_examples), num_samples
    )
    return float(log_likelihood[0] - kl[0])
