"""Measurements of fits themselves: costs, bounds, diagnostics, curves."""

import keras
import numpy as np

from tfp_refine import refinement
from tfp_refine.experiments import bench
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.measures import predictions
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

_BYTES = 4  # of a number, float32
# Weights of a tensor that histograms show.
_MAX_WEIGHTS = 300
# Draws of the bound of Laplace's approximation and its flows.
_NUM_DRAWS = 100
_LAPLACES = ("laplace", "laplace_all", "flows")
_REFINED = ("refined", "refined_ensemble")
_STAIRCASE = (
    "steps",
    "trace_step",
    "trace_elbo",
    "elbo_init",
    "elbo_conditioned",
    "elbo_aux",
    "kept",
)


def costs(subject: bench.Subject) -> tuple[dict, dict]:
    """Returns the costs of a fit, and its learning curve."""
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


def bound(subject: bench.Subject) -> tuple[dict, dict]:
    """Estimates the bound on the evidence, of systems that have one.

    It is in nats, in the original units of a regression. `"elbo_init"` is that
    before a refinement, of which the details have the `"staircase"`.
    """
    fitted, fit, seed = subject.fitted, subject.fit, subject.fit.seed("bound")
    posterior, name = fitted.posterior, subject.expression.name
    if name in _REFINED:
        values = posterior.elbo_final
    elif name in _LAPLACES:
        start = subject.expression.chain[1 if name == "flows" else 0]
        base = subject.repetition.fitted(start)[0].posterior
        posterior.training_data = base.training_data
        values = posterior.elbo(_NUM_DRAWS, seed=seed)
    else:
        values = refinement.elbo(
            fitted.model,
            *fit.data.train,
            num_samples=fit.config.num_eval_samples,
            # So that bounds compare with those of refinement and other priors.
            marginal_prior=fit.network.prior == "cm",
            seed=seed,
        )
    values, constant = np.atleast_1d(np.asarray(values, np.float64)), 0.0
    if fit.data.is_regression:
        scale = fit.data.scaler.scale[0]
        constant = len(fit.data.train[1]) * float(np.log(scale))
    found = {"elbo": float(values.mean()) - constant}
    if len(values) > 1:
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        found["elbo_standard_error"] = float(error)
    if name not in _REFINED:
        return found, {}
    found["elbo_init"] = float(np.mean(posterior.elbo_init)) - constant
    staircase = {key: posterior.history[key] for key in _STAIRCASE}
    for key in {*_STAIRCASE} - {"steps", "trace_step", "kept"}:
        staircase[key] = staircase[key] - constant
    return found, {"staircase": {k: v.tolist() for k, v in staircase.items()}}


def weights(subject: bench.Subject) -> tuple[dict, dict]:
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


def observe(
    fit: repetition.Fit, model: keras.Model, entry: dict[str, float]
) -> dict[str, float]:
    """Measures a model after a segment of its training, by its entry.

    Returns the `"kl"`, nats, of a model with posteriors; and metrics of test
    data by `test_METRIC`, if they are asked for.
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
    draws = fit.predictive(model)(fit.data.test[0])
    if fit.data.is_regression:
        scores = predictions.of_regression(draws, fit.data)
    else:
        scores = predictions.of_classes(draws, fit.data.test[1])
    return found | {f"test_{name}": value for name, value in scores.items()}


def _has_bound(subject):
    """Returns whether a system has a bound that compares with others."""
    name = subject.expression.name
    if (
        name == "refined_ensemble"
        and fields.kl_scale(subject.config.member_kl_scale) != 1.0
    ):
        return False  # that of a cold posterior does not compare
    is_trained = registry.is_network(subject.expression)
    return name in (*_LAPLACES, *_REFINED, "converted") or (
        subject.fit.network.family != "map" and (is_trained or name == "longer")
    )


COSTS = bench.Measure("costs_and_curve", costs, ("num_samples", "test_curve"))
BOUND = bench.Measure("bound", bound, ("num_eval_samples",), _has_bound)
WEIGHTS = bench.Measure(
    "weights",
    weights,
    applies=lambda subject: (
        registry.is_network(subject.expression)
        and subject.fit.network.family not in ("map", "ivon")
    ),
)
