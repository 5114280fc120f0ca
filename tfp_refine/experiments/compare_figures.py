"""Figures of the comparison."""

import statistics

import numpy as np

from tfp_refine.experiments import report_page

# Curves that can be told apart in one panel.
_MAX_CURVES = 5


def draw(results, num_seeds):
    """Draws what results hold; needs matplotlib.

    Args:
        results: Dict from title of a system to a list of its results; those
            that lack a repetition are left out.
        num_seeds: Number of repetitions.

    Returns:
        figures: Dict from title of a section to a list of
            `report_page.Figure`.
    """
    # Others would be compared on other repetitions.
    results = {t: runs for t, runs in results.items() if len(runs) == num_seeds}
    if not results:
        return {}
    sections = {
        "Test data": [_ranking(results), *_reliability(results)],
        "Away from the training data": [
            *_entropies(results),
            *_shifts(results),
        ],
        "Training": [*_curves(results), *_histograms(results)],
    }
    return {title: drawn for title, drawn in sections.items() if drawn}


def _ranking(results):
    from tfp_refine import plotting

    scores = {
        title: [run["nll"] for run in runs] for title, runs in results.items()
    }
    return report_page.Figure(
        "nll",
        "Negative log likelihood of test data: mean, standard deviation and "
        "single repetitions.",
        plotting.ranking(scores, "test NLL (nats)"),
    )


def _reliability(results):
    from tfp_refine import plotting

    chosen = _best(results, "calibration")
    if not chosen:
        return []
    bins = {}
    for title, runs in chosen.items():
        bins[title] = [
            np.array([np.nan if v is None else v for v in values])
            for values in runs[0]["calibration"].values()
        ]
    return [
        report_page.Figure(
            "reliability",
            "Accuracy against confidence, of the systems with the lowest NLL "
            "and of MAP; first repetition.",
            plotting.reliability_diagram(bins),
        )
    ]


def _entropies(results):
    from tfp_refine import plotting

    chosen = _best(results, "entropies")
    entropies = {}
    for title, runs in chosen.items():
        for name, values in runs[0]["entropies"].items():
            entropies.setdefault(name, {})[title] = values
    if not entropies:
        return []
    return [
        report_page.Figure(
            "entropies",
            "How many examples have a predictive entropy up to that on the "
            "axis, in the first repetition: for test data a high curve is "
            "good, for others a low one, which knows that it cannot know.",
            plotting.entropy_cdf(entropies),
        )
    ]


def _shifts(results):
    from tfp_refine import plotting

    chosen = _best(results, "shifts")
    curves = {}
    for title, runs in chosen.items():
        for entry in _mean_shifts(runs):
            curve = curves.setdefault(entry.pop("shift"), {}).setdefault(
                title, {name: [] for name in entry}
            )
            for name, value in entry.items():
                curve[name].append(value)
    if not curves:
        return []
    return [
        report_page.Figure(
            "shifts",
            "Test data that are changed more and more; means over the "
            "repetitions.",
            plotting.shift_curves(curves),
        )
    ]


def _mean_shifts(runs):
    """Returns a shift's scores, averaged over repetitions, as dicts."""
    for entries in zip(*(run["shifts"] for run in runs), strict=True):
        yield {
            name: value
            if isinstance(value, str)
            else statistics.fmean(entry[name] for entry in entries)
            for name, value in entries[0].items()
        }


def _curves(results):
    from tfp_refine import plotting

    chosen = {
        title: [run["curve"] for run in runs]
        for title, runs in _best(results, "curve").items()
    }
    if not chosen:
        return []
    if all("val_nll" in c for runs in chosen.values() for c in runs):
        metric = "val_nll"
        label = "validation NLL (nats per example)\nlower is better"
    else:
        metric, label = "loss", "each system's own training loss (nats)"
    if any(len(c["step"]) < 2 for runs in chosen.values() for c in runs):
        return []
    return [
        report_page.Figure(
            "learning_curves",
            "Medians over the repetitions, and bands from the lowest to the "
            "highest. A training loss, drawn where a system has no validation "
            "NLL, includes its own penalty of the weights: compare its shape.",
            plotting.convergence(chosen, {metric: label}, log_steps=False),
        )
    ]


def _histograms(results):
    from tfp_refine import plotting

    weights = {}
    for title, runs in _best(results, "weights").items():
        for tensor, values in runs[0]["weights"].items():
            if tensor.endswith("kernel"):
                weights.setdefault(tensor, {})[title] = values
    if not weights:
        return []
    return [
        report_page.Figure(
            "posteriors",
            "Means and standard deviations of the weights' posteriors, at most "
            "300 of a tensor; first repetition.",
            plotting.posterior_histograms(weights),
        )
    ]


def _best(results, key):
    """Returns some of the systems that have `key`: the best, and MAP."""
    having = {t: runs for t, runs in results.items() if runs[0].get(key)}
    ranked = sorted(
        having, key=lambda t: statistics.fmean(r["nll"] for r in having[t])
    )
    chosen = ranked[:_MAX_CURVES]
    if "MAP" in having and "MAP" not in chosen:
        chosen[-1] = "MAP"
    return {title: runs for title, runs in having.items() if title in chosen}
