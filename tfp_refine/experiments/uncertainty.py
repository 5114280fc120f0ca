r"""What networks with and without posteriors do when they cannot know.

Trains a network without posteriors (map), with a fully factorized Gaussian
posterior (ffg) and with multiplicative normalizing flows (mnf), and looks at
predictive entropies on classes that were not trained on (unseen), at accuracy
and entropy under perturbations by the gradient's sign (attack), at what they
remember of random labels (random_labels), and at a regression on 20 points
(cubic). Each task prints a table and draws a figure. Stopped at any time and
started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.uncertainty
  python -m tfp_refine.experiments.uncertainty --dataset=mnist --data_dir=DIR \
      --task=unseen,attack --unseen_dataset=fashion_mnist
  python -m tfp_refine.experiments.uncertainty --dataset=cifar10 --download \
      --task=unseen,attack --max_std=0.4

Reference: Louizos and Welling, 2017, https://arxiv.org/abs/1703.01961, Figures
2 to 6 and Appendix A.
"""

from absl import app
from absl import flags

from tfp_refine import datasets
from tfp_refine.experiments import figures
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import uncertainty_cubic
from tfp_refine.experiments import uncertainty_flags
from tfp_refine.experiments import uncertainty_images
from tfp_refine.experiments import uncertainty_random_labels
from tfp_refine.experiments import uncertainty_report

_FLAG_MODULES = (run_flags, mnf_flags, uncertainty_flags)
for _module in _FLAG_MODULES:
    flags.adopt_module_key_flags(_module)  # --help shows them
FLAGS = flags.FLAGS


def main(argv):
    """Runs the experiment that the flags describe."""
    run_flags.run("uncertainty", make, argv)


def make():
    """Returns the experiment that the flags describe."""
    return Experiment()


class Experiment:
    """All tasks and methods; everything is checked before any is run."""

    def __init__(self):
        uncertainty_flags.check()
        self._tasks = {}
        # Also for the cubic alone: other tasks may be added to its folder.
        raw = datasets.load_images(
            FLAGS.dataset, FLAGS.data_dir, FLAGS.download
        )
        if {"unseen", "attack"} & set(FLAGS.task):
            images = uncertainty_images.Images(raw)
            self._tasks["unseen"] = images, images.unseen
            self._tasks["attack"] = images, images.attack
        if "random_labels" in FLAGS.task:
            labels = uncertainty_random_labels.RandomLabels(raw)
            self._tasks["random_labels"] = labels, labels.run
        if "cubic" in FLAGS.task:
            cubic = uncertainty_cubic.Cubic()
            self._tasks["cubic"] = cubic, cubic.run
        values = run_flags.values(*_FLAG_MODULES)
        self._folder = record.Folder(
            FLAGS.output_dir,
            values,
            decisive={
                "data": record.digest(
                    raw.x_train, raw.y_train, raw.x_test, raw.y_test
                ),
                **{
                    name: value
                    for name, value in values.items()
                    if name not in uncertainty_flags.INCIDENTAL
                },
            },
        )

    def run(self):
        """Runs what is missing, writes the record and prints the tables.

        Returns:
            results: Dict from task to a dict from method to its result.
        """
        results, drawn = {}, {}
        for task in uncertainty_flags.tasks():
            about, compute = self._tasks[task]
            results[task] = {
                method: self._folder.once(
                    f"{task}/{method}",
                    lambda method=method, compute=compute: compute(
                        self._folder, method
                    ),
                )
                for method in uncertainty_flags.methods()
            }
            print(uncertainty_report.table(task, results[task]), flush=True)
        self._folder.write_results(
            metrics={
                task: {
                    method: {k: v for k, v in r.items() if isinstance(v, float)}
                    for method, r in by_method.items()
                }
                for task, by_method in results.items()
            },
            results=results,
        )
        if figures.can_plot():
            for task, by_method in results.items():
                drawn[task] = uncertainty_report.figure(
                    task, by_method, self._tasks[task][0]
                )
            figures.save(self._folder.path, drawn)
        print(f"\nRecord: {self._folder.path / 'results.json'}")
        return results


if __name__ == "__main__":
    app.run(main)
