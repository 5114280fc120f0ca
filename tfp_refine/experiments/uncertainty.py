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
      --task=unseen,attack --model=lenet5_wide --max_std=0.4

Reference: Louizos and Welling, 2017, https://arxiv.org/abs/1703.01961, Figures
2 to 6 and Appendix A.
"""

import functools

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
        self._about, self._compute = {}, {}
        # Also for the cubic alone: other tasks may be added to its folder.
        raw = datasets.load_images(
            FLAGS.dataset, FLAGS.data_dir, FLAGS.download
        )
        if {"unseen", "attack"} & set(FLAGS.task) or FLAGS.unseen_dataset:
            images = uncertainty_images.Images(raw)
            self._add("unseen", images, images.unseen)
            self._add("attack", images, images.attack)
        if "random_labels" in FLAGS.task:
            labels = uncertainty_random_labels.RandomLabels(raw)
            self._add("random_labels", labels, labels.run)
        if "cubic" in FLAGS.task:
            cubic = uncertainty_cubic.Cubic()
            self._add("cubic", cubic, cubic.run)
        values = run_flags.values(*_FLAG_MODULES)
        digests = {
            "data": record.digest(
                raw.x_train, raw.y_train, raw.x_test, raw.y_test
            )
        }
        if FLAGS.unseen_dataset is not None:
            digests["unseen_data"] = images.digest
        self._folder = record.Folder(
            FLAGS.output_dir,
            values,
            decisive=digests | uncertainty_flags.decisive(values),
            defaults=run_flags.defaults(*_FLAG_MODULES),
        )

    def _add(self, task, about, compute):
        self._about[task], self._compute[task] = about, compute

    def run(self):
        """Runs what is missing, and reports each task as it is done.

        Returns:
            results: Dict from task to a dict from method to its result: all
                that the folder holds for these flags.
        """
        for task in uncertainty_flags.tasks():
            for method in uncertainty_flags.methods():
                self._folder.once(
                    uncertainty_flags.record_name(task, method),
                    functools.partial(
                        self._compute[task], self._folder, method
                    ),
                )
            results = self._collect()
            self._folder.write_results(
                metrics={
                    name: {
                        method: {
                            k: v
                            for k, v in result.items()
                            if isinstance(v, float)
                        }
                        for method, result in by_method.items()
                    }
                    for name, by_method in results.items()
                },
                results=results,
            )
            print(uncertainty_report.table(task, results[task]), flush=True)
            if figures.can_plot():
                figure = uncertainty_report.figure(
                    task, results[task], self._about[task]
                )
                figures.save(self._folder.path, {task: figure})
        print(f"\nRecord: {self._folder.path / 'results.json'}")
        return results

    def _collect(self):
        """Reads all results that the folder holds, also of earlier runs."""
        results = {}
        for task in uncertainty_flags.TASKS:
            for method in uncertainty_flags.METHODS:
                name = uncertainty_flags.record_name(task, method)
                found = record.read(self._folder.path / f"{name}.json")
                if found is not None:
                    results.setdefault(task, {})[method] = found
        return results


if __name__ == "__main__":
    app.run(main)
