"""Errors with which predictions are integrated over Gaussian logits."""

import numpy as np
import scipy.special

from tfp_refine import functional
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.laplace import config as config_lib
from tfp_refine.math import logistic_normal

_MEANS, _SCALES = np.linspace(0.0, 10.0, 41), np.linspace(0.0, 10.0, 41)
_DRAWS = (20, 100, 1000)
_NODES = 4000
# Of several classes: random logits, their draws for the truth.
_CLASSES, _CASES, _TRUTH = (2, 5, 10, 100), 30, 100000
_STREAM = 40


def run(
    config: config_lib.Config, folder: folder_lib.Folder
) -> tuple[list[tuple], dict[str, list]]:
    """Computes the errors of a probability, once.

    Returns:
        rows: As for `tables.frame`. Of "sigmoid", means over a grid, and the
            greatest values on it by `worst/METRIC`; of "softmax, C classes",
            greatest errors of a case, means over cases.
        details: Result of `binary_errors`.
    """
    record = folder.once(
        "errors",
        lambda: {
            "binary": binary_errors(),
            "classes": errors_of_classes(config.seed),
        },
    )
    binary = record["binary"]
    found = {"sigmoid": {"probit": np.mean(binary["probit"])}}
    found["sigmoid"]["worst/probit"] = np.max(binary["probit"])
    for count in _DRAWS:
        error = np.mean(binary["mc"]) / np.sqrt(count)
        found["sigmoid"][f"draws/{count}/monte_carlo"] = error
    for num_classes, errors in record["classes"].items():
        found[f"softmax, {num_classes} classes"] = errors
    return [
        ("integration", system, 0, metric, float(value))
        for system, errors in found.items()
        for metric, value in errors.items()
    ], binary


def binary_errors() -> dict[str, list]:
    """Computes errors for two classes, on a grid of Gaussian logits.

    Returns:
        errors: Dict of lists: `"means"` and `"scales"` (standard deviations) of
            the grid; on it, absolute errors of the `"probit"`, and standard
            errors of one draw, `"mc"`: of `S`, it is this over `sqrt(S)`.
    """
    mean, scale = (
        grid[..., np.newaxis]
        for grid in np.meshgrid(_MEANS, _SCALES, indexing="ij")
    )
    # The trapezoidal rule converges geometrically for a Gaussian.
    nodes = np.linspace(-9.0, 9.0, _NODES)
    weights = np.exp(-0.5 * nodes**2)
    probs = scipy.special.expit(mean + scale * nodes)
    exact = probs @ weights / weights.sum()
    variance = probs**2 @ weights / weights.sum() - exact**2
    approximate = scipy.special.expit(
        logistic_normal.probit(mean[..., 0], scale[..., 0] ** 2).numpy()
    )
    return {
        "means": _MEANS.tolist(),
        "scales": _SCALES.tolist(),
        "probit": np.abs(approximate - exact).tolist(),
        "mc": np.sqrt(np.maximum(variance, 0.0)).tolist(),
    }


def errors_of_classes(seed: int) -> dict[str, dict[str, float]]:
    """Computes greatest errors of a probability, for random Gaussian logits.

    Returns means over the cases, by number of classes and estimate.
    """
    rng = np.random.default_rng(functional.seeds.key(seed, _STREAM))
    errors = {}
    for num_classes in _CLASSES:
        cases = []
        for _ in range(_CASES):
            mean = 2.0 * rng.normal(size=num_classes)
            root = rng.normal(size=(num_classes, num_classes))
            root *= rng.uniform(0.5, 3.0) / np.sqrt(num_classes)
            found = _estimates(rng, mean, root)
            exact = found.pop("exact")
            cases.append(
                {n: np.max(np.abs(p - exact)) for n, p in found.items()}
            )
        errors[str(num_classes)] = {
            name: float(np.mean([case[name] for case in cases]))
            for name in cases[0]
        }
    return errors


def _estimates(rng, mean, root):
    """Returns estimates of `E[softmax(f)]`, `f ~ N(mean, root root^T)`."""

    def average(count):
        size = 10000  # draws at a time
        sums = [
            scipy.special.softmax(
                mean + rng.normal(size=(n, len(mean))) @ root.T, axis=-1
            ).sum(axis=0)
            for n in [size] * (count // size) + [count % size]
        ]
        return np.sum(sums, axis=0) / count

    covariance = root @ root.T
    return {
        "exact": average(_TRUTH),
        "draws/20/monte_carlo": average(20),
        "draws/1000/monte_carlo": average(1000),
        "probit": np.exp(
            logistic_normal.multiclass_probit(mean, np.diag(covariance))
        ),
        "mean_field": np.exp(logistic_normal.mean_field(mean, covariance)),
    }
