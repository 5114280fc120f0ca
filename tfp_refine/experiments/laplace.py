r"""Posteriors of trained networks: Laplace, refined by flows, and NUTS.

Trains a classifier, or takes a trained one, and compares posteriors of its last
layer (comparison): the weights as they are, with scaled logits, Laplace's
approximation, that refined by normalizing flows of several lengths, such flows
without it, and the no-U-turn sampler. How far each is from the sampler (MMD),
its predictions on test data, on data that are none of it and on shifted data,
and its time. Draws the posterior of a logistic regression with two weights
(toy), and measures how well predictions are integrated (integration). Each task
prints a table and draws figures. Stopped at any time and started again with the
same --output_dir, it continues.

  python -m tfp_refine.experiments.laplace
  python -m tfp_refine.experiments.laplace --dataset=mnist --data_dir=DIR \
      --unseen=fashion_mnist,kmnist
  python -m tfp_refine.experiments.laplace --dataset=mnist --data_dir=DIR \
      --task=comparison --model=mine.keras --scaling=unit
  python -m tfp_refine.experiments.laplace --dataset=breast_cancer
  python -m tfp_refine.experiments.laplace --dataset=trec --download \
      --task=comparison

Reference: Kristiadi et al., 2022, https://arxiv.org/abs/2205.10041, Figures 2
and 5 to 7, Tables 1 to 6.
"""

from absl import app
from absl import flags

from tfp_refine.experiments import figures
from tfp_refine.experiments import laplace_comparison
from tfp_refine.experiments import laplace_flags
from tfp_refine.experiments import laplace_integration
from tfp_refine.experiments import laplace_report
from tfp_refine.experiments import laplace_toy
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import shift_flags

_FLAG_MODULES = (run_flags, shift_flags, laplace_flags)
for _module in _FLAG_MODULES:
    flags.adopt_module_key_flags(_module)  # --help shows them
FLAGS = flags.FLAGS
_TASKS = {
    "comparison": laplace_comparison.Comparison,
    "toy": laplace_toy.Toy,
    "integration": laplace_integration.Integration,
}


def main(argv):
    """Runs the experiment that the flags describe."""
    run_flags.run("laplace", make, argv)


def make():
    """Returns the experiment that the flags describe."""
    return Experiment()


class Experiment:
    """All tasks; everything is checked before any is run."""

    def __init__(self):
        laplace_flags.check()
        self._tasks = {task: _TASKS[task]() for task in laplace_flags.tasks()}
        values = run_flags.values(*_FLAG_MODULES)
        decisive = laplace_flags.decisive(values)
        if "comparison" in self._tasks:
            decisive |= self._tasks["comparison"].decisive
        self._folder = record.Folder(
            FLAGS.output_dir,
            values,
            decisive=decisive,
            defaults=run_flags.defaults(*_FLAG_MODULES),
        )

    def run(self):
        """Runs what is missing, and reports each task as it is done.

        Returns:
            results: Dict from task to its results. A task that is not run has
                those of the last time.
        """
        path = self._folder.path / "results.json"
        results = (record.read(path) or {}).get("results", {})
        for name, task in self._tasks.items():
            results[name] = task.run(self._folder)
            self._folder.write_results(
                metrics={
                    system: {
                        k: v for k, v in result.items() if isinstance(v, float)
                    }
                    for system, result in results.get("comparison", {}).items()
                },
                results=results,
            )
            print(laplace_report.table(name, results[name]), flush=True)
            if figures.can_plot():
                drawn = laplace_report.figures_of(name, results[name], task)
                figures.save(self._folder.path, drawn)
        print(f"\nRecord: {path}")
        return results


if __name__ == "__main__":
    app.run(main)
