"""The target of Havasi et al., Figure 3: one weight, four modes."""

import numpy as np
import pytest
from scipy import optimize
from scipy import stats

from tfp_refine import refinement
from tfp_refine.experiments.four_modes import target


def _gaussian_bound(loc, scale):
    return target.bound(stats.norm.pdf(target.GRID, loc, scale))


def test_start_is_the_best_gaussian():
    result = optimize.minimize(
        lambda p: -_gaussian_bound(p[0], np.exp(p[1])),
        [target.BEST_LOC, np.log(target.BEST_SCALE)],
        method="Nelder-Mead",
    )
    best = _gaussian_bound(target.BEST_LOC, target.BEST_SCALE)
    assert -result.fun - best < 1e-6
    assert best == pytest.approx(-1.7945, abs=1e-4)
    assert target.log_evidence() == pytest.approx(-1.1295, abs=1e-4)


def test_loss_is_the_likelihood():
    w = np.linspace(-3, 3, 7)[:, np.newaxis]
    np.testing.assert_allclose(
        target.negative_log_likelihood(None, w),
        -np.log(target.likelihood(w[:, 0])),
        rtol=1e-10,
    )


def test_bound_of_the_posterior_is_the_evidence():
    posterior = target.posterior()
    assert target.integral(posterior) == pytest.approx(1.0, rel=1e-12)
    assert target.bound(posterior) == pytest.approx(
        target.log_evidence(), rel=1e-10
    )


@pytest.mark.slow
def test_bounds_are_in_order():
    ensemble = refinement.refine(
        target.mean_field_model(),
        *target.data(),
        num_members=150,
        variance_ratios=(0.8,),
        steps=400,
        learning_rate=0.1,
        learning_rate_decay="linear",
        num_eval_samples=200,
        seed=1,
        verbose=0,
    )
    elbo_init = _gaussian_bound(target.BEST_LOC, target.BEST_SCALE)
    elbo_aux = ensemble.elbo_final.mean()
    elbo_ref = target.bound(target.mixture(ensemble.loc, ensemble.scale))
    error = ensemble.elbo_final.std(ddof=1) / np.sqrt(150)
    assert elbo_init + 5 * error < elbo_aux
    # By quadrature with exact local optimization: -1.4404.
    assert elbo_aux == pytest.approx(-1.44, abs=0.1)
    assert elbo_aux + 5 * error < elbo_ref < target.log_evidence()
