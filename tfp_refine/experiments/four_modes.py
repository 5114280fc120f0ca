"""Refinement of a posterior with one weight and four modes.

Fits the best Gaussian to the posterior, refines it, and prints the bounds
ELBO_init <= ELBO_aux <= ELBO_ref <= log Z, of which the last two come from
numerical integration over the weight. With matplotlib, plots the densities.

  python -m tfp_refine.experiments.four_modes

Reference: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Figure 3. The
paper's data are not given; this target matches its bounds closely.
"""

import sys

import numpy as np
from absl import app
from absl import flags
from scipy import stats

from tfp_refine import refinement
from tfp_refine.experiments import figures
from tfp_refine.experiments import four_modes_target as target
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
        target.mean_field_model(),
        *target.data(),
        num_members=FLAGS.num_members,
        variance_ratios=ratios,
        steps=FLAGS.steps,
        learning_rate=FLAGS.learning_rate,
        learning_rate_decay="linear",
        num_eval_samples=1000,
        seed=FLAGS.seed,
    )
    refined = target.mixture(ensemble)
    mean_field = stats.norm.pdf(target.GRID, target.BEST_LOC, target.BEST_SCALE)
    elbo_final = ensemble.elbo_final
    bounds = {
        "elbo_init": target.bound(mean_field),
        "elbo_aux": float(elbo_final.mean()),
        "elbo_aux_standard_error": float(
            elbo_final.std(ddof=1) / np.sqrt(len(elbo_final))
        ),
        "elbo_ref": target.bound(refined),
        "log_evidence": target.log_evidence(),
    }
    folder.write_results(metrics={"refined_vi": bounds})
    for name, value in bounds.items():
        print(f"{name:24s} {value:8.4f}")
    if figures.can_plot():
        from tfp_refine import plotting

        exact = target.likelihood(target.GRID) * stats.norm.pdf(target.GRID)
        axes = plotting.densities(
            target.GRID,
            {
                "posterior": exact / target.integral(exact),
                "mean-field VI": mean_field,
                f"refined, {ensemble.num_members} members": refined,
            },
        )
        figures.save(folder.path, {"four_modes": axes})


if __name__ == "__main__":
    app.run(main)
