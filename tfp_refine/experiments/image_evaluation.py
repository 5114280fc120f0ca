"""Metrics of a classifier's draws: on test, other and corrupted images."""

import numpy as np

from tfp_refine import datasets
from tfp_refine import metrics

NUM_BINS = 15


def test_metrics(draws, labels, few):
    """Computes the metrics of a test set.

    Args:
        draws: Logits, `[S, N, C]`.
        labels: Class numbers, `[N]`.
        few: Number of draws for a second likelihood.

    Returns:
        metrics: Dict of floats: `mll` and `mll_{few}_draws` (nats), `accuracy`,
            `ece`, `brier`, and means of `entropy` and `mutual_information`
            (nats).
    """
    logits = {"from_logits": True}
    nll = metrics.negative_log_likelihood
    return {
        "mll": -nll(labels, draws, **logits),
        f"mll_{few}_draws": -nll(labels, draws[:few], **logits),
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


def calibration(draws, labels):
    """Returns what a reliability diagram shows, as lists.

    Args:
        draws: Logits, `[S, N, C]`.
        labels: Class numbers, `[N]`.

    Returns:
        bins: Dict of lists, in the order of `metrics.CalibrationBins`; `None`
            where a bin is empty.
    """
    bins = metrics.calibration_bins(
        labels, draws, num_bins=NUM_BINS, from_logits=True
    )
    return {
        name: [None if np.isnan(v) else float(v) for v in values]
        for name, values in bins._asdict().items()
    }


def out_of_distribution_metrics(draws, other_draws):
    """Compares predictions on test images with those on other images.

    Args:
        draws: Logits of the test images, `[S, N, C]`.
        other_draws: Logits of images of another set, `[S, N_other, C]`.

    Returns:
        metrics: Dict of floats: `auroc` and `fpr95` of the confidence, and
            `auroc_entropy` and `fpr95_entropy` of the predictive entropy.
    """
    scores = {
        "": metrics.confidence,
        "_entropy": lambda *a, **k: -metrics.predictive_entropy(*a, **k),
    }
    results = {}
    for suffix, score in scores.items():
        inside, outside = (
            score(either, from_logits=True) for either in (draws, other_draws)
        )
        results[f"auroc{suffix}"] = metrics.auroc(inside, outside)
        results[f"fpr95{suffix}"] = metrics.fpr_at_95_tpr(inside, outside)
    return results


def entropies(draws):
    """Returns the predictive entropy of each image, nats, as a list."""
    return metrics.predictive_entropy(draws, from_logits=True).tolist()


def shifted_sets(images, rotations, flipped, corruptions, seed):
    """Yields shifted versions of images.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]`.
        rotations: Angles in degrees.
        flipped: Fractions of pixels to invert.
        corruptions: Names of corruptions, each taken at five severities.
        seed: Integer.

    Yields:
        name: "rotation", "flipped pixels" or the name of a corruption.
        strength: Degrees, fraction or severity.
        images: Raw pixels, `[N, H, W, C]`.
    """
    for degrees in rotations:
        yield "rotation", degrees, datasets.rotate_images(images, degrees)
    for fraction in flipped:
        yield (
            "flipped pixels",
            fraction,
            datasets.flip_pixels(images, fraction, seed),
        )
    for corruption in corruptions:
        for severity in range(1, 6):
            yield (
                corruption,
                severity,
                datasets.corrupt_images(images, corruption, severity, seed),
            )


def check_shifts(images, rotations, flipped, corruptions, seed):
    """Tries each shift on one image, so that errors come before long work.

    Args:
        images: Raw pixels, uint8, `[N, H, W, C]`.
        rotations: As for `shifted_sets`.
        flipped: As for `shifted_sets`.
        corruptions: As for `shifted_sets`.
        seed: Integer.

    Raises:
        ValueError: If one is unknown, or unfit for these images.
    """
    for _ in shifted_sets(images[:1], rotations, flipped, corruptions, seed):
        pass
