"""Regression on a function of one variable, before training and after it."""

import numpy as np
from absl import flags

from tfp_refine import functional
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine.experiments import initialization_flags
from tfp_refine.experiments import initialization_models
from tfp_refine.experiments import posterior_record
from tfp_refine.experiments import training

FLAGS = flags.FLAGS
_REACH, _NOISE = 10.0, float(np.exp(-2.0))
_GRID = np.linspace(-14.0, 14.0, 281)


def function(x):
    """The function of Rossi et al., 2019."""
    return np.sin(x) + np.sin(x / 2) + np.sin(x / 3) - np.sin(x / 4)


class Toy:
    """The task "toy": `y = f(x) + e`, `e ~ N(0, exp(-2)**2)`, x in [-10, 10].

    Inputs and targets are standardized.
    """

    def __init__(self):
        rng = np.random.default_rng([FLAGS.seed, 3])
        self.x = rng.uniform(-_REACH, _REACH, FLAGS.toy_points)
        self.y = function(self.x) + _NOISE * rng.normal(size=self.x.size)
        self.grid, self.truth = _GRID, function(_GRID)

    def run(self, folder, method):
        """Initializes and trains a network.

        Args:
            folder: `record.Folder`.
            method: Name of a method.

        Returns:
            result: Dict of predictions `"before"` and `"after"` training, each
                a dict of the `"mean"` and `"scale"` (standard deviation, with
                that of the noise) on the grid, and of the `"rmse"` from the
                function within the data.
        """
        x, y = self._inputs(self.x), (self.y - self.y.mean()) / self.y.std()
        y = y[:, None].astype("float32")
        seed = functional.seeds.key(FLAGS.seed, 3)
        model = initialization_models.build(
            method, (1,), None, len(x), seed, task="toy"
        )
        initialization_models.initialize(method, model, x, y, seed)
        before = self._predict(model)
        trained = training.train(
            model,
            x,
            y,
            steps=FLAGS.toy_steps,
            batch_size=min(FLAGS.batch_size, len(x)),
            seed=seed,
            directory=folder.path / self.record_name(method),
            tensorboard=FLAGS.tensorboard,
            verbose=int(FLAGS.progress),
        )
        return {
            "before": before,
            "after": self._predict(trained.model),
            **posterior_record.about(trained),
        }

    def record_name(self, method):
        """Returns the name of a record."""
        return initialization_flags.record_name("toy", method)

    def _inputs(self, x):
        return ((x - self.x.mean()) / self.x.std())[:, None].astype("float32")

    def _predict(self, model):
        draws = posteriors.predict(
            model, self._inputs(_GRID), FLAGS.num_samples, seed=FLAGS.seed
        )
        loc, noise = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
        loc, noise = (np.asarray(v, np.float64)[..., 0] for v in (loc, noise))
        mean = self.y.mean() + self.y.std() * loc.mean(axis=0)
        variance = loc.var(axis=0) + np.square(noise).mean(axis=0)
        inside = np.abs(_GRID) <= _REACH
        return {
            "mean": mean.tolist(),
            "scale": (self.y.std() * np.sqrt(variance)).tolist(),
            "rmse": float(
                np.sqrt(np.mean(np.square(mean - self.truth)[inside]))
            ),
        }
