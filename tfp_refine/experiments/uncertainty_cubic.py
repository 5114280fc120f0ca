"""Regression on 20 points of a cubic function."""

import keras
import numpy as np
from absl import flags

from tfp_refine import functional
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import posteriors
from tfp_refine.experiments import posterior_record
from tfp_refine.experiments import training
from tfp_refine.experiments import uncertainty_flags
from tfp_refine.experiments import uncertainty_models

FLAGS = flags.FLAGS
_POINTS, _REACH, _NOISE = 20, 4.0, 3.0
_GRID = np.linspace(-6.0, 6.0, 241)
# More draws, which cost nothing here: bands are smoother.
_DRAWS_FACTOR = 10
# Where the paper's figure ends: far from the points.
_FAR = 6.0


class Cubic:
    """The task "cubic": `y = x**3 + e`, `e ~ N(0, 3**2)`, x in [-4, 4].

    The noise is known. Inputs are standardized, and targets scaled.
    """

    def __init__(self):
        rng = np.random.default_rng([FLAGS.seed, 2])
        self.x = rng.uniform(-_REACH, _REACH, _POINTS)
        self.y = self.x**3 + _NOISE * rng.normal(size=_POINTS)
        self.grid, self.truth = _GRID, _GRID**3
        for method in uncertainty_flags.methods():
            self._build(method)

    def run(self, folder, method):
        """Trains a method.

        Args:
            folder: `record.Folder`.
            method: Name of a method.

        Returns:
            result: Dict of the predictive `"mean"` and `"scale"` (standard
                deviation, noise included) on the grid, and of
                `"scale_at_data"` and `"scale_far"`, their means within and at
                the ends.
        """
        trained = training.train(
            self._build(method),
            self._inputs(self.x),
            (self.y / self.y.std())[:, None].astype("float32"),
            steps=FLAGS.cubic_steps,
            batch_size=_POINTS,
            seed=functional.seeds.key(FLAGS.seed, 2),
            directory=folder.path
            / uncertainty_flags.record_name("cubic", method),
            segment_steps=FLAGS.checkpoint_steps,
            tensorboard=FLAGS.tensorboard,
            verbose=int(FLAGS.progress),
        )
        draws = self.y.std() * posteriors.predict(
            trained.model,
            self._inputs(_GRID),
            1 if method == "map" else _DRAWS_FACTOR * FLAGS.num_samples,
            seed=FLAGS.seed,
        )[..., 0].astype("float64")
        scale = np.sqrt(draws.var(axis=0) + _NOISE**2)
        inside = np.abs(_GRID) <= _REACH
        return {
            "rmse_at_data": float(
                np.sqrt(np.mean((draws.mean(0) - self.truth)[inside] ** 2))
            ),
            "scale_at_data": float(scale[inside].mean()),
            "scale_far": float(scale[np.abs(_GRID) == _FAR].mean()),
            "mean": draws.mean(axis=0).tolist(),
            "scale": scale.tolist(),
            **posterior_record.about(trained),
        }

    def _inputs(self, x):
        return ((x - self.x.mean()) / self.x.std())[:, None].astype("float32")

    def _build(self, method):
        if method == "map":
            layer = keras.layers.Dense
            # As in a loss that is a mean over the examples.
            decay = 0.5 / (_POINTS * FLAGS.prior_scale**2)
            penalty = keras.regularizers.L2(decay)
            arguments = {
                "kernel_regularizer": penalty,
                "bias_regularizer": penalty,
            }
        else:
            # Far away nothing should bound the scale.
            _, layer = uncertainty_models.layer_classes(method, max_std=None)
            arguments = uncertainty_models.layer_arguments(_POINTS)
        model = models.MLP(
            (1,),
            hidden=(FLAGS.cubic_units,),
            layer=layer,
            seed=FLAGS.seed,
            **arguments,
        )
        model.compile(
            optimizer=keras.optimizers.Adam(FLAGS.learning_rate),
            loss=losses.GaussianNLL(_NOISE / self.y.std()),
            jit_compile=False,
        )
        return model
