"""Measurements of fits themselves: costs, bounds, diagnostics, curves."""

import keras
import numpy as np

from tfp_refine import laplace
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine.experiments import bench
from tfp_refine.experiments.measures import predictions
from tfp_refine.experiments.systems import laplace as laplace_systems
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import variational

_BYTES = 4  # of a number, float32
# Weights of a tensor that histograms show.
_MAX_WEIGHTS = 300
_STAIRCASE = (
    "trace_step",
    "trace_elbo",
    "elbo_init",
    "elbo_conditioned",
    "elbo_aux",
    "kept",
)


def costs(subject):
    """Returns the costs of a fit, and its learning curve.

    Args:
        subject: `bench.Subject`.

    Returns:
        metrics: Dict of floats, or `None` where they are not known.
        details: Dict with the `"history"` of a training.
    """
    fitted = subject.fitted
    found = {
        **subject.costs,
        "num_draws": float(len(subject.draws())),
        "num_steps": float(fitted.num_steps),
        "kilobytes": fitted.num_numbers * _BYTES / 1000.0,
        **(fitted.diagnostics or {}),
    }
    history = fitted.history or []
    names = [n for n in (history[0] if history else {}) if n != "seconds"]
    for entry in history:
        for name in names:
            if name.startswith("test_"):
                metric = name.removeprefix("test_")
                found[f"curve/{entry['step']}/{metric}"] = entry[name]
    curve = {name: [entry[name] for entry in history] for name in names}
    return found, {"curve": curve} if curve else {}


def bound(subject):
    """Estimates the bound on the evidence, of systems that have one.

    Args:
        subject: `bench.Subject`.

    Returns:
        metrics: Dict with the `"elbo"`, nats, in the original units of a
            regression, and its `"elbo_standard_error"`; `"elbo_init"`, before a
            refinement.
        details: Dict with the `"staircase"` of a refinement.
    """
    fitted, data = subject.fitted, subject.data
    constant = 0.0
    if data.is_regression:
        constant = len(data.train[1]) * float(np.log(data.scaler.scale[0]))
    if fitted.posterior is None:
        mean, error = variational.elbo(subject.fit, fitted.model)
        return {"elbo": mean - constant, "elbo_standard_error": error}, {}
    if not isinstance(fitted.posterior, refinement.RefinedEnsemble):
        mean, error = laplace_systems.elbo(
            fitted.posterior, _laplace_of(subject), subject.fit.seed("bound")
        )
        return {"elbo": mean - constant, "elbo_standard_error": error}, {}
    mean, error = variational.elbo(subject.fit, fitted.posterior)
    history = fitted.posterior.history
    staircase = {
        name: (
            history[name]
            if name in ("trace_step", "kept")
            else history[name] - constant
        ).tolist()
        for name in _STAIRCASE
    }
    return {
        "elbo": mean - constant,
        "elbo_standard_error": error,
        "elbo_init": float(np.mean(fitted.posterior.elbo_init)) - constant,
    }, {"staircase": staircase}


def weights(subject):
    """Returns means and standard deviations of some weights' posteriors."""
    found = {}
    for layer in subject.fitted.model.layers:
        for weight in getattr(layer, "variational_weights", ()):
            loc, scale = (
                np.ravel(keras.ops.convert_to_numpy(value))
                for value in (weight.loc, weight.scale)
            )
            rows = np.linspace(0, len(loc) - 1, min(len(loc), _MAX_WEIGHTS))
            rows = np.round(rows).astype(int)
            found[f"{layer.name}, {weight.name}"] = {
                "loc": loc[rows].tolist(),
                "scale": np.broadcast_to(scale, loc.shape)[rows].tolist(),
            }
    return {}, {"weights": found}


def observe(fit, model, entry):
    """Measures a model after a segment of its training.

    Args:
        fit: `repetition.Fit`.
        model: The model.
        entry: The segment's entry of the history.

    Returns:
        metrics: Dict of floats: `"kl"`, nats, of a model with posteriors; and
            metrics of test data by `test_METRIC`, if they are asked for.
    """
    found = {}
    tensors = [
        weight
        for layer in model._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
    ]
    if tensors:
        # Some are estimates: the same ones after a restart.
        seed = keras.random.SeedGenerator(entry["step"])
        found["kl"] = sum(
            float(weight.kl(seed=seed, limited=True)) for weight in tensors
        )
    if not fit.config.test_curve:
        return found
    draws = posteriors.predict(
        model,
        fit.data.test[0],
        fit.config.num_samples if fit.network.is_random else 1,
        seed=fit.seed("predictions"),
    )
    if fit.data.is_regression:
        scores = predictions.of_regression(draws, fit.data)
    else:
        scores = predictions.of_classes(draws, fit.data.test[1])
    return found | {f"test_{name}": value for name, value in scores.items()}


def _has_bound(subject):
    """Tells whether a system has a bound that compares with others."""
    name = subject.expression.name
    network = subject.fit.network
    if name in ("laplace", "laplace_all", "flows"):
        return True
    return network.family in ("vi", "ffg", "mnf") and (
        registry.is_network(subject.expression) or name in ("refined", "longer")
    )


def _laplace_of(subject):
    """Returns the Laplace approximation that a posterior is, or refines."""
    posterior = subject.fitted.posterior
    if isinstance(
        posterior, laplace.LastLayerLaplace | laplace.DiagonalLaplace
    ):
        return posterior
    return subject.repetition.fitted(subject.expression.argument)[0].posterior


COSTS = bench.Measure("costs_and_curve", costs, ("num_samples", "test_curve"))
BOUND = bench.Measure("bound", bound, ("num_eval_samples",), _has_bound)
WEIGHTS = bench.Measure(
    "weights",
    weights,
    applies=lambda subject: (
        registry.is_network(subject.expression)
        and subject.fit.network.family != "map"
    ),
)
