"""Laplace's approximation, its refinement by flows, and NUTS."""

import contextlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfp_refine import bijectors
from tfp_refine import laplace
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine import sampling
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.systems import fitted
from tfp_refine.laplace import refinement
from tfp_refine.math import softplus

# Systems that are Laplace's approximation.
NAMES = ("laplace", "laplace_all")
RULES = ("marginal_likelihood", "grid_search")
# Least steps of a refinement by flows.
_FLOW_STEPS = 2000
# Draws of a grid search of the prior precision.
_TUNING_DRAWS = 200
Laplace = laplace.DiagonalLaplace | laplace.LastLayerLaplace


def why_not(fit):
    """Returns why a trained network has no Laplace approximation, or `None`."""
    config = fit.config
    if fit.data.is_regression and config.likelihood == "heteroscedastic":
        return (
            "Its likelihood has one noise for all inputs; "
            "--likelihood=homoscedastic has it."
        )
    is_searched = prior_precision(config) == "grid_search"
    if is_searched and not len(fit.data.validation[1]):
        return "--prior_precision=grid_search needs a --validation_fraction."
    if fit.expression.name == "laplace":
        return None
    return _why_too_large(fit, "max_laplace_weights", "laplace has")


def why_not_sampled(fit):
    """Returns why a posterior cannot be sampled, or `None`."""
    if fit.expression.argument.name == "laplace":
        return None
    return _why_too_large(fit, "max_sampled_weights", "nuts(laplace) samples")


def _why_too_large(fit, name, other):
    largest = getattr(fit.config, name)
    if fit.repetition.num_weights <= largest:
        return None
    return (
        f"The network has {fit.repetition.num_weights} weights, more than "
        f"--{name}={largest}; {other} those of the last layer."
    )


def approximate(fit, start):
    """Fits Laplace's approximation of the last layer, or of all layers."""
    config, data = fit.config, fit.data
    model, likelihood, options = start.model, "classification", {}
    if data.is_regression:
        # The output before the noise; it shares its weights.
        means = model.get_layer("outputs").output
        likelihood, model = "regression", keras.Model(model.input, means)
        _, scale = losses.HeteroscedasticGaussianNLL().loc_and_scale(
            start.model(data.train[0][:1])
        )
        options["noise_scale"] = float(np.ravel(scale)[0])
    if fit.expression.name == "laplace":
        options["hessian"] = config.hessian
        posterior = laplace.LastLayerLaplace(model, likelihood, **options)
    else:
        posterior = laplace.DiagonalLaplace(model, likelihood, **options)
    posterior.fit(*data.train, verbose=config.verbose)
    rule = prior_precision(config)
    if rule == "grid_search":
        posterior.optimize_prior_precision(
            rule,
            validation_data=data.validation,
            predictive=config.predictive,
            num_samples=_TUNING_DRAWS,
            seed=fit.seed("tuning"),
            verbose=config.verbose,
        )
    elif rule == "marginal_likelihood":
        posterior.optimize_prior_precision()
    else:
        posterior.prior_precision = rule
    is_full = options.get("hessian") == "full"
    return fitted.Fitted(
        draws(fit, posterior, posterior.noise_scale),
        start.num_steps,
        start.num_numbers + posterior.view.size ** (2 if is_full else 1),
        posterior=posterior,
        diagnostics={
            "prior_precision": posterior.prior_precision,
            "log_marginal_likelihood": posterior.log_marginal_likelihood(),
        },
    )


def refine_by_flows(fit, start):
    """Refines Laplace's approximation by normalizing flows."""
    config = fit.config
    posterior = _kept(
        fit,
        start,
        lambda: refine(start.posterior, config, fit.seed("flows")),
    )
    num_params = sum(
        int(np.size(part.parameters[name]))
        for part in posterior.bijector.bijectors
        if isinstance(part, bijectors.Radial | bijectors.Planar)
        for name in type(part).parameter_properties()
    )
    epochs, per_epoch = _flow_epochs(config, fit.data.train[1])
    return start._replace(
        draws=draws(fit, posterior, start.posterior.noise_scale),
        num_steps=start.num_steps + epochs * per_epoch,
        num_numbers=start.num_numbers + num_params,
        posterior=posterior,
        diagnostics={"num_params": float(num_params)},
    )


