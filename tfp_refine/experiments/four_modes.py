"""Refinement of a posterior with one weight and four modes.

Fits the best Gaussian to the posterior, refines it, and prints the bounds
ELBO_init <= ELBO_aux <= ELBO_ref <= log Z, of which the last two come from
numerical integration over the weight. With matplotlib, plots the densities.

  python -m tfp_refine.experiments.four_modes

Reference: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Figure 3. The
paper's data are not given; this target matches its bounds closely.
"""

import importlib.util
import sys

import keras
import numpy as np
from absl import app
from absl import flags
from scipy import stats

from tfp_refine import layers
from tfp_refine import refinement
from tfp_refine.experiments import record
from tfp_refine.math import variance_schedule

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "output_dir", "results/four_modes", "Folder for results.json and the plot."
)
flags.DEFINE_integer("num_members", 200, "Members of the ensemble.", 2)
flags.DEFINE_list(
    "variance_ratios", ["0.8"], "One for each auxiliary variable."
)
flags.DEFINE_integer("steps", 400, "Steps for each auxiliary variable.", 1)
flags.DEFINE_float("learning_rate", 0.1, "Adam's, decayed to zero.", 0)
flags.DEFINE_integer("seed", 0, "Fixes all draws.", 0)

CENTERS = 1.15 * np.array([-1.5, -0.5, 0.5, 1.5])
HEIGHTS = np.array([0.7, 1.0, 0.8, 0.6])
WIDTH = 0.17
FLOOR = 0.015
GRID = np.linspace(-6.0, 6.0, 24001)

# The Gaussian with the largest bound, by numerical integration.
BEST_LOC, BEST_SCALE = -0.0545, 0.8704


def likelihood(w):
    """Computes the likelihood `[...]` of a weight `[...]`."""
    bumps = np.exp(-0.5 * ((np.asarray(w)[..., None] - CENTERS) / WIDTH) ** 2)
    return FLOOR + bumps @ HEIGHTS


def negative_log_likelihood(y_true, y_pred):
    """The same as a Keras loss, of a model that outputs its weight."""
    distance = (y_pred - keras.ops.cast(CENTERS, y_pred.dtype)) / WIDTH
    bumps = keras.ops.exp(-0.5 * keras.ops.square(distance))
    heights = keras.ops.cast(HEIGHTS, y_pred.dtype)
    return -keras.ops.log(FLOOR + keras.ops.sum(heights * bumps, axis=-1))


def mean_field_model():
    """Builds a model with one weight, at the best Gaussian posterior."""
    inputs = keras.Input((1,))
    layer = layers.DenseReparameterization(
        1, use_bias=False, num_train_examples=1
    )
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss=negative_log_likelihood)
    (weight,) = layer.variational_weights
    weight.assign(loc=[[BEST_LOC]], scale=[[BEST_SCALE]])
    return model


def data():
    """Returns the one example: the model's output is its weight."""
    return np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)


def log_evidence():
    """Computes `log Z` by numerical integration."""
    return float(np.log(_integral(likelihood(GRID) * stats.norm.pdf(GRID))))


def bound(density):
    """Computes the bound of a posterior density `[G]` on the grid."""
    joint = np.log(likelihood(GRID)) + stats.norm.logpdf(GRID)
    inside = density > 0
    value = np.zeros_like(density)
    value[inside] = density[inside] * (joint[inside] - np.log(density[inside]))
    return float(_integral(value))


def mixture(ensemble):
    """Computes the refined posterior's density on the grid, `[G]`."""
    q = ensemble.posterior  # [M, 1]
    return np.mean(stats.norm.pdf(GRID, q.loc, q.scale), axis=0)


def _integral(values):
    return np.trapezoid(values, GRID)


def main(argv):
    """Runs the experiment that the flags describe."""
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        ratios = variance_schedule.check_ratios(FLAGS.variance_ratios)
        values = {
            flag.name: flag.value
            for flag in FLAGS.get_flags_for_module(sys.modules[__name__])
            if flag.name != "output_dir"
        }
        folder = record.Folder(FLAGS.output_dir, values, decisive=values)
    except ValueError as error:
        sys.exit(f"four_modes: {error}")
    ensemble = refinement.refine(
        mean_field_model(),
        *data(),
        num_members=FLAGS.num_members,
        variance_ratios=ratios,
        steps=FLAGS.steps,
        learning_rate=FLAGS.learning_rate,
        learning_rate_decay="linear",
        num_eval_samples=1000,
        seed=FLAGS.seed,
    )
    refined = mixture(ensemble)
    mean_field = stats.norm.pdf(GRID, BEST_LOC, BEST_SCALE)
    elbo_aux = ensemble.elbo_aux
    bounds = {
        "elbo_init": bound(mean_field),
        "elbo_aux": float(elbo_aux.mean()),
        "elbo_aux_standard_error": float(
            elbo_aux.std(ddof=1) / np.sqrt(len(elbo_aux))
        ),
        "elbo_ref": bound(refined),
        "log_evidence": log_evidence(),
    }
    folder.write_results(metrics={"refined_vi": bounds})
    for name, value in bounds.items():
        print(f"{name:24s} {value:8.4f}")
    if importlib.util.find_spec("matplotlib") is not None:
        from tfp_refine import plotting

        exact = likelihood(GRID) * stats.norm.pdf(GRID)
        figure = plotting.densities(
            GRID,
            {
                "posterior": exact / _integral(exact),
                "mean-field VI": mean_field,
                f"refined, {ensemble.num_members} members": refined,
            },
        )
        figure.savefig(folder.path / "four_modes.png", dpi=150)
        print(f"Plot: {folder.path / 'four_modes.png'}")


if __name__ == "__main__":
    app.run(main)
