"""What is measured of a fitted system."""

import keras
import numpy as np

from tfp_refine import losses
from tfp_refine import metrics
from tfp_refine.experiments import image_evaluation

# Of test predictions of a classifier, and where inputs are shifted.
_SCORES = ("accuracy", "ece", "brier", "entropy", "mutual_information")
_SHIFT_SCORES = ("accuracy", "ece", "entropy")
_BYTES = 4  # of a number, float32
# Weights of a tensor that histograms are of.
_MAX_WEIGHTS = 300


def evaluate(fitted, data):
    """Evaluates a fitted system on test data.

    Args:
        fitted: `fitted.Fitted`.
        data: `class_data.Data` or `compare_data.Regression`.

    Returns:
        result: Dict of floats, lists and dicts, for JSON.

    Raises:
        FloatingPointError: If predictions are not finite.
    """
    draws = _draws(fitted, data.test[0])
    scores = _regression if data.num_classes is None else _classification
    result = scores(fitted, draws, data)
    return result | {
        "num_draws": float(len(draws)),
        "num_steps": float(fitted.num_steps),
        "kilobytes": fitted.num_numbers * _BYTES / 1000.0,
        "about": fitted.about or {},
        "curve": _curve(fitted.history or []),
        "weights": _weights(fitted.model),
    }


def _draws(fitted, x):
    draws = np.asarray(fitted.draws(x))
    bad = np.count_nonzero(~np.isfinite(draws))
    if bad:
        raise FloatingPointError(
            f"{bad} of {draws.size} numbers of its predictions are not finite."
        )
    return draws


def _regression(fitted, draws, data):
    del fitted
    y = data.test[1]
    loc, scale = (
        np.asarray(v)
        for v in losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    )
    gaussian = (y, loc, scale)
    unit = float(data.scaler.scale[0])
    in_units = data.scaler.inverse_log_likelihood
    variance = metrics.predictive_variance(loc, scale)
    return {
        "nll": -in_units(-metrics.gaussian_negative_log_likelihood(*gaussian)),
        "moment_matched_nll": -in_units(
            -metrics.moment_matched_negative_log_likelihood(*gaussian)
        ),
        "rmse": unit * metrics.root_mean_squared_error(y, loc),
        "crps": unit * metrics.crps(*gaussian),
        "coverage": metrics.interval_coverage(*gaussian, level=0.95),
        "calibration_error": metrics.regression_calibration_error(*gaussian),
        "epistemic": unit * float(np.sqrt(np.mean(variance.epistemic))),
        "aleatoric": unit * float(np.sqrt(np.mean(variance.aleatoric))),
    }


def _classification(fitted, draws, data):
    _, labels = data.test
    result = {
        **_scores(draws, labels, _SCORES),
        "aurc": metrics.area_under_risk_coverage(
            labels, draws, from_logits=True
        ),
        "calibration": image_evaluation.calibration(draws, labels),
        "entropies": {"test": image_evaluation.entropies(draws)},
        "unseen": {},
        "shifts": [],
    }
    for name, other in data.unseen.items():
        others = _draws(fitted, other)
        result["entropies"][name] = image_evaluation.entropies(others)
        result["unseen"][name] = image_evaluation.out_of_distribution_metrics(
            draws, others
        )
    for name, strength, images in data.shifted():
        scores = _scores(
            _draws(fitted, images), labels[: len(images)], _SHIFT_SCORES
        )
        result["shifts"].append({"shift": name, "strength": strength, **scores})
    return result


def _scores(draws, labels, names):
    scores = image_evaluation.test_metrics(draws, labels, 1)
    return {"nll": -scores["mll"], **{name: scores[name] for name in names}}


def _curve(history):
    """Returns lists of what a training's history holds at each step."""
    return {
        name: [entry[name] for entry in history]
        for name in ("step", "loss", "val_nll")
        if history and name in history[0]
    }


def _weights(model):
    """Returns means and standard deviations of some weights with posteriors."""
    if model is None:
        return {}
    found = {}
    for layer in model._flatten_layers():
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
    return found
