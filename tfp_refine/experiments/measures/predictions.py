"""Metrics of predictions: on test data, on unseen and on shifted inputs."""

import numpy as np

from tfp_refine import losses
from tfp_refine import metrics
from tfp_refine.experiments import bench
from tfp_refine.experiments.data import dataset

NUM_BINS = 15
_MAX_INTERVALS = 200  # examples that figures show
_SHIFT_METRICS = ("nll", "accuracy", "ece", "entropy")


def on_test_data(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures predictions of test data; of a regression, in original units."""
    draws, data = subject.draws(), subject.data
    few = draws[: subject.config.num_members]  # one draw of each member
    if data.is_regression:
        found = of_regression(draws, data)
        if len(few) < len(draws):
            found["nll_few_draws"] = of_regression(few, data)["nll"]
        return found, {"intervals": _intervals(draws, data)}
    labels = data.test[1]
    found = of_classes(draws, labels)
    found["aurc"] = metrics.area_under_risk_coverage(
        labels, draws, from_logits=True
    )
    if len(few) < len(draws):
        found["nll_few_draws"] = metrics.negative_log_likelihood(
            labels, few, from_logits=True
        )
    return found, {
        "calibration": _calibration(draws, labels),
        "entropies": {"test": _entropies(draws)},
    }


def of_regression(draws: np.ndarray, data: dataset.Dataset) -> dict[str, float]:
    """Computes metrics of means and raw scales, `[S, N, 2]`, of test data.

    The draws are of standardized targets, the metrics in original units.
    """
    y, scaler = data.test[1], data.scaler
    loc, scale = (
        np.asarray(v)
        for v in losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    )
    gaussian = (y, loc, scale)
    unit, in_units = float(scaler.scale[0]), scaler.inverse_log_likelihood
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


def of_classes(draws: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Computes metrics of logits, `[S, N, C]`, for class numbers `[N]`."""
    logits = {"from_logits": True}
    return {
        "nll": metrics.negative_log_likelihood(labels, draws, **logits),
        "accuracy": metrics.accuracy(labels, draws, **logits),
        "ece": metrics.expected_calibration_error(
            labels, draws, num_bins=NUM_BINS, **logits
        ),
        "brier": metrics.brier_score(labels, draws, **logits),
        "entropy": float(np.mean(metrics.predictive_entropy(draws, **logits))),
        "mutual_information": float(
            np.mean(metrics.mutual_information(draws, **logits))
        ),
    }


def on_unseen_inputs(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures how well unseen inputs are told from test inputs.

    Names are `unseen/NAME/METRIC`: `auroc` and `fpr95` of the confidence, with
    `_entropy` of the predictive entropy, and the mean `entropy` (nats).
    """
    draws, found, entropies = subject.draws(), {}, {}
    for name, x in subject.data.unseen.items():
        other = subject.draws(x)
        for suffix, score in (
            ("", metrics.confidence),
            ("_entropy", lambda *a, **k: -metrics.predictive_entropy(*a, **k)),
        ):
            inside, outside = (
                score(either, from_logits=True) for either in (draws, other)
            )
            found[f"unseen/{name}/auroc{suffix}"] = metrics.auroc(
                inside, outside
            )
            found[f"unseen/{name}/fpr95{suffix}"] = metrics.fpr_at_95_tpr(
                inside, outside
            )
        entropies[name] = _entropies(other)
        found[f"unseen/{name}/entropy"] = float(np.mean(entropies[name]))
    return found, {"unseen_entropies": entropies}


def on_shifted_inputs(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures predictions of changed images: `shift/NAME/STRENGTH/METRIC`."""
    found, labels = {}, subject.data.test[1]
    for name, strength, images in subject.data.shifted():
        values = of_classes(subject.draws(images), labels[: len(images)])
        for metric in _SHIFT_METRICS:
            found[f"shift/{name}/{strength:g}/{metric}"] = values[metric]
    return found, {}


TEST = bench.Measure("test", on_test_data, ("num_samples", "num_members"))
UNSEEN = bench.Measure(
    "unseen",
    on_unseen_inputs,
    ("num_samples", "unseen", "classes", "seed"),
    lambda subject: bool(subject.data.unseen),
)
SHIFTS = bench.Measure(
    "shifts",
    on_shifted_inputs,
    (
        "num_samples",
        "rotations",
        "flipped_pixels",
        "corruptions",
        "shift_examples",
        "seed",
    ),
    lambda subject: bool(
        subject.config.rotations
        or subject.config.flipped_pixels
        or subject.config.corruptions
    ),
)


def _calibration(draws, labels):
    """Returns the bins of a reliability diagram; `None` where one is empty."""
    bins = metrics.calibration_bins(
        labels, draws, num_bins=NUM_BINS, from_logits=True
    )
    return {
        name: [None if np.isnan(v) else float(v) for v in values]
        for name, values in bins._asdict().items()
    }


def _intervals(draws, data):
    """Returns targets, means and ends of 95% intervals of some examples.

    They are lists of the first examples, in original units.
    """
    y = data.test[1][:_MAX_INTERVALS]
    loc, scale = (
        np.asarray(v)[:, :_MAX_INTERVALS]
        for v in losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    )
    values = {
        "target": y,
        "mean": loc.mean(axis=0),
        "low": _quantile(0.025, loc, scale),
        "high": _quantile(0.975, loc, scale),
    }
    return {
        name: np.ravel(data.scaler.inverse(value)).tolist()
        for name, value in values.items()
    }


def _quantile(level, loc, scale):
    """Computes quantiles of mixtures of Gaussians, by bisection."""
    low, high = (
        np.min(loc - 10.0 * scale, axis=0),
        np.max(loc + 10.0 * scale, axis=0),
    )
    for _ in range(50):
        middle = 0.5 * (low + high)
        is_below = metrics.predictive_cdf(middle, loc, scale) < level
        low = np.where(is_below, middle, low)
        high = np.where(is_below, high, middle)
    return 0.5 * (low + high)


def _entropies(draws):
    """Returns the predictive entropy of each input, nats, as a list."""
    return metrics.predictive_entropy(draws, from_logits=True).tolist()
