"""Networks that are trained, and refined, for the comparison."""

import time

import numpy as np
from absl import flags

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine.experiments import compare_networks
from tfp_refine.experiments import fitted
from tfp_refine.experiments import refinement_flags
from tfp_refine.experiments import training

FLAGS = flags.FLAGS
# Points of the learning curves.
_NUM_SEGMENTS = 10


def network(run, name, directory):
    """Trains a network, resumably.

    Args:
        run: `compare_run.Run`.
        name: Name of the network.
        directory: Folder of its training.

    Returns:
        fitted: `fitted.Fitted`.
    """
    steps = FLAGS.train_steps
    begin = time.monotonic()
    model = compare_networks.build(name, run.data, run.seed(0), steps)
    built = time.monotonic() - begin  # initialized, too
    return _trained(run, name, model, steps, directory, built)


def longer(run, name, directory, vi):
    """Trains a mean-field posterior on, for the steps of its refinement."""
    ratios = refinement_flags.variance_ratios()
    steps = FLAGS.num_members * len(ratios) * FLAGS.steps
    model = compare_networks.build("vi", run.data, run.seed(0), steps)
    model.set_weights(vi.model.get_weights())
    more = _trained(run, name, model, steps, directory, 0.0)
    # Its curve would begin where others end.
    return more._replace(num_steps=vi.num_steps + steps, history=None)


def refined(run, name, directory, vi):
    """Refines a mean-field posterior."""
    del name
    ratios = refinement_flags.variance_ratios()
    ensemble = refinement.refine(
        vi.model,
        *run.data.train,
        variance_ratios=ratios,
        batch_size=min(FLAGS.batch_size, len(run.data.train[1])),
        checkpoint_dir=directory,
        seed=run.seed(2),
        **refinement_flags.options(),
    )
    return fitted.Fitted(
        lambda x: posteriors.predict(
            ensemble, x, FLAGS.num_samples, seed=run.seed(1)
        ),
        vi.num_steps + FLAGS.num_members * len(ratios) * FLAGS.steps,
        FLAGS.num_members * vi.num_numbers,
        posterior=ensemble,
        about={"elbo": float(np.mean(ensemble.elbo_final))},
    )


def _trained(run, name, model, steps, directory, built):
    segment_steps = max(1, -(-steps // _NUM_SEGMENTS))
    trained = training.train(
        model,
        *run.data.train,
        steps=steps,
        batch_size=min(FLAGS.batch_size, len(run.data.train[1])),
        seed=run.seed(3),
        directory=directory,
        segment_steps=segment_steps,
        validation_data=run.data.validation,
        tensorboard=FLAGS.tensorboard,
        verbose=int(FLAGS.progress),
    )
    num_draws = 1 if name == "map" else FLAGS.num_samples
    model = trained.model
    return fitted.Fitted(
        lambda x: posteriors.predict(model, x, num_draws, seed=run.seed(1)),
        steps,
        functional.WeightView(model).size,
        model=model,
        history=trained.history,
        seconds=built + sum(entry["seconds"] for entry in trained.history),
    )
