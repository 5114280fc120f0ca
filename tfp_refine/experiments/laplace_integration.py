"""Errors with which predictions are integrated over Gaussian logits."""

import numpy as np
import scipy.special
from absl import flags

from tfp_refine import functional
from tfp_refine.math import logistic_normal

FLAGS = flags.FLAGS
_MEANS, _SCALES = np.linspace(0.0, 10.0, 41), np.linspace(0.0, 10.0, 41)
_DRAWS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
_NODES = 4000
# Of several classes: random logits, their draws for the truth.
_CLASSES, _CASES, _TRUTH = (2, 5, 10, 100), 30, 100000
_STREAM = 40


class Integration:
    """The task "integration": `E[sigmoid(f)]` and `E[softmax(f)]`."""

    def run(self, folder):
        """Computes the errors, once.

        Args:
            folder: `record.Folder`.

        Returns:
            results: Dict of `"binary"` and `"classes"` errors.
        """
        return folder.once(
            f"integration/errors_{FLAGS.seed}",
            lambda: {
                "binary": binary_errors(),
                "classes": errors_of_classes(FLAGS.seed),
            },
        )


def binary_errors():
    """Computes errors for two classes, on a grid of Gaussian logits.

    Returns:
        errors: Dict of lists: `"means"` and `"scales"` (standard deviations) of
            the grid; absolute errors of the `"probit"` and standard errors of
            one draw, `"mc"`, on it; means over it, for the numbers of draws
            `"num_samples"`.
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
    spread = np.sqrt(
        np.maximum(probs**2 @ weights / weights.sum() - exact**2, 0)
    )
    approximate = scipy.special.expit(
        logistic_normal.probit(mean[..., 0], scale[..., 0] ** 2).numpy()
    )
    probit = np.abs(approximate - exact)
    return {
        "means": _MEANS.tolist(),
        "scales": _SCALES.tolist(),
        "probit": probit.tolist(),
        # Standard error of one draw; of S, it is this over sqrt(S).
        "mc": spread.tolist(),
        "num_samples": list(_DRAWS),
        "mean_mc": [float(np.mean(spread) / np.sqrt(s)) for s in _DRAWS],
        "mean_probit": float(np.mean(probit)),
        "max_probit": float(np.max(probit)),
    }


def errors_of_classes(seed):
    """Computes greatest errors of a probability, for random Gaussian logits.

    Args:
        seed: Integer.

    Returns:
        errors: List of a dict for each number of classes: `"num_classes"`, and
            means over the cases by the name of an estimate.
    """
    rng = np.random.default_rng(functional.seeds.key(seed, _STREAM))
    results = []
    for num_classes in _CLASSES:
        errors = {"mc 20": [], "mc 1000": [], "probit": [], "mean_field": []}
        for _ in range(_CASES):
            mean = 2.0 * rng.normal(size=num_classes)
            root = rng.normal(size=(num_classes, num_classes))
            root *= rng.uniform(0.5, 3.0) / np.sqrt(num_classes)
            found = _estimates(rng, mean, root)
            exact = found.pop("exact")
            for name, probs in found.items():
                errors[name].append(np.max(np.abs(probs - exact)))
        results.append(
            {
                "num_classes": num_classes,
                **{name: float(np.mean(e)) for name, e in errors.items()},
            }
        )
    return results


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
        "mc 20": average(20),
        "mc 1000": average(1000),
        "probit": np.exp(
            logistic_normal.multiclass_probit(mean, np.diag(covariance))
        ),
        "mean_field": np.exp(logistic_normal.mean_field(mean, covariance)),
    }
