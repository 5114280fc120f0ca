"""Several runs of one experiment, and what they come to together."""

import pathlib

from absl import flags

from tfp_refine.experiments import record

FLAGS = flags.FLAGS


class Sweep:
    """An experiment for each of several settings of some flags.

    Each has a folder of its own below --output_dir, and can be continued there;
    what compares them is in the folder `comparison`. All of them are checked
    before any is run.

    Args:
        make_experiment: Function that checks the flags, and returns an object
            with a method `run`, that returns a result.
        settings: Dict from a name of each experiment, and of its folder, to a
            dict of its flags.
        folder: --output_dir.
        finish: Function of a folder and the dict of results, called at the end;
            it returns what the record holds.
    """

    def __init__(self, make_experiment, settings, folder, finish):
        self._make_experiment = make_experiment
        self._folder = pathlib.Path(folder)
        self._finish = finish
        given = _values()
        # Flags that are filled in depend on the others: each starts from these.
        self._flags = {
            name: given | changes | {"output_dir": str(self._folder / name)}
            for name, changes in settings.items()
        }
        for values in self._flags.values():
            _set(values)
            make_experiment()  # for its errors; the data would take memory
        _set(given)

    def run(self):
        """Runs what is missing of each, and then what compares them."""
        results = {}
        for number, (name, values) in enumerate(self._flags.items()):
            print(f"\n{name} ({number + 1} of {len(self._flags)})")
            _set(values)
            results[name] = self._make_experiment().run()
        folder = self._folder / "comparison"
        folder.mkdir(exist_ok=True)
        path = folder / "results.json"
        record.write(path, self._finish(folder, results))
        print(f"\nRecord: {path}")


def _values():
    return {name: FLAGS[name].value for name in FLAGS}


def _set(values):
    for name, value in values.items():
        if FLAGS[name].value is not value:
            FLAGS[name].value = value
