"""Tables and plots of the uncertainty experiment."""

from tfp_refine.experiments import text_table
from tfp_refine.experiments import uncertainty_flags

_TITLES = uncertainty_flags.TITLES
_COLUMNS = {
    "unseen": {
        "accuracy": ("accuracy", 4),
        "mll": ("MLL", 4),
        "ece": ("ECE", 4),
        "entropy": ("entropy", 3),
        "unseen_entropy": ("entropy, unseen", 3),
        "auroc": ("AUROC", 4),
        "fpr95": ("FPR95", 4),
    },
    "random_labels": {
        "train_accuracy": ("training accuracy", 3),
        "test_accuracy": ("test accuracy", 3),
    },
    "cubic": {
        "rmse_at_data": ("RMSE on [-4, 4]", 2),
        "scale_at_data": ("mean scale on [-4, 4]", 2),
        "scale_far": ("scale at -6 and 6", 2),
    },
}
_HEADS = {
    "unseen": "known test images and unseen ones (entropies in nats)",
    "attack": "fast gradient sign perturbations: accuracy, mean entropy (nats)",
    "random_labels": "random labels",
    "cubic": "cubic regression: predictive standard deviations, noise 3",
}


def table(task, results):
    """Formats the results of a task.

    Args:
        task: Its name.
        results: Dict from method to its result.

    Returns:
        table: Text of several lines.
    """
    rows = _attack_rows(results) if task == "attack" else _rows(task, results)
    return "\n".join(["", _HEADS[task], "", *text_table.lines(rows)])


def _rows(task, results):
    columns = _COLUMNS[task]
    return [
        ["", *(head for head, _ in columns.values())],
        *(
            [
                _TITLES[method],
                *(
                    f"{result[name]:.{digits}f}"
                    for name, (_, digits) in columns.items()
                ),
            ]
            for method, result in results.items()
        ),
    ]


def _attack_rows(results):
    curves = {_TITLES[m]: r["curve"] for m, r in results.items()}
    epsilons = next(iter(curves.values()))["epsilon"]
    return [
        ["strength", *curves],
        *(
            [
                f"{epsilon:g}",
                *(
                    f"{curve['accuracy'][i]:.3f}, {curve['entropy'][i]:.2f}"
                    for curve in curves.values()
                ),
            ]
            for i, epsilon in enumerate(epsilons)
        ),
    ]


def figure(task, results, about):
    """Draws the figure of a task.

    Args:
        task: Its name.
        results: Dict from method to its result.
        about: The task's object.

    Returns:
        axes: Axes of the figure.
    """
    from tfp_refine import plotting

    titled = {_TITLES[method]: result for method, result in results.items()}
    curves = {title: r["curve"] for title, r in titled.items() if "curve" in r}
    if task == "unseen":
        sets = next(iter(titled.values()))["entropies"]
        return plotting.entropy_cdf(
            {
                name: {t: r["entropies"][name] for t, r in titled.items()}
                for name in sets
            }
        )
    if task == "attack":
        return plotting.attack_curves(
            curves, "perturbation (fraction of a pixel's range)"
        )
    if task == "random_labels":
        return plotting.memorization(curves, 1.0 / about.num_classes)
    return plotting.predictive_bands(
        about.grid, titled, data=(about.x, about.y), truth=about.truth
    )
