"""Tables and plots of the Laplace experiment."""

import numpy as np

from tfp_refine.experiments import laplace_flags
from tfp_refine.experiments import text_table

_TITLES = {
    "map": "MAP",
    "temperature": "MAP, temperature",
    "laplace": "Laplace",
    "refined": "refined",
    "from_scratch": "from N(0, I)",
    "nuts": "NUTS",
    "vb": "VB, factorized",
}
# Head and digits of each metric.
_COLUMNS = {
    "mmd": ("MMD to NUTS", 4),
    "nll": ("NLL", 4),
    "accuracy": ("accuracy", 4),
    "brier": ("Brier", 4),
    "ece": ("ECE", 4),
    "entropy": ("entropy", 4),
    "elbo": ("ELBO", 1),
    "seconds": ("seconds", 1),
}
_OF_SHIFTS = ("nll", "accuracy", "ece")
_OF_LENGTHS = ("mmd", "nll", "elbo", "seconds")
_MAX_R_HAT = 1.01
_GRID = 121


def title(system):
    """Returns the title of a system."""
    method, length = laplace_flags.split(system)
    if length is None:
        return _TITLES[method]
    return f"{_TITLES[method]}, {length} flow{'s' * (length > 1)}"


def table(task, results):
    """Formats the results of a task.

    Args:
        task: Its name.
        results: What its `run` returned.

    Returns:
        table: Text of several lines.
    """
    return {
        "comparison": comparison_table,
        "toy": _toy_table,
        "integration": _integration_table,
    }[task](results)


def figures_of(task, results, about):
    """Draws the figures of a task.

    Args:
        task: Its name.
        results: What its `run` returned.
        about: The task's object.

    Returns:
        figures: Dict from a name to the axes of a figure.
    """
    from tfp_refine import plotting

    if task == "integration":
        binary = results["binary"]
        return {
            task: plotting.integration_errors(
                *(binary[n] for n in ("means", "scales", "probit", "mc"))
            )
        }
    if task == "toy":
        return {task: _contours(results, about)}
    shown = _shown(results)
    drawn = {
        "reliability": plotting.reliability_diagram(
            {t: list(r["calibration"].values()) for t, r in shown.items()}
        ),
        "entropies": plotting.entropy_histogram(
            {t: r["entropies"] for t, r in shown.items()}
        ),
    }
    if next(iter(results.values()))["shifts"]:
        drawn["shifts"] = plotting.shift_curves(_shift_curves(shown))
    curves, references = _length_curves(results)
    if curves:
        drawn["flow_length"] = plotting.flow_length(curves, references)
    return drawn


def comparison_table(results):
    """Formats the comparison of posteriors.

    Args:
        results: Dict from a system to its result.

    Returns:
        table: Text of several lines.
    """
    text = [
        "",
        "test set; NLL, entropy and bound (ELBO) in nats; MMD squared, that of "
        "NUTS between halves of its chains",
        "",
        *_lines(results, _COLUMNS),
    ]
    for system, result in results.items():
        for key, name in (
            ("prior_precision", "prior precision"),
            ("temperature", "temperature"),
        ):
            if key in result:
                text.append(f"{title(system)}: {name} {result[key]:.4g}")
    text += _mixing(results)
    for name in next(iter(results.values()))["unseen"]:
        text += [
            "",
            f"{name}, to be told from test inputs",
            "",
            *_lines(
                {s: r["unseen"][name] for s, r in results.items()},
                {
                    "fpr95": ("FPR95", 4),
                    "auroc": ("AUROC", 4),
                    "fpr95_entropy": ("FPR95 (entropy)", 4),
                    "auroc_entropy": ("AUROC (entropy)", 4),
                },
            ),
        ]
    for metric in _OF_SHIFTS:
        shown = _shown(results)
        shifts = [result["shifts"] for result in shown.values()]
        if not shifts[0]:
            break
        rows = [["", *shown]]
        for entries in zip(*shifts, strict=True):
            first = entries[0]
            rows.append(
                [
                    f"{first['shift']} {first['strength']:g}",
                    *(f"{entry[metric]:.3f}" for entry in entries),
                ]
            )
        head = f"shifted test inputs: {_COLUMNS[metric][0]}"
        text += ["", head, "", *text_table.lines(rows)]
    return "\n".join(text)


