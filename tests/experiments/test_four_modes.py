"""The toy of Havasi et al., Figure 3: one weight, four modes."""

import numpy as np
import pytest
from scipy import optimize
from scipy import stats

from tests.support import experiment_command
from tfp_refine import refinement
from tfp_refine.experiments import four_modes_target as four_modes


def _gaussian_bound(loc, scale):
    return four_modes.bound(stats.norm.pdf(four_modes.GRID, loc, scale))


def test_start_is_the_best_gaussian():
    result = optimize.minimize(
        lambda p: -_gaussian_bound(p[0], np.exp(p[1])),
        [four_modes.BEST_LOC, np.log(four_modes.BEST_SCALE)],
        method="Nelder-Mead",
    )
    best = _gaussian_bound(four_modes.BEST_LOC, four_modes.BEST_SCALE)
    assert -result.fun - best < 1e-6
    assert best == pytest.approx(-1.7945, abs=1e-4)
    assert four_modes.log_evidence() == pytest.approx(-1.1295, abs=1e-4)


def test_loss_is_the_likelihood():
    w = np.linspace(-3, 3, 7)[:, np.newaxis]
    np.testing.assert_allclose(
        four_modes.negative_log_likelihood(None, w),
        -np.log(four_modes.likelihood(w[:, 0])),
        rtol=1e-10,
    )


@pytest.mark.slow
def test_bounds_are_in_order():
    ensemble = refinement.refine(
        four_modes.mean_field_model(),
        *four_modes.data(),
        num_members=150,
        variance_ratios=(0.8,),
        steps=400,
        learning_rate=0.1,
        learning_rate_decay="linear",
        num_eval_samples=200,
        seed=1,
        verbose=0,
    )
    elbo_init = _gaussian_bound(four_modes.BEST_LOC, four_modes.BEST_SCALE)
    elbo_aux = ensemble.elbo_final.mean()
    elbo_ref = four_modes.bound(four_modes.mixture(ensemble))
    error = ensemble.elbo_final.std(ddof=1) / np.sqrt(150)
    assert elbo_init + 5 * error < elbo_aux
    # By quadrature with exact local optimization: -1.4404.
    assert elbo_aux == pytest.approx(-1.44, abs=0.1)
    assert elbo_aux + 5 * error < elbo_ref < four_modes.log_evidence()


@pytest.mark.slow
def test_script_writes_record_and_plot(tmp_path):
    command = experiment_command.Command(
        "four_modes", "--num_members=5", "--steps=5"
    )
    process = command.run(f"--output_dir={tmp_path}")
    assert process.returncode == 0, process.stderr
    assert {path.name for path in tmp_path.iterdir()} == {
        "flags.json", "four_modes.png", "results.json",
    }  # fmt: skip
    assert "elbo_ref" in process.stdout
