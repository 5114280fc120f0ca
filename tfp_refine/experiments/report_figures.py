"""Figures of a bench's report."""

import re

import numpy as np

from tfp_refine.experiments.harness import page

# Curves that can be told apart in one panel, and figures of one kind.
_MAX_CURVES, _MAX_FIGURES = 5, 3
_SHIFT_METRICS = ("accuracy", "nll", "ece")
# Curves that compare systems, shown where all have them.
_CURVES = {
    "val_nll": "validation NLL (nats per example)\nlower is better",
    "test_nll": "test NLL (nats per example)\nlower is better",
}
_LOSS = {"loss": "each system's own training loss\n(nats per example)"}


def draw(results):
    """Draws what results hold; needs matplotlib.

    Only systems that have all seeds are drawn, as others would be compared on
    other data.

    Args:
        results: `bench.Results`.

    Returns:
        figures: Dict from the title of a section to a list of `page.Figure`.
    """
    drawing = _Drawing(results)
    sections = {
        "Test data": [*drawing.ranking(), *drawing.reliability()],
        "Away from the training data": [
            *drawing.entropies(),
            *drawing.shifts(),
        ],
        "Training": [
            *drawing.learning_curves(),
            *drawing.staircases(),
            *drawing.histograms(),
            *drawing.pruning(),
        ],
    }
    return {title: figures for title, figures in sections.items() if figures}


def shifts(results):
    """Returns a dict from a shift's name to its strengths, rising, as texts."""
    found = {}
    for metric in results.rows["metric"].unique():
        kind, *path = metric.split("/")
        if kind == "shift":
            name, strength, _ = path
            found.setdefault(name, {})[strength] = None
    return {name: sorted(of, key=float) for name, of in found.items()}


