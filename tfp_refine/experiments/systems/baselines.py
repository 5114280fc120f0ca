"""Systems that start from networks of point estimates."""

from tfp_refine import ensembles
from tfp_refine import sampling
from tfp_refine.experiments.systems import fitted
from tfp_refine.experiments.systems import networks


def why_no_temperature(fit):
    """Returns why logits cannot be scaled, or `None`."""
    if fit.data.is_regression:
        return "Temperature scaling is for logits, and this is a regression."
    if not len(fit.data.validation[1]):
        return "Temperature scaling needs a --validation_fraction."
    return None


def scale_temperature(fit, start):
    """Scales the logits of a trained network."""
    scaled = ensembles.TemperatureScaling(start.model)
    scaled.fit(*fit.data.validation)
    return start._replace(
        draws=fitted.predictive(scaled, 1, 0),
        num_numbers=start.num_numbers + 1,
        posterior=scaled,
        diagnostics={"temperature": scaled.temperature},
        history=None,
        seconds=None,
    )


def why_no_ensemble(fit):
    """Returns why a deep ensemble cannot be trained, or `None`."""
    if fit.config.learning_rate_schedule == "step":
        return "A deep ensemble has no --learning_rate_schedule=step."
    is_adversarial = fit.expression.name == "adversarial_ensemble"
    if is_adversarial and fit.data.train[0].dtype.kind != "f":
        return (
            "Only inputs of floating point numbers can be adversarial. "
            "deep_ensemble is without these."
        )
    return None


def deep_ensemble(fit):
    """Trains a deep ensemble, of the same steps for each member."""
    config, data, epsilon = fit.config, fit.data, None
    if fit.expression.name == "adversarial_ensemble":
        epsilon = config.adversarial_epsilon
    steps = config.train_steps
    model = networks.build(fit.network, config, data, fit.seed("weights"))
    networks.compile_network(model, config, data, steps)
    ensemble = ensembles.deep_ensemble(
        model,
        *data.train,
        num_members=config.num_members,
        steps=steps,
        batch_size=config.batch_size,
        learning_rate=config.learning_rate,
        learning_rate_decay=config.learning_rate_schedule,
        adversarial_epsilon=epsilon,
        checkpoint_dir=fit.directory,
        seed=fit.seed("ensemble"),
        verbose=config.verbose,
    )
    return _of_points(ensemble, ensemble.params, config.num_members * steps)


def swag(fit, start):
    """Fits Gaussians to gradient descent from trained weights."""
    config = fit.config
    posterior = ensembles.swag(
        start.posterior if start.model is None else start.model,
        *fit.data.train,
        num_snapshots=config.swag_snapshots,
        rank=config.swag_rank,
        batch_size=config.batch_size,
        learning_rate=config.sgd_learning_rate,
        checkpoint_dir=fit.directory,
        seed=fit.seed("swag"),
        verbose=config.verbose,
    )
    steps = config.swag_snapshots * _per_epoch(fit)
    gaussians = getattr(posterior, "members", (posterior,))
    return fitted.Fitted(
        fitted.predictive(
            posterior, config.num_samples, fit.seed("predictions")
        ),
        start.num_steps + len(gaussians) * steps,
        sum(
            array.size
            for one in gaussians
            for array in (one.loc, *one.covariance.arrays().values())
        ),
        posterior=posterior,
    )


def cyclical_sghmc(fit, start):
    """Samples weights in cycles, from trained ones."""
    config = fit.config
    per_cycle = max(
        config.samples_per_cycle, config.train_steps // config.cycles
    )
    posterior = sampling.cyclical_sghmc(
        start.model,
        *fit.data.train,
        num_cycles=config.cycles,
        samples_per_cycle=config.samples_per_cycle,
        steps_per_cycle=per_cycle,
        # Noise is in the last steps of a cycle, and not in most of it.
        steps_per_sample=max(
            1, min(_per_epoch(fit), per_cycle // (2 * config.samples_per_cycle))
        ),
        batch_size=config.batch_size,
        learning_rate=config.sgd_learning_rate,
        momentum=0.9,  # as of SWAG, whose rate it has
        temperature=config.temperature,
        checkpoint_dir=fit.directory,
        seed=fit.seed("csghmc"),
        verbose=config.verbose,
    )
    return _of_points(
        posterior,
        posterior.samples,
        start.num_steps + config.cycles * per_cycle,
    )


def _of_points(posterior, points, num_steps):
    """Returns a posterior of points `[M, P]`, each of which is drawn once."""
    return fitted.Fitted(
        fitted.predictive(posterior, len(points), 0),
        num_steps,
        points.size,
        posterior=posterior,
    )


def _per_epoch(fit):
    return max(1, len(fit.data.train[1]) // fit.config.batch_size)
