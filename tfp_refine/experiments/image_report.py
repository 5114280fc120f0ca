"""Tables and plots of the image experiment."""

import numpy as np

from tfp_refine.experiments import figures
from tfp_refine.experiments import posterior_flags
from tfp_refine.experiments import published
from tfp_refine.experiments import text_table

TITLES = {
    "map": "MAP",
    "vi": "VI",
    "control": "VI, as long",
    "refined_vi": "refined VI",
    "mnf": "MNF",
}
# Head and digits of each metric.
_COLUMNS = {
    "mll": ("MLL", 4),
    "accuracy": ("accuracy", 4),
    "ece": ("ECE", 4),
    "brier": ("Brier", 4),
    "entropy": ("entropy", 4),
    "mutual_information": ("MI", 4),
    "elbo": ("ELBO", 0),
}
_OOD_COLUMNS = {
    "auroc": ("AUROC", 4),
    "fpr95": ("FPR95", 4),
    "auroc_entropy": ("AUROC (entropy)", 4),
    "fpr95_entropy": ("FPR95 (entropy)", 4),
}


def scalars_of(result):
    """Returns the numbers of a method's result, without its curves."""
    return {k: v for k, v in result.items() if isinstance(v, float)}


def paper(dataset, model, variational, batch_norm, augment, system):
    """Returns the paper's figures for a configuration, `{}` if it has none."""
    if augment != "none" or system not in posterior_flags.USUAL:
        return {}
    return published.IMAGES.get((dataset, model, variational, batch_norm), {})


def paper_of_priors(dataset, model, hidden, system):
    """Returns the figures of the paper on collapsed bounds, likewise."""
    if (dataset, model, list(hidden)) != ("mnist", "mlp", ["400", "400"]):
        return {}
    return (
        {"vi": published.PRIORS[system]} if system in published.PRIORS else {}
    )


def tables(dataset, model, results, paper=None):
    """Formats the results.

    Args:
        dataset: Name of the data set.
        model: Name of the model.
        results: `{title of a method: result}`.
        paper: What the function `paper` returns, by titles; or `None`.

    Returns:
        tables: Text of several lines.
    """
    few = next(
        name
        for name in next(iter(results.values()))
        if name.startswith("mll_") and name.endswith("_draws")
    )
    columns = {
        "mll": _COLUMNS["mll"],
        few: (f"MLL ({few.split('_')[1]} draws)", 4),
        **_COLUMNS,
    }
    rows = _rows(results, columns)
    if paper:
        rows[0] += ["paper: MLL", "accuracy"]
        for row, method in zip(rows[1:], results, strict=True):
            values = paper.get(method, (None, None))
            row += ["-" if v is None else f"{v:.3f}" for v in values]
    text = [
        "",
        f"{dataset}, {model}: test set; MLL, entropy, mutual information (MI) "
        "and bound (ELBO) in nats",
        "",
        *text_table.lines(rows),
    ]
    for title, refined in results.items():
        if "elbo_standard_error" not in refined:
            continue
        text.append(
            f"\nELBO of {title}: {refined['elbo']:.0f} ± "
            f"{refined['elbo_standard_error']:.0f}, before refinement "
            f"{refined['elbo_init']:.0f} ± "
            f"{refined['elbo_init_standard_error']:.0f} (standard errors)"
        )
    first = next(iter(results.values()))
    if "auroc" in first:
        other = next(name for name in first["entropies"] if name != dataset)
        text += [
            "",
            f"{other} as out of distribution",
            "",
            *text_table.lines(_rows(results, _OOD_COLUMNS)),
        ]
    if first["shifts"]:
        text += ["", "shifted test images", "", *_shift_lines(results)]
    return "\n".join(text)


def _rows(results, columns):
    shown = {
        name: column
        for name, column in columns.items()
        if any(name in result for result in results.values())
    }
    return [
        ["", *(head for head, _ in shown.values())],
        *(
            [
                title,
                *(
                    f"{result[name]:.{digits}f}" if name in result else "-"
                    for name, (_, digits) in shown.items()
                ),
            ]
            for title, result in results.items()
        ),
    ]


def _shift_lines(results):
    names = list(results)
    rows = [
        [
            "",
            *(f"{name}: accuracy" for name in names),
            *(f"{name}: MLL" for name in names),
        ]
    ]
    shifts = [result["shifts"] for result in results.values()]
    for entries in zip(*shifts, strict=True):
        first = entries[0]
        rows.append(
            [
                f"{first['shift']} {first['strength']:g}",
                *(f"{entry['accuracy']:.4f}" for entry in entries),
                *(f"{entry['mll']:.4f}" for entry in entries),
            ]
        )
    return text_table.lines(rows)


def plot(directory, results):
    """Saves the plots, if matplotlib is installed.

    Args:
        directory: Folder of the PNG files.
        results: As for `tables`.
    """
    if not figures.can_plot():
        return
    from tfp_refine import plotting

    drawn = _comparisons(results)
    for title, result in results.items():
        name = title.lower().replace(" ", "_").replace(",", "")
        if "history" in result and not title.endswith("as long"):
            history = result["history"]
            drawn[f"learning_curves_{name}"] = plotting.learning_curves(
                {
                    name: [entry[name] for entry in history]
                    for name in history[0]
                    if name not in ("step", "seconds")
                },
                x_label=f"checkpoints, every {history[0]['step']} steps",
            )
        if "staircase" in result:
            drawn["elbo_staircase"] = plotting.elbo_staircase(
                result["staircase"]
            )
        if "pruning" in result:
            drawn[f"posterior_{name}"] = plotting.posterior_scatter(
                result["pruning"]["layers"],
                result["pruning"]["prior_variances"],
            )
    figures.save(directory, drawn)


def plot_sweep(directory, results):
    """Saves the plots that compare several experiments.

    Args:
        directory: Folder of the PNG files.
        results: As for `tables`.
    """
    if figures.can_plot():
        figures.save(directory, _comparisons(results))


def _comparisons(results):
    """Returns the figures that show all methods together, by name."""
    from tfp_refine import plotting

    drawn = {
        "reliability": plotting.reliability_diagram(
            {
                title: list(result["calibration"].values())
                for title, result in results.items()
            }
        )
    }
    if "entropies" in next(iter(results.values())):
        drawn["entropies"] = plotting.entropy_histogram(
            {
                title: {
                    name: np.asarray(values)
                    for name, values in result["entropies"].items()
                }
                for title, result in results.items()
            }
        )
    curves = {
        title: result["pruning"]["curve"]
        for title, result in results.items()
        if "pruning" in result
    }
    if curves:
        drawn["pruning"] = plotting.pruning_curve(curves)
    return drawn
