r"""All systems of the papers, fitted to the same data, on one page.

Fits each of --methods to a data set, several times: the same network on the
same training data, trained for the same steps, and as many draws of predictions
for all that can be drawn at will. Writes `report.md` and
`report.html` with test metrics (the best in bold, means and standard deviations
over the repetitions), what each system costs, how it does away from its
training data, and the papers' figures where there are any. A system that cannot
be applied is left out, and the report says why. Stopped at any time and started
again with the same --output_dir, it continues; systems and repetitions can be
added.

  python -m tfp_refine.experiments.compare
  python -m tfp_refine.experiments.compare --dataset=digits
  python -m tfp_refine.experiments.compare --dataset=mnist --data_dir=DIR \
      --methods=map,deep_ensemble,vi,refined_vi --train_steps=4000 \
      --unseen=fashion_mnist --corruptions=gaussian_noise,fog
  python -m tfp_refine.experiments.compare --dataset=energy --seeds=5 \
      --likelihood=heteroscedastic

References: the papers of the systems, in the report.
"""

from absl import app
from absl import flags
from absl import logging

from tfp_refine.experiments import compare_data
from tfp_refine.experiments import compare_flags
from tfp_refine.experiments import compare_report
from tfp_refine.experiments import compare_run
from tfp_refine.experiments import compare_system_flags
from tfp_refine.experiments import compare_systems
from tfp_refine.experiments import figures
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import record
from tfp_refine.experiments import refinement_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import shift_flags

_FLAG_MODULES = (
    run_flags,
    compare_flags,
    compare_system_flags,
    shift_flags,
    refinement_flags,
    mnf_flags,
)
for _module in _FLAG_MODULES:
    flags.adopt_module_key_flags(_module)  # --help shows them
FLAGS = flags.FLAGS
_ALL = "all"
flags.DEFINE_list(
    "methods",
    [_ALL],
    f"Systems to compare, of {', '.join(compare_systems.SYSTEMS)}; or {_ALL}.",
)


def main(argv):
    """Runs the comparison that the flags describe."""
    run_flags.run("compare", make, argv)


def make():
    """Returns the comparison that the flags describe."""
    refinement_flags.connect()
    return Comparison()


class Comparison:
    """All repetitions and systems; flags and data are checked before any."""

    def __init__(self):
        systems = compare_systems.SYSTEMS
        run_flags.check_names("methods", (_ALL, *systems))
        self._names = [
            name
            for name in systems
            if name in FLAGS.methods or _ALL in FLAGS.methods
        ]
        compare_flags.check()
        compare_system_flags.check(
            FLAGS.kind == "images", FLAGS.kind == "regression"
        )
        mnf_flags.check()
        if "refined_vi" in self._names:
            refinement_flags.check_draws()
        data = compare_data.load(0)
        compare_flags.fill(data.train[0])
        first = compare_run.Run(0, data, None)
        self._num_weights = first.num_weights  # builds the network
        self._sizes = [len(data.train[1]), len(data.test[1])]
        self._reasons = {
            name: reason
            for name in self._names
            if (reason := first.reason(name)) is not None
        }
        if len(self._reasons) == len(self._names):
            raise ValueError(
                "None of --methods can be applied. "
                + " ".join(f"{n}: {r}" for n, r in self._reasons.items())
            )
        self._flags = run_flags.values(*_FLAG_MODULES)
        self._folder = record.Folder(
            FLAGS.output_dir,
            self._flags,
            decisive={"data": data.digest} | _decisive(self._flags),
            defaults=run_flags.defaults(*_FLAG_MODULES),
        )

    def run(self):
        """Runs what is missing; reports after each repetition.

        Returns:
            results: Dict from system to a list of its results. Those that an
                earlier start has found are among them.

        Raises:
            ValueError: If all systems failed in all repetitions.
        """
        results = {name: [] for name in compare_systems.SYSTEMS}
        failures = {}
        for number in range(FLAGS.seeds):
            run = compare_run.Run(
                number, compare_data.load(number), self._folder
            )
            for name, of_system in results.items():
                if name not in self._names:
                    result = run.stored(name)
                elif name in self._reasons:
                    continue
                else:
                    result = self._try(run, name, number, failures)
                if result is not None:
                    of_system.append(result)
            self._report(results, failures, number + 1)
        found = {name: runs for name, runs in results.items() if runs}
        if not found:
            raise ValueError(f"All of --methods failed. {_told(failures)}")
        return found

    def _try(self, run, name, number, failures):
        """Returns a result, or `None`, and keeps why."""
        try:
            return run.result(name)
        except Exception as error:  # of any kind: others go on
            if isinstance(error.__context__, KeyboardInterrupt):
                raise
            logging.error("%s failed: %s", name, error)
            failures.setdefault(name, {})[number] = _one_line(error)
            return None

    def _report(self, results, failures, seeds):
        found = {name: runs for name, runs in results.items() if runs}
        self._folder.write_results(
            metrics={
                name: [
                    {k: v for k, v in one.items() if isinstance(v, float)}
                    for one in of_seeds
                ]
                for name, of_seeds in found.items()
            },
            not_applied=self._reasons,
            failures=failures,
        )
        report = compare_report.Report(
            found,
            self._reasons,
            failures,
            compare_report.Setting(
                flags=self._flags,
                seeds=seeds,
                num_weights=self._num_weights,
                num_train=self._sizes[0],
                num_test=self._sizes[1],
            ),
        )
        report.write(self._folder.path, figures.can_plot())
        print(f"\n{report.summary()}")
        print(f"Report: {self._folder.path / 'report.html'}", flush=True)


def _one_line(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:500]


def _told(failures):
    return " ".join(
        f"{name}: {next(iter(of_system.values()))}"
        for name, of_system in failures.items()
    )


def _decisive(values):
    """Returns the flags that decide all results: not those of systems."""
    others = {
        "download",
        "kind",
        "methods",
        "num_samples",
        "seeds",
        *run_flags.INCIDENTAL,
        *refinement_flags.INCIDENTAL,
        *shift_flags.EVALUATION,
        *(
            flag
            for name in compare_systems.SYSTEMS
            for flag in compare_systems.flags_of(name)
        ),
    }
    return {name: v for name, v in values.items() if name not in others}


if __name__ == "__main__":
    app.run(main)