def _mixing(results):
    """Says how far the reference can be trusted."""
    if "nuts" not in results:
        return []
    nuts = results["nuts"]
    text = (
        f"NUTS: R-hat {nuts['max_r_hat']:.3f} at worst, effective sample size "
        f"{nuts['min_effective_sample_size']:.0f} at least, "
        f"{nuts['num_divergences']:.0f} divergences, "
        f"{nuts['mean_leapfrogs']:.0f} gradients a transition"
    )
    if nuts["max_r_hat"] > _MAX_R_HAT:
        text += "; its chains have not mixed: raise --nuts_warmup"
    return [text]


def _toy_table(results):
    columns = {"mmd": ("MMD to NUTS", 4), "elbo": ("ELBO", 2)}
    return "\n".join(
        [
            "",
            "logistic regression with two weights; bound (ELBO) in nats",
            "",
            *_lines(results, columns),
            *_mixing(results),
        ]
    )


def _integration_table(results):
    binary = results["binary"]
    draws = dict(zip(binary["num_samples"], binary["mean_mc"], strict=True))
    rows = [["classes", *(k for k in results["classes"][0] if "_cl" not in k)]]
    for errors in results["classes"]:
        rows.append(
            [
                str(errors["num_classes"]),
                *(f"{errors[name]:.4f}" for name in rows[0][1:]),
            ]
        )
    return "\n".join(
        [
            "",
            "errors of a probability: two classes, means and standard "
            "deviations of the logit up to 10",
            "",
            f"probit: {binary['mean_probit']:.4f} on average, "
            f"{binary['max_probit']:.4f} at worst",
            "Monte Carlo, on average: "
            + ", ".join(f"{draws[s]:.4f} ({s} draws)" for s in (20, 100, 1000)),
            "",
            "several classes, random logits: greatest error, on average",
            "",
            *text_table.lines(rows),
        ]
    )


def _lines(results, columns):
    shown = {
        name: column
        for name, column in columns.items()
        if any(name in result for result in results.values())
    }
    rows = [["", *(head for head, _ in shown.values())]]
    for system, result in results.items():
        rows.append(
            [
                title(system),
                *(
                    f"{result[name]:.{digits}f}" if name in result else "-"
                    for name, (_, digits) in shown.items()
                ),
            ]
        )
    return text_table.lines(rows)


def _shown(results):
    """Chooses systems for figures: of flows, the longest refinement."""
    for method in ("refined", "from_scratch"):
        refined = [s for s in results if laplace_flags.split(s)[0] == method]
        if refined:
            break
    return {
        title(system): result
        for system, result in results.items()
        if laplace_flags.split(system)[1] is None or system in refined[-1:]
    }


def _shift_curves(shown):
    curves = {}
    for name, result in shown.items():
        for entry in result["shifts"]:
            curve = curves.setdefault(entry["shift"], {}).setdefault(name, {})
            for key in ("strength", *_OF_SHIFTS):
                curve.setdefault(key, []).append(entry[key])
    return curves


def _length_curves(results):
    """Returns curves of the refinements, and lines of the others."""
    curves, references = {}, {}
    for system, result in results.items():
        method, length = laplace_flags.split(system)
        values = {key: result[key] for key in _OF_LENGTHS if key in result}
        if length is None:
            if method in ("laplace", "nuts"):
                references[title(system)] = values
            continue
        curve = curves.setdefault(_TITLES[method], {})
        for key, value in {"length": length, **values}.items():
            curve.setdefault(key, []).append(value)
    return curves, references


def _contours(results, toy):
    from tfp_refine import plotting

    reference = np.asarray(results["nuts"]["samples"])
    low, high = np.quantile(reference, [0.002, 0.998], axis=0)
    margin = 0.2 * (high - low)
    first, second = (
        np.linspace(a, b, _GRID)
        for a, b in zip(low - margin, high + margin, strict=True)
    )
    grid = np.stack(np.meshgrid(first, second, indexing="ij"), axis=-1)
    return plotting.posterior_contours(
        first,
        second,
        toy.log_joint(grid),
        {
            f"{title(system)}: MMD {result['mmd']:.4f}": result["samples"]
            for system, result in results.items()
        },
    )
