"""Figures of a bench's report; needs matplotlib."""

import re
import textwrap

import numpy as np

from tfp_refine import plotting
from tfp_refine.experiments import bench
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables

# Curves that can be told apart in one panel, and figures of one kind.
_MAX_CURVES, _MAX_FIGURES = 5, 3
_TITLE_WIDTH = 30  # characters in a line of a legend
_SHIFT_METRICS = ("accuracy", "nll", "ece")
# Curves that compare systems, shown where all have them.
_CURVES = {
    "val_nll": "validation NLL (nats per example)\nlower is better",
    "test_nll": "test NLL (nats per example)\nlower is better",
}
_LOSS = {"loss": "each system's own training loss\n(nats per example)"}


def draw(results: bench.Results) -> dict[str, list[page.Figure]]:
    """Draws results; returns figures by the titles of sections.

    Only systems that have all seeds are drawn, as others would be compared on
    other data.
    """
    of, titles = _Drawing(results), results.titles
    return {
        "Predictions": [
            *page.figure(
                "nll",
                "Negative log likelihood: means, standard "
                "deviations and single seeds.",
                of.ranking,
            ),
            *page.figure(
                "intervals",
                "Test targets against predictions, with intervals of 95%; "
                "first seed, at most 200 examples.",
                of.intervals,
            ),
            *page.figure(
                "reliability",
                "Accuracy against confidence, of the systems with the lowest "
                "NLL and of MAP; first seed.",
                of.reliability,
            ),
        ],
        "Away from the training data": [
            *page.figure(
                "entropies",
                "Part of the examples whose predictive entropy is below the "
                "one on the axis, first seed. High curves are good for test "
                "data, low ones for unseen data.",
                of.entropies,
            ),
            *page.figure(
                "shifts",
                "Test data that are changed more and more; means over seeds.",
                of.shifts,
            ),
        ],
        "Training": [
            *page.figure(
                "learning_curves",
                "Medians over seeds, and bands from the lowest to the highest. "
                "A training loss, drawn where there is no NLL of other data, "
                "includes a system's own penalty of the weights: compare its "
                "shape.",
                of.learning_curves,
            ),
            *(
                page.Figure(
                    f"staircase_{_slug(name)}",
                    f"{titles[name]}: the bound during the refinement, first "
                    "seed.",
                    plotting.elbo_staircase(first),
                )
                for name, first in of.first("staircase", _MAX_FIGURES).items()
            ),
            *page.figure(
                "posteriors",
                "Means and standard deviations of the weights' posteriors, at "
                "most 300 of a tensor; first seed.",
                of.histograms,
            ),
            *(
                page.Figure(
                    f"posterior_{_slug(name)}",
                    f"{titles[name]}: means and variances of the weights, "
                    "first seed. Lines are at the prior's variance.",
                    plotting.posterior_scatter(
                        first["layers"], first["prior_variances"]
                    ),
                )
                for name, first in of.first("pruning", _MAX_FIGURES).items()
            ),
            *page.figure(
                "pruning",
                "Test likelihood without the hidden units of the lowest "
                "signal-to-noise ratios, first seed.",
                of.pruning,
            ),
        ],
    }


class _Drawing:
    """Draws the figures of `bench.Results`; `None` where there is nothing."""

    def __init__(self, results):
        self._results, rows = results, results.rows
        self._titles = {
            name: textwrap.fill(title, _TITLE_WIDTH)
            for name, title in results.titles.items()
        }
        self._nll = rows[rows["metric"] == "nll"].pivot(
            index="seed", columns="system", values="value"
        )
        whole = self._nll.columns[np.isfinite(self._nll).all()]
        self._ranked = list(self._nll[whole].mean().sort_values().index)
        if self._nll.empty:  # there is no order but that of tables
            self._ranked = [n for n in self._titles if n in results.details]

    def first(self, key, most=_MAX_CURVES):
        """Returns the details of the first seed, as `_details` does."""
        return {name: of[0] for name, of in self._details(key, most).items()}

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
        if len(self._ranked) < 2 or self._nll.empty:
            return None
        scores = {
            self._titles[name]: self._nll[name].to_numpy()
            for name in self._ranked
        }
        return plotting.ranking(scores, "test NLL (nats per example)")

    def intervals(self):
        curves = {
            self._titles[name]: first
            for name, first in self.first("intervals").items()
        }
        return plotting.prediction_intervals(curves) if curves else None

    def reliability(self):
        bins = {
            self._titles[name]: [
                np.array(values, np.float64) for values in first.values()
            ]
            for name, first in self.first("calibration").items()
        }
        return plotting.reliability_diagram(bins) if bins else None

    def entropies(self):
        unseen, entropies = self.first("unseen_entropies"), {}
        for name, test in self.first("entropies").items():
            for of, values in (test | unseen.get(name, {})).items():
                entropies.setdefault(of, {})[self._titles[name]] = values
        return plotting.entropy_cdf(entropies) if entropies else None

    def shifts(self):
        rows = self._results.rows
        means = rows.groupby(["system", "metric"])["value"].mean()
        curves = {
            shift.replace("_", " "): {
                self._titles[name]: {
                    "strength": [float(s) for s in strengths],
                    **{
                        metric: [
                            means.get(
                                (name, f"shift/{shift}/{s}/{metric}"), np.nan
                            )
                            for s in strengths
                        ]
                        for metric in _SHIFT_METRICS
                    },
                }
                for name in self._chosen(self._ranked)
            }
            for shift, strengths in tables.shifts(rows).items()
        }
        return plotting.shift_curves(curves) if curves else None

    def learning_curves(self):
        curves = self._details("curve")
        every = [run for runs in curves.values() for run in runs]
        if not every or any(len(run["step"]) < 2 for run in every):
            return None
        labels = {
            metric: label
            for metric, label in _CURVES.items()
            if all(metric in run for run in every)
        }
        return plotting.convergence(
            {
                self._titles[name]: _same_length(runs)
                for name, runs in curves.items()
            },
            labels or _LOSS,
            log_steps=False,
        )

    def histograms(self):
        weights = {}
        for name, first in self.first("weights").items():
            for tensor, values in first.items():
                if tensor.endswith("kernel"):
                    of_tensor = weights.setdefault(tensor, {})
                    of_tensor[self._titles[name]] = values
        return plotting.posterior_histograms(weights) if weights else None

    def pruning(self):
        curves = {
            self._titles[name]: first["curve"]
            for name, first in self.first("pruning").items()
        }
        return plotting.pruning_curve(curves) if curves else None


def _same_length(runs):
    """Cuts runs, some of which may have stopped early, to the shortest."""
    least = min(len(run["step"]) for run in runs)
    return [{k: values[:least] for k, values in run.items()} for run in runs]


def _slug(name):
    return re.sub(r"\W+", "_", name).strip("_")
