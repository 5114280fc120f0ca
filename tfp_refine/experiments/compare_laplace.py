"""Laplace's approximation, its refinement and NUTS in the comparison."""

import keras
import numpy as np
from absl import flags

from tfp_refine import laplace
from tfp_refine import posteriors
from tfp_refine import sampling
from tfp_refine.experiments import fitted
from tfp_refine.experiments import posterior_diagnostics
from tfp_refine.math import softplus

FLAGS = flags.FLAGS
# Of the refinement by flows: examples in a step, and least steps.
_FLOW_BATCH, _FLOW_STEPS = 128, 2000


def why_no_laplace(run):
    """Returns why a trained network has no Laplace approximation, or `None`."""
    if run.data.num_classes is None and FLAGS.likelihood == "heteroscedastic":
        return (
            "Its likelihood has one noise for all inputs; "
            "--likelihood=homoscedastic has it."
        )
    return None


def why_not_all_layers(run):
    """Returns why there is none of all layers, or `None`."""
    return why_no_laplace(run) or _why_too_large(
        run, "max_laplace_weights", "laplace has"
    )


def why_not_sampled(run):
    """Returns why all layers cannot be sampled, or `None`."""
    return (
        why_no_laplace(run)
        or _why_too_large(run, "max_sampled_weights", "nuts_last_layer samples")
        or why_not_all_layers(run)  # where its chains start
    )


def _why_too_large(run, flag, other):
    if run.num_weights <= FLAGS[flag].value:
        return None
    return (
        f"The network has {run.num_weights} weights, more than --{flag}="
        f"{FLAGS[flag].value}; {other} those of the last layer."
    )


def last_layer(run, name, directory, trained):
    """Fits Laplace's approximation of the last layer."""
    del name, directory
    return _fit(run, trained, laplace.LastLayerLaplace)


def all_layers(run, name, directory, trained):
    """Fits Laplace's approximation of all layers, predicting by its outputs.

    Draws of weights would leave where the network is linear in them.
    """
    del name, directory
    return _fit(run, trained, laplace.DiagonalLaplace)


def refined(run, name, directory, base):
    """Refines Laplace's approximation by radial flows."""
    del name
    per_epoch = max(1, len(run.data.train[1]) // _FLOW_BATCH)
    epochs = max(20, -(-_FLOW_STEPS // per_epoch))
    posterior = _kept(
        directory,
        base,
        lambda: base.posterior.refine(
            flow_length=FLAGS.flows,
            batch_size=_FLOW_BATCH,
            epochs=epochs,
            seed=run.seed(8),
            verbose=int(FLAGS.progress),
        ),
    )
    num_params = posterior_diagnostics.num_params(posterior)
    return base._replace(
        draws=_draws(run, posterior, base.posterior.noise_scale),
        num_steps=base.num_steps + epochs * per_epoch,
        num_numbers=base.num_numbers + num_params,
        posterior=posterior,
        about={},
    )


def sampled(run, name, directory, base):
    """Samples the posterior by NUTS."""
    del name
    samples = _kept(
        directory,
        base,
        lambda: sampling.nuts(
            base.posterior,
            num_chains=FLAGS.nuts_chains,
            num_warmup=FLAGS.nuts_warmup,
            num_samples=FLAGS.nuts_samples,
            max_tree_depth=FLAGS.nuts_max_tree_depth,
            checkpoint_dir=directory,
            seed=run.seed(9),
            verbose=int(FLAGS.progress),
        ),
    )
    return base._replace(
        draws=_draws(run, samples, base.posterior.noise_scale),
        num_numbers=run.num_weights + samples.samples.size,
        posterior=samples,
        about=posterior_diagnostics.diagnostics(samples),
    )


def _kept(directory, base, make):
    """Loads a posterior from its file, or makes and saves it."""
    path = directory / "laplace.posterior"
    model = base.posterior.model
    if path.exists():
        try:
            return posteriors.load_posterior(path, model)
        except ValueError as error:
            raise ValueError(
                f"{error} Remove the file to compute it anew."
            ) from error
    posterior = make()
    posterior.save(path)
    return posterior


def _fit(run, trained, kind):
    model, options = trained.model, {}
    likelihood = "classification"
    if run.data.num_classes is None:
        # What comes before the noise; it shares its weights.
        means = model.get_layer("outputs").output
        likelihood, model = "regression", keras.Model(model.input, means)
        x = run.data.train[0][:1]
        _, scale = run.loss.loc_and_scale(trained.model(x))
        options["noise_scale"] = float(np.ravel(scale)[0])
    posterior = kind(model, likelihood, **options)
    posterior.fit(*run.data.train, verbose=int(FLAGS.progress))
    posterior.optimize_prior_precision()
    size = posterior.view.size
    is_full = kind is laplace.LastLayerLaplace
    return fitted.Fitted(
        _draws(run, posterior, posterior.noise_scale),
        trained.num_steps,
        trained.num_numbers + (size * size if is_full else size),
        posterior=posterior,
        about={"prior_precision": posterior.prior_precision},
    )


def _draws(run, posterior, noise_scale):
    """Returns a function that draws as the whole network would."""

    def draws(x):
        count, seed = FLAGS.num_samples, run.seed(1)
        if isinstance(posterior, laplace.DiagonalLaplace):
            found = _linearized_draws(posterior, x, count, seed)
        else:
            found = posterior.predict(x, count, seed=seed)
            if posterior.link is not None and not posterior.link.from_logits:
                found = np.log(np.maximum(found, np.finfo(found.dtype).tiny))
        if run.data.num_classes is not None:
            return found
        raw = softplus.inverse_of_float(noise_scale)
        return np.concatenate([found, np.full_like(found, raw)], axis=-1)

    return draws


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
