"""Baselines of the comparison: ensembles, averages and samples of weights."""

from absl import flags

from tfp_refine import ensembles
from tfp_refine import sampling
from tfp_refine.experiments import compare_networks
from tfp_refine.experiments import fitted

FLAGS = flags.FLAGS


def why_no_temperature(run):
    """Returns why logits cannot be scaled, or `None`."""
    if run.data.num_classes is None:
        return "Temperature scaling is for logits, and this is a regression."
    return None


def temperature(run, name, directory, trained):
    """Scales the logits of a trained network."""
    del name, directory
    scaled = ensembles.TemperatureScaling(trained.model)
    scaled.fit(*run.data.validation)
    return trained._replace(
        draws=lambda x: scaled.predict(x, 1),
        num_numbers=trained.num_numbers + 1,
        posterior=scaled,
        about={"temperature": scaled.temperature},
        history=None,
        seconds=None,
    )


def deep_ensemble(run, name, directory):
    """Trains a deep ensemble, of the same steps for each member."""
    num_examples = len(run.data.train[1])
    steps = FLAGS.train_steps
    epsilon = None
    if name == "deep_ensemble_adversarial":
        epsilon = FLAGS.adversarial_epsilon
    ensemble = ensembles.deep_ensemble(
        compare_networks.build("map", run.data, run.seed(0), steps),
        *run.data.train,
        num_members=FLAGS.num_members,
        steps=steps,
        batch_size=min(FLAGS.batch_size, num_examples),
        learning_rate=FLAGS.learning_rate,
        learning_rate_decay="cosine",
        adversarial_epsilon=epsilon,
        checkpoint_dir=directory,
        seed=run.seed(4),
        verbose=int(FLAGS.progress),
    )
    return _of_points(ensemble, ensemble.params, FLAGS.num_members * steps)


def swag(run, name, directory, start):
    """Fits Gaussians to gradient descent from trained weights."""
    del name
    num_examples = len(run.data.train[1])
    batch_size = min(FLAGS.batch_size, num_examples)
    begin = start.posterior if start.model is None else start.model
    posterior = ensembles.swag(
        begin,
        *run.data.train,
        num_snapshots=FLAGS.swag_snapshots,
        rank=FLAGS.swag_rank,
        batch_size=batch_size,
        learning_rate=FLAGS.sgd_learning_rate,
        loss=run.loss,
        checkpoint_dir=directory,
        seed=run.seed(5),
        verbose=int(FLAGS.progress),
    )
    steps = FLAGS.swag_snapshots * max(1, num_examples // batch_size)
    gaussians = getattr(posterior, "members", (posterior,))
    return fitted.Fitted(
        lambda x: posterior.predict(x, FLAGS.num_samples, seed=run.seed(1)),
        start.num_steps + len(gaussians) * steps,
        sum(
            array.size
            for one in gaussians
            for array in (one.loc, *one.covariance.arrays().values())
        ),
        posterior=posterior,
    )


def cyclical_sghmc(run, name, directory, start):
    """Samples weights in cycles, from trained ones."""
    del name
    num_examples = len(run.data.train[1])
    steps = FLAGS.train_steps
    batch_size = min(FLAGS.batch_size, num_examples)
    per_cycle = max(1, steps // FLAGS.cycles)
    posterior = sampling.cyclical_sghmc(
        start.model,
        *run.data.train,
        num_cycles=FLAGS.cycles,
        samples_per_cycle=FLAGS.samples_per_cycle,
        steps_per_cycle=per_cycle,
        # Noise is in the last steps of a cycle, and not in most of it.
        steps_per_sample=max(
            1,
            min(
                num_examples // batch_size,
                per_cycle // (2 * FLAGS.samples_per_cycle),
            ),
        ),
        batch_size=batch_size,
        learning_rate=FLAGS.sgd_learning_rate,
        momentum=0.9,  # as of SWAG, whose rate it has
        temperature=FLAGS.temperature,
        loss=run.loss,
        checkpoint_dir=directory,
        seed=run.seed(6),
        verbose=int(FLAGS.progress),
    )
    return _of_points(
        posterior,
        posterior.samples,
        start.num_steps + FLAGS.cycles * per_cycle,
    )


def _of_points(posterior, points, num_steps):
    """Returns a posterior of points `[M, P]`, each of which is drawn once."""
    return fitted.Fitted(
        lambda x: posterior.predict(x, len(points), seed=0),
        num_steps,
        points.size,
        posterior=posterior,
    )
