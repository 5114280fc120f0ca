r"""How posteriors should start: initializers of variational layers, compared.

Trains the same Bayesian network from several initializations of its posteriors,
and beside them one with dropout, over several train-test splits: metrics on
test data against training steps (curves), for images also predictive entropies,
and predictions for a function of one variable before training and after it
(toy). Each task prints a table and draws figures. Stopped at any time and
started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.initialization
  python -m tfp_refine.experiments.initialization --dataset=breast_cancer
  python -m tfp_refine.experiments.initialization --dataset=mnist \
      --data_dir=DIR --task=curves --splits=1

Reference: Rossi et al., 2019, https://arxiv.org/abs/1810.08083, Figures 1, 3
and 5 to 9.
"""

import functools

from absl import app
from absl import flags
from absl import logging

from tfp_refine.experiments import figures
from tfp_refine.experiments import initialization_curves
from tfp_refine.experiments import initialization_flags
from tfp_refine.experiments import initialization_report
from tfp_refine.experiments import initialization_toy
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags

_FLAG_MODULES = (run_flags, initialization_flags)
for _module in _FLAG_MODULES:
    flags.adopt_module_key_flags(_module)  # --help shows them
FLAGS = flags.FLAGS


def main(argv):
    """Runs the experiment that the flags describe."""
    run_flags.run("initialization", make, argv)


def make():
    """Returns the experiment that the flags describe."""
    return Experiment()


class Experiment:
    """All tasks and methods; everything is checked before any is run."""

    def __init__(self):
        initialization_flags.check()
        if "curves" in FLAGS.task:
            self._curves = initialization_curves.Curves()
        if "toy" in FLAGS.task:
            self._toy = initialization_toy.Toy()
        values = run_flags.values(*_FLAG_MODULES)
        self._folder = record.Folder(
            FLAGS.output_dir,
            values,
            decisive=initialization_flags.decisive(values),
            defaults=run_flags.defaults(*_FLAG_MODULES),
        )

    def run(self):
        """Runs what is missing, and reports each task as it is done.

        Returns:
            results: Dict from task to a dict from method to its result, or for
                the curves to a list of them, one a split. A task that is not
                run has those of the last time.
        """
        path = self._folder.path / "results.json"
        results = (record.read(path) or {}).get("results", {})
        for task in initialization_flags.tasks():
            results[task] = getattr(self, f"_run_{task}")()
            self._folder.write_results(
                metrics={
                    "curves": initialization_report.summarize(
                        results.get("curves", {})
                    )
                },
                results=results,
            )
            self._report(task, results[task])
        print(f"\nRecord: {path}")
        return results

    def _run_curves(self):
        methods = initialization_flags.methods()
        results = {method: [] for method in methods}
        for number in range(FLAGS.splits):
            logging.info("Split %d of %d", number + 1, FLAGS.splits)
            for method in methods:
                results[method].append(self._once(method, self._curves, number))
        return results

    def _run_toy(self):
        return {
            method: self._once(method, self._toy)
            for method in initialization_flags.methods("toy")
        }

    def _once(self, method, about, *number):
        return self._folder.once(
            about.record_name(method, *number),
            functools.partial(about.run, self._folder, method, *number),
        )

    def _report(self, task, results):
        if not results:
            return
        if task == "toy":
            print(initialization_report.toy_table(results), flush=True)
        else:
            error_name = self._curves.source.split(0).error_name
            print(
                initialization_report.curves_table(
                    FLAGS.dataset, error_name, results
                ),
                flush=True,
            )
        if not figures.can_plot():
            return
        if task == "toy":
            drawn = initialization_report.toy_figures(results, self._toy)
        else:
            drawn = initialization_report.curves_figures(error_name, results)
        figures.save(self._folder.path, drawn)


if __name__ == "__main__":
    app.run(main)
