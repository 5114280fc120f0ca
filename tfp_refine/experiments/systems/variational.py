"""Networks that are trained, and variational posteriors that are refined."""

import functools
import time
from typing import Any

import keras
import numpy as np

from tfp_refine import distribute
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import posteriors
from tfp_refine import recipes
from tfp_refine import refinement
from tfp_refine import regularizers
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder
from tfp_refine.experiments.harness import training
from tfp_refine.experiments.systems import fitted
from tfp_refine.experiments.systems import held_out
from tfp_refine.experiments.systems import laplace
from tfp_refine.experiments.systems import networks

# The initialized network, in the folder of a fit.
_START = "start.keras"
# Default steps for each auxiliary variable, and those of an ensemble of mlps.
_STEPS, _ENSEMBLE_STEPS = 200, 1000


def train(fit):
    """Trains a network, resumably."""
    begin = time.monotonic()
    config, data = fit.config, fit.data
    if networks.is_file(config):
        model = networks.build(fit.network, config, data, fit.seed("weights"))
        networks.compile_network(model, config, data, config.train_steps)
        return fitted.Fitted(
            fit.predictive(model),
            0,
            functional.WeightView(model).size,
            model=model,
            seconds=0.0,
        )
    model, _ = initialized(fit)
    return _trained(fit, model, config.train_steps, begin)


def initialized(fit: Any) -> tuple[keras.Model, float]:
    """Makes a network as its training starts, and keeps it if that takes long.

    Returns:
        model: The network, compiled.
        seconds: Those that its posteriors took to be initialized.

    Raises:
        ValueError: If a file of it is damaged, or belongs to another network.
    """
    config, data, seed = fit.config, fit.data, fit.seed("weights")
    model = networks.build(fit.network, config, data, seed)
    _compile(fit, model, config.train_steps)
    if fit.network.initializer is None:
        return model, 0.0
    path = fit.directory / _START
    record = path.with_suffix(".json")
    if record.exists():
        training.load(path, model, data.train[0][:2])
        return model, folder.read_record(record)["seconds"]
    begin = time.monotonic()
    networks.initialize(fit.network, config, model, data, seed)
    seconds = time.monotonic() - begin
    model.optimizer.build(model.trainable_variables)  # to be loaded with it
    training.save(model, path)
    folder.write_record(record, {"seconds": seconds})
    return model, seconds


def train_longer(fit, start):
    """Trains a network on for as long as its refinement, resumably."""
    config = fit.config
    steps = config.num_members * len(variance_ratios(config))
    return _train_on(fit, start, steps * (config.refine_steps or _STEPS))


def train_on(fit, start):
    """Trains a network for as many steps again, resumably."""
    return _train_on(fit, start, fit.config.train_steps)


def _train_on(fit, start, steps):
    begin = time.monotonic()
    model = networks.build(
        fit.network, fit.config, fit.data, fit.seed("weights")
    )
    _compile(fit, model, steps)
    model.set_weights(start.model.get_weights())
    if fit.network.family == "ivon":
        model.optimizer.build(model.trainable_variables)
        precisions = _precisions(start.model)
        for slot, trained in zip(_precisions(model), precisions, strict=True):
            slot.assign(trained)
        # Learning rates are relative to the precision at the start; the limit
        # of a step stays.
        logs = [np.log(precision).ravel() for precision in precisions]
        typical = float(np.exp(np.mean(np.concatenate(logs))))
        optimizer = model.optimizer
        optimizer.clip_radius *= optimizer.hessian_init / typical
        optimizer.hessian_init = typical
    return _trained(fit, model, steps, begin, start)


def convert(fit, start):
    """Gives a network posteriors around its weights, and trains these."""
    begin = time.monotonic()
    config = fit.config
    model = models.to_bayesian(
        start.model,
        num_train_examples=len(fit.data.train[0]),
        posterior=layers.MeanFieldPosterior(config.initial_scale),
        initializer=None,
        **_conversion(fit),
    )
    layers.set_kl_scale(model, config.kl_scale)
    _compile(fit, model, config.train_steps)
    return _trained(fit, model, config.train_steps, begin, start)