def refine(
    posterior: Laplace, config: fields.Bench, seed: int
) -> posteriors.FlowPosterior:
    """Refines a Laplace approximation that has its training data."""
    return refinement.refine(
        posterior,
        flow=refinement.Flow(
            config.flow_kind,
            config.flow_length,
            config.flow_space,
            config.flow_base,
        ),
        batch_size=config.flow_batch_size,
        epochs=_flow_epochs(config, posterior.training_data[1])[0],
        learning_rate=config.flow_learning_rate,
        num_samples=config.flow_samples,
        seed=seed,
        verbose=config.verbose,
    )


def sample(fit, start):
    """Samples the posterior by NUTS."""
    config = fit.config
    samples = _kept(
        fit,
        start,
        lambda: sampling.nuts(
            start.posterior,
            num_chains=config.nuts_chains,
            num_warmup=config.nuts_warmup,
            num_samples=config.nuts_samples,
            max_tree_depth=config.nuts_max_tree_depth,
            checkpoint_dir=fit.directory,
            seed=fit.seed("nuts"),
            verbose=config.verbose,
        ),
    )
    return start._replace(
        draws=draws(fit, samples, start.posterior.noise_scale),
        num_numbers=fit.repetition.num_weights + samples.samples.size,
        posterior=samples,
        diagnostics={k: float(v) for k, v in samples.diagnostics.items()},
    )


def prior_precision(config):
    """Returns a number or the name of a rule of `RULES`; refuses others."""
    text = config.prior_precision
    if text in RULES:
        return text
    with contextlib.suppress(ValueError):
        if 0.0 < float(text) < float("inf"):
            return float(text)
    raise ValueError(
        f"--prior_precision must be a positive number, {' or '.join(RULES)}. "
        f"Received: {text}"
    )


def _flow_epochs(config, targets):
    """Returns the epochs of a refinement by flows, and the steps of each."""
    per_epoch = max(1, len(targets) // config.flow_batch_size)
    usual = max(20, -(-_FLOW_STEPS // per_epoch))
    return config.flow_epochs or usual, per_epoch


def _kept(fit, start, make):
    """Loads a posterior from its file, or makes and saves it."""
    path = fit.directory / "laplace.posterior"
    if path.exists():
        try:
            return posteriors.load_posterior(path, start.posterior.model)
        except ValueError as error:
            raise ValueError(
                f"{error} Remove the file to compute it anew."
            ) from error
    posterior = make()
    posterior.save(path)
    return posterior


def draws(
    fit: Any, posterior: posteriors.Posterior, noise_scale: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns a function that draws as the whole network would."""
    config, data = fit.config, fit.data
    seed = fit.seed("predictions")
    closed = config.predictive != "mc" and not data.is_regression

    def compute(x):
        link = posterior.link
        if closed and isinstance(posterior, Laplace):
            # A single draw, whose probabilities are the averaged ones.
            probs = posterior.predict_proba(
                x, config.num_samples, method=config.predictive, seed=seed
            )
            return fitted.log(probs)[np.newaxis]
        if isinstance(posterior, laplace.DiagonalLaplace):
            # Draws of weights would leave where the network is linear in them.
            found = _linearized_draws(posterior, x, config.num_samples, seed)
            link = link and link._replace(from_logits=True)
        else:
            found = posterior.predict(x, config.num_samples, seed=seed)
        if not data.is_regression:
            return fitted.logits(found, link)
        raw = softplus.inverse_of_float(noise_scale)
        return np.concatenate([found, np.full_like(found, raw)], axis=-1)

    return compute


def _linearized_draws(posterior, x, num_samples, seed):
    """Draws outputs of the linearized network, `[S, N, C]`."""
    mean, covariance = posterior.linearized_outputs(x)
    size = mean.shape[-1]
    largest = np.max(np.diagonal(covariance, axis1=1, axis2=2), axis=-1)
    jitter = 1e-12 * np.maximum(largest, 1e-200)  # rounding
    root = np.linalg.cholesky(
        covariance + jitter[:, np.newaxis, np.newaxis] * np.eye(size)
    )
    noise = np.random.default_rng(seed).normal(size=(num_samples, *mean.shape))
    draws = mean + np.einsum("ncd,snd->snc", root, noise)
    return draws.astype(np.float32)
