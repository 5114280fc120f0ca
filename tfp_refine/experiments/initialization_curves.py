"""How fast training goes from each initialization."""

import time

from absl import flags

from tfp_refine import functional
from tfp_refine.experiments import initialization_data
from tfp_refine.experiments import initialization_flags
from tfp_refine.experiments import initialization_models
from tfp_refine.experiments import posterior_record
from tfp_refine.experiments import training

FLAGS = flags.FLAGS


class Curves:
    """The task "curves"."""

    def __init__(self):
        self.source = initialization_data.Source()
        for method in initialization_flags.methods():
            self._build(self.source.split(0), method, seed=0)

    def run(self, folder, method, number):
        """Trains a method on a split.

        Args:
            folder: `record.Folder`.
            method: Name of a method.
            number: Number of the split.

        Returns:
            result: Dict of the `"curve"`, lists of `"step"`, `"error"` and
                `"mnll"` on test data, from before training on; `"entropies"`
                after it; and the `"initialization_seconds"`. Or of a message,
                `"diverged"`.
        """
        case = self.source.split(number)
        x, y = case.train
        seed = functional.seeds.key(FLAGS.seed, number)
        model = self._build(case, method, seed)
        started = time.monotonic()
        initialization_models.initialize(method, model, x, y, seed)
        seconds = time.monotonic() - started
        start = {"step": 0, **case.evaluate(model, seed)}
        try:
            trained = training.train(
                model,
                x,
                y,
                steps=FLAGS.train_steps,
                batch_size=FLAGS.batch_size,
                seed=seed,
                directory=folder.path / self.record_name(method, number),
                segment_steps=FLAGS.train_steps // FLAGS.evaluations,
                observe=lambda model, entry: case.evaluate(model, seed),
                tensorboard=FLAGS.tensorboard,
                verbose=int(FLAGS.progress),
            )
        except FloatingPointError as error:
            return {"diverged": str(error)}
        result = {
            "curve": {
                key: [entry[key] for entry in (start, *trained.history)]
                for key in ("step", "error", "mnll")
            },
            "initialization_seconds": seconds,
            **posterior_record.about(trained),
        }
        if case.num_outputs:
            result["entropies"] = case.entropies(trained.model, seed)
        return result

    def record_name(self, method, number):
        """Returns the name of a record."""
        return initialization_flags.record_name(
            "curves", method, number, self.source.digest
        )

    def _build(self, case, method, seed):
        x, _ = case.train
        return initialization_models.build(
            method, x.shape[1:], case.num_outputs, len(x), seed
        )