def _compile(fit, model, steps):
    seed = fit.seed("training")
    networks.compile_network(
        model, fit.config, fit.data, steps, fit.network, seed
    )


def _trained(fit, model, steps, begin, start=None):
    """Trains a compiled model that was begun to be made at a time."""
    config, data, network = fit.config, fit.data, fit.network
    built = time.monotonic() - begin  # initialized, too
    trained = training.train(
        model,
        *data.train,
        steps=steps,
        batch_size=config.batch_size,
        seed=fit.seed("training"),
        directory=fit.directory,
        segment_steps=max(1, -(-steps // config.segments)),
        augment=fit.augmentation,
        validation_data=data.validation if len(data.validation[1]) else None,
        patience=config.early_stopping_patience if start is None else None,
        monitor="val_loss" if data.is_regression else "val_nll",
        observe=fit.observe,
        tensorboard=config.tensorboard,
        callbacks=networks.callbacks_of(network, config),
        name=str(fit.expression),
        verbose=config.verbose,
    )
    model = trained.model
    # The scales of IVON are not in the model.
    vectors = 2 if network.family == "ivon" else 1
    return fitted.Fitted(
        fit.predictive(model),
        steps + (start.num_steps if start else 0),
        vectors * functional.WeightView(model).size,
        model=model,
        history=trained.history,
        seconds=built + sum(entry["seconds"] for entry in trained.history),
    )


def _precisions(model):
    """Lists the variables of IVON that are its posterior's precisions."""
    variables = model.optimizer.variables
    return [v for v in variables if v.path.endswith("_precision")]


def refine(fit, start):
    """Refines a mean-field posterior, or Laplace's approximation."""
    if start.posterior is None:
        return _refined(
            fit,
            start,
            start.model,
            fit.config.num_members * start.num_numbers,
            refine_deterministic=fit.config.refine_deterministic,
        )
    found = _refined(
        fit,
        start,
        start.posterior,
        start.num_numbers,
        refine_deterministic=fit.config.refine_deterministic,
    )
    return found._replace(
        draws=laplace.draws(fit, found.posterior, start.posterior.noise_scale),
        num_numbers=start.num_numbers + found.posterior.params.size,
    )


def refine_ensemble(fit, start):
    """Refines posteriors around trained networks, as candidates say."""
    config, extra_steps, shares, spread = fit.config, 0, None, 1.0
    given, count = fit.expression.argument, fit.config.num_members
    kl_scale = fields.kl_scale(config.member_kl_scale)
    candidates = [
        held_out.Candidate(given, kl_scale, config.member_noise_scale)
    ]
    weights = np.ones(1)
    if kl_scale is None:
        candidates, weights, spread, extra_steps = held_out.choose(fit)
        shares = np.repeat(weights / count, count)
    narrow, starts = [], {given: start}
    for candidate in candidates:
        if candidate.start not in starts:
            starts[candidate.start], _ = fit.repetition.fitted(candidate.start)
            extra_steps += starts[candidate.start].num_steps
        raw_noise = None
        if candidate.noise_scale is not None:
            loss = losses.HeteroscedasticGaussianNLL()
            raw_noise = loss.raw_noise(candidate.noise_scale)
        members = recipes.narrow_posteriors(
            starts[candidate.start].posterior,
            np.repeat(candidate.kl_scale, count),
            num_train_examples=len(fit.data.train[0]),
            scale=config.member_scale,
            raw_noise=raw_noise,
            **_conversion(fit),
        )
        narrow.append(members)
    posterior = posteriors.concatenate(narrow)
    scales = np.array([candidate.kl_scale for candidate in candidates])
    found = _refined(
        fit,
        start,
        posterior,
        posterior.params.size,
        kl_scale=np.repeat(scales, count),
        member_weights=shares,
        spread=spread,
        default_steps=_ENSEMBLE_STEPS if config.model == "mlp" else _STEPS,
        # The noise of a regression, which such networks overfit.
        refine_deterministic=True,
    )
    diagnostics = {
        "member_kl_scale": float(np.exp(weights @ np.log(scales))),
        "spread": spread,
    }
    if shares is not None:
        short = [candidate.start != given for candidate in candidates]
        diagnostics["member_short_training"] = float(weights @ short)
    if candidates[0].noise_scale is not None:
        diagnostics["member_noise_scale"] = candidates[0].noise_scale
    return found._replace(
        num_steps=found.num_steps + extra_steps, diagnostics=diagnostics
    )


def _conversion(fit):
    """Returns the arguments of a conversion of networks to Bayesian ones."""
    config = fit.config
    estimator = config.conv_estimator
    if config.model == "mlp":
        estimator = config.dense_estimator
    return {
        "estimator": estimator,
        "regularizer": regularizers.GaussianKL(
            networks.prior_scale(config.prior_scale)
        ),
        "seed": fit.seed("weights"),
    }


def _refined(
    fit,
    start,
    posterior,
    num_numbers,
    *,
    refine_deterministic,
    kl_scale=1.0,
    member_weights=None,
    spread=1.0,
    default_steps=_STEPS,
):
    config = fit.config
    ratios = variance_ratios(config)
    steps = config.refine_steps or default_steps
    num_members = config.num_members
    if member_weights is not None:
        num_members = len(member_weights)
    ensemble = refinement.refine(
        posterior,
        *fit.data.train,
        kl_scale=kl_scale,
        num_members=num_members,
        variance_ratios=ratios,
        steps=steps,
        batch_size=config.batch_size,
        learning_rate=config.refine_learning_rate,
        learning_rate_decay=config.refine_learning_rate_decay,
        refine_deterministic=refine_deterministic,
        num_eval_samples=config.num_eval_samples,
        mapping=config.mapping,
        members_per_batch=config.members_per_batch,
        coordinator=connect() if config.distributed else None,
        checkpoint_dir=fit.directory,
        seed=fit.seed("refinement"),
        verbose=config.verbose,
    )
    if member_weights is not None:
        alive = np.asarray(member_weights)[ensemble.history["members"]]
        ensemble.member_weights = alive / alive.sum()
    ensemble.spread = spread
    ensemble.save(fit.directory / "ensemble.posterior")
    return fitted.Fitted(
        fitted.predictive(
            ensemble, config.num_samples, fit.seed("predictions")
        ),
        start.num_steps + num_members * len(ratios) * steps,
        num_numbers,
        posterior=ensemble,
    )


# The cluster whose chief this process is. TensorFlow loses objects made before
# it connects, so this comes first of all.
connect = functools.cache(distribute.connect)


def why_not_refinable(fit):
    """Returns why a network's posterior cannot be refined, or `None`."""
    reason = why_no_members(fit)
    if reason is not None or fit.expression.argument.name == "converted":
        return reason
    if fit.expression.argument.name in laplace.NAMES:
        return None
    model = networks.build(fit.network, fit.config, fit.data, 0)
    if fit.network.family == "ivon":
        return None
    try:
        functional.MeanFieldView(model).prior()
    except ValueError as error:
        return str(error)
    return None


def why_no_members(fit):
    """Returns why members cannot be drawn alike, or `None`."""
    return why_unequal_draws(fit.config, "num_members")


def why_unequal_draws(config: fields.Bench, name: str) -> str | None:
    """Returns why members or starts, by a field's name, cannot be drawn alike.

    `None` if they can.
    """
    count = getattr(config, name)
    if config.num_samples % count == 0:
        return None
    return (
        f"--num_samples must be a multiple of --{name}, so that each is drawn "
        f"as often. Received: {config.num_samples} and {count}"
    )


def why_no_ensemble_is_refined(fit):
    """Returns why the members of an ensemble cannot be refined, or `None`."""
    config = fit.config
    if config.member_noise_scale is not None and not networks.learns_noise(
        config, fit.data
    ):
        return (
            "--member_noise_scale is for regressions with --learn_noise and "
            f"--likelihood=homoscedastic. Received: {config.member_noise_scale}"
        )
    return why_no_members(fit)


def variance_ratios(config):
    """Returns the ratios of --variance_ratios, a tuple of floats."""
    return fields.ratios(config.variance_ratios)