class _Drawing:
    """Draws the figures of `bench.Results`."""

    def __init__(self, results):
        self._results, self._titles = results, results.titles
        rows = results.rows
        self._shifts = shifts(results)
        self._nll = rows[rows["metric"] == "nll"].pivot(
            index="seed", columns="system", values="value"
        )
        self._means = rows.groupby(["system", "metric"])["value"].mean()
        whole = self._nll.columns[np.isfinite(self._nll).all()]
        self._ranked = list(self._nll[whole].mean().sort_values().index)
        if self._nll.empty:  # there is no order but that of tables
            self._ranked = [n for n in self._titles if n in results.details]

    def _details(self, key, most=_MAX_CURVES):
        """Returns the best systems that have some details, and MAP.

        Args:
            key: Name of the details.
            most: Number of systems.

        Returns:
            details: Dict from the name of a system, in the order of tables, to
                a list of the details of each seed.
        """
        of = {
            name: [
                seed[key]
                for _, seed in sorted(self._results.details[name].items())
                if seed.get(key)
            ]
            for name in self._ranked
        }
        of = {name: seeds for name, seeds in of.items() if seeds}
        return {name: of[name] for name in self._chosen(list(of), most)}

    def _chosen(self, ranked, most=_MAX_CURVES):
        """Returns the first systems, and MAP, in the order of tables."""
        chosen = ranked[:most]
        if "map" in ranked and "map" not in chosen:
            chosen[-1] = "map"
        return [name for name in self._titles if name in chosen]

    def ranking(self):
        from tfp_refine import plotting

        if len(self._ranked) < 2 or self._nll.empty:
            return []
        scores = {
            self._titles[name]: self._nll[name].to_numpy()
            for name in self._ranked
        }
        return [
            page.Figure(
                "nll",
                "Negative log likelihood of test data: means, standard "
                "deviations and single seeds.",
                plotting.ranking(scores, "test NLL (nats per example)"),
            )
        ]

    def reliability(self):
        from tfp_refine import plotting

        bins = {
            self._titles[name]: [
                np.array(values, np.float64) for values in first.values()
            ]
            for name, (first, *_) in self._details("calibration").items()
        }
        if not bins:
            return []
        return [
            page.Figure(
                "reliability",
                "Accuracy against confidence, of the systems with the lowest "
                "NLL and of MAP; first seed.",
                plotting.reliability_diagram(bins),
            )
        ]

    def entropies(self):
        from tfp_refine import plotting

        unseen, entropies = self._details("unseen_entropies"), {}
        for name, (test, *_) in self._details("entropies").items():
            sets = test | (unseen[name][0] if name in unseen else {})
            for of, values in sets.items():
                entropies.setdefault(of, {})[self._titles[name]] = values
        if not entropies:
            return []
        return [
            page.Figure(
                "entropies",
                "Part of the examples whose predictive entropy is below the "
                "one on the axis, first seed. High curves are good for test "
                "data, low ones for unseen data.",
                plotting.entropy_cdf(entropies),
            )
        ]

    def shifts(self):
        from tfp_refine import plotting

        curves = {
            shift.replace("_", " "): {
                self._titles[name]: {
                    "strength": [float(s) for s in strengths],
                    **{
                        metric: [
                            self._means.get(
                                (name, f"shift/{shift}/{s}/{metric}"), np.nan
                            )
                            for s in strengths
                        ]
                        for metric in _SHIFT_METRICS
                    },
                }
                for name in self._chosen(self._ranked)
            }
            for shift, strengths in self._shifts.items()
        }
        if not curves:
            return []
        return [
            page.Figure(
                "shifts",
                "Test data that are changed more and more; means over seeds.",
                plotting.shift_curves(curves),
            )
        ]

    def learning_curves(self):
        from tfp_refine import plotting

        curves = self._details("curve")
        every = [run for runs in curves.values() for run in runs]
        if not every or any(len(run["step"]) < 2 for run in every):
            return []
        labels = {
            metric: label
            for metric, label in _CURVES.items()
            if all(metric in run for run in every)
        }
        return [
            page.Figure(
                "learning_curves",
                "Medians over seeds, and bands from the lowest to the highest. "
                "A training loss, drawn where there is no NLL of other data, "
                "includes a system's own penalty of the weights: compare its "
                "shape.",
                plotting.convergence(
                    {
                        self._titles[name]: _same_length(runs)
                        for name, runs in curves.items()
                    },
                    labels or _LOSS,
                    log_steps=False,
                ),
            )
        ]

    def staircases(self):
        from tfp_refine import plotting

        return [
            page.Figure(
                f"staircase_{_slug(name)}",
                f"{self._titles[name]}: the bound during the refinement, first "
                "seed.",
                plotting.elbo_staircase(first),
            )
            for name, (first, *_) in self._details(
                "staircase", _MAX_FIGURES
            ).items()
        ]

    def histograms(self):
        from tfp_refine import plotting

        weights = {}
        for name, (first, *_) in self._details("weights").items():
            for tensor, values in first.items():
                if tensor.endswith("kernel"):
                    of_tensor = weights.setdefault(tensor, {})
                    of_tensor[self._titles[name]] = values
        if not weights:
            return []
        return [
            page.Figure(
                "posteriors",
                "Means and standard deviations of the weights' posteriors, at "
                "most 300 of a tensor; first seed.",
                plotting.posterior_histograms(weights),
            )
        ]

    def pruning(self):
        from tfp_refine import plotting

        found = self._details("pruning", _MAX_FIGURES)
        drawn = [
            page.Figure(
                f"posterior_{_slug(name)}",
                f"{self._titles[name]}: means and variances of the weights, "
                "first seed. Lines are at the prior's variance.",
                plotting.posterior_scatter(
                    first["layers"], first["prior_variances"]
                ),
            )
            for name, (first, *_) in found.items()
        ]
        if not found:
            return []
        curves = {
            self._titles[name]: first["curve"]
            for name, (first, *_) in self._details("pruning").items()
        }
        return [
            *drawn,
            page.Figure(
                "pruning",
                "Test likelihood without the hidden units of the lowest "
                "signal-to-noise ratios, first seed.",
                plotting.pruning_curve(curves),
            ),
        ]


def _same_length(runs):
    """Cuts runs, some of which may have stopped early, to the shortest."""
    least = min(len(run["step"]) for run in runs)
    return [{k: values[:least] for k, values in run.items()} for run in runs]


def _slug(name):
    return re.sub(r"\W+", "_", name).strip("_")
