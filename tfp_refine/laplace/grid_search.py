"""The prior's precision that predicts validation data best."""

import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.laplace import predictives
from tfp_refine.math import gaussian

_GRID = np.logspace(-4, 4, 100)


def best_prior_precision(
    laplace, validation_data, grid, predictive, num_samples, seed, verbose
):
    """Returns the precision of the prior that predicts validation data best.

    `predictive` is a method of `predict_proba`, of no importance for a
    regression, whose predictive is Gaussian. `laplace.prior_precision` is as
    before at the end.
    """
    _validation.one_of("predictive", predictive, predictives.PREDICTIVES)
    _validation.positive_integer("num_samples", num_samples)
    seed = functional.seeds.check(seed)
    grid = _checked(_GRID if grid is None else grid)
    if not isinstance(validation_data, tuple | list) or (
        len(validation_data) not in (2, 3)
    ):
        raise ValueError(
            "`validation_data` must be (x, y) or (x, y, sample_weight). "
            f"Received: {type(validation_data).__name__}"
        )
    inputs, targets, *weights = laplace.data(*validation_data)
    weight = weights[0] if weights else None
    before = laplace.prior_precision
    losses = []
    bar = functional.progress.Progress(
        "grid search", len(grid), verbose, unit="precisions"
    )
    try:
        for number, precision in enumerate(grid, start=1):
            laplace.prior_precision = precision
            # Logarithms of 0 and overflows are infinite losses.
            with np.errstate(all="ignore"):
                log_probs = _log_probs(
                    laplace, inputs, targets, predictive, num_samples, seed
                )
                losses.append(float(-np.average(log_probs, weights=weight)))
            bar.update(number, nll=losses[-1])
    finally:
        laplace.prior_precision = before
    losses = np.where(np.isfinite(losses), losses, np.inf)
    if np.isinf(losses).all():
        raise ValueError(
            "The negative log likelihood of the validation data is infinite "
            f"for all {len(grid)} precisions from {grid[0]:g} to "
            f"{grid[-1]:g}. Try greater ones: `grid=...`."
        )
    return float(grid[np.argmin(losses)])


def _log_probs(laplace, inputs, targets, predictive, num_samples, seed):
    """Computes log probabilities of targets, nats, `[N]`."""
    likelihood = laplace.likelihood
    if likelihood.kind == "regression":
        found = zip(*laplace.output_variances(inputs), strict=True)
        loc, variance = map(np.concatenate, found)
        scale = np.sqrt(variance + likelihood.noise_scale**2)
        log_probs = gaussian.log_prob(targets, gaussian.Gaussian(loc, scale))
        return np.sum(log_probs, axis=-1)
    if predictive == "mc":
        probs = predictives.weight_draws(laplace, inputs, num_samples, seed)
    else:
        rng = np.random.default_rng(seed)
        probs = predictives.probabilities(
            laplace, inputs, predictive, num_samples, rng
        )
    # Not clipped: a class that is deemed impossible, and comes, is a loss.
    if likelihood.kind == "multilabel":
        return np.sum(np.log(np.where(targets, probs, 1.0 - probs)), axis=-1)
    return np.log(probs[np.arange(len(probs)), targets])


def _checked(grid):
    try:
        grid = [_validation.positive("grid", value) for value in grid]
    except TypeError as error:
        raise ValueError(
            f"`grid` must hold precisions. Received: grid={grid!r}"
        ) from error
    if not grid:
        raise ValueError("`grid` must not be empty.")
    return grid
