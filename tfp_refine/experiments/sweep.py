"""Several runs of one experiment, and what they come to together."""

import pathlib

from absl import flags

from tfp_refine.experiments import record

FLAGS = flags.FLAGS


class Sweep:
    """An experiment for each of several settings of some flags.

    Each has a folder of its own below --output_dir, and can be continued there.
    All of them are checked before any is run.

    Args:
        make_experiment: Function that checks the flags, and returns an object
            with a method `run`, that returns a result.
        settings: Dict from a name of each experiment, and of its folder, to a
            dict of its flags.
        finish: Function of the folder and the dict of results, called at the
            end; it returns what the record holds.
    """

    def __init__(self, make_experiment, settings, folder, finish):
        self._folder = pathlib.Path(folder)
        self._finish = finish
        given = _values()
        self._experiments = {}
        for name, changes in settings.items():
            # Flags that are filled in depend on the others.
            _set(given | changes | {"output_dir": str(self._folder / name)})
            self._experiments[name] = (make_experiment(), _values())
        _set(given)

    def run(self):
        """Runs what is missing of each, and then what compares them."""
        results = {}
        for number, (name, (experiment, values)) in enumerate(
            self._experiments.items()
        ):
            print(f"\n{name} ({number + 1} of {len(self._experiments)})")
            _set(values)
            results[name] = experiment.run()
        record.write(
            self._folder / "results.json", self._finish(self._folder, results)
        )
        print(f"\nRecord: {self._folder / 'results.json'}")


def _values():
    return {name: FLAGS[name].value for name in FLAGS}


def _set(values):
    for name, value in values.items():
        if FLAGS[name].value is not value:
            FLAGS[name].value = value
