"""The no-U-turn sampler on the weights of a trained network."""

import os
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import resumable
from tfp_refine.math import gaussian
from tfp_refine.sampling import chains
from tfp_refine.sampling import diagnostics

# Over it, chains have not come to the same distribution.
_MAX_R_HAT = 1.01
_MIN_SAMPLES = 4
# Random streams, below the seed.
_INIT, _CHAINS = range(2)
# Training data, as a Laplace approximation has them.
_DATA = ("inputs", "targets", "weights")
# Attributes that a Laplace approximation must have.
_PARTS = ("view", "likelihood", "prior_precision", "transform", "check_data")


def nuts_last_layer(
    laplace: Any,
    *,
    prior_precision: float | None = None,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 500,
    target_accept_prob: float = 0.8,
    max_tree_depth: int = 10,
    jit_compile: bool = True,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> posteriors.SamplePosterior:
    """Samples the exact posterior behind a Laplace fit of a last layer.

    The chains move in the coordinates in which Laplace's approximation is
    standard normal, start there, and all of them and all data are computed at
    once. The reference to measure approximations by.

    Args:
        laplace: Fitted Laplace approximation of a last layer, with its training
            data. It is not changed.
        prior_precision: As for `nuts`.
        num_chains: As for `nuts`.
        num_warmup: As for `nuts`.
        num_samples: As for `nuts`.
        target_accept_prob: As for `nuts`.
        max_tree_depth: As for `nuts`.
        jit_compile: As for `nuts`.
        checkpoint_dir: As for `nuts`.
        seed: As for `nuts`.
        verbose: As for `nuts`.

    Returns:
        posterior: `SamplePosterior`, as of `nuts`.

    Raises:
        ValueError: As for `nuts`.
        FloatingPointError: As for `nuts`.

    Warns:
        UserWarning: As `nuts`.

    Example:

    ```python
    laplace = tfp_refine.laplace.LastLayerLaplace(model, "classification")
    laplace.fit(x_train, y_train)
    posterior = tfp_refine.sampling.nuts_last_layer(laplace, seed=1)
    probs = posterior.predict_proba(x_test)
    ```
    """
    if not isinstance(getattr(laplace, "view", None), functional.LastLayerView):
        raise ValueError(
            "`laplace` must be a Laplace approximation of a last layer. "
            f"Received: {type(laplace).__name__}"
        )
    return nuts(
        laplace,
        prior_precision=prior_precision,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        target_accept_prob=target_accept_prob,
        max_tree_depth=max_tree_depth,
        jit_compile=jit_compile,
        checkpoint_dir=checkpoint_dir,
        seed=seed,
        verbose=verbose,
    )


def nuts(
    laplace: Any,
    *,
    prior_precision: float | None = None,
    num_chains: int = 4,
    num_warmup: int = 500,
    num_samples: int = 500,
    target_accept_prob: float = 0.8,
    max_tree_depth: int = 10,
    jit_compile: bool = True,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> posteriors.SamplePosterior:
    """Samples the exact posterior behind a Laplace approximation.

    Args:
        laplace: Fitted Laplace approximation, with its training data and their
            weights: of a last layer, or of all layers of a small network.
        prior_precision: 1 / variance of the prior of each weight. Defaults to
            that of `laplace`.
        num_chains: Chains, side by side. Defaults to `4`.
        num_warmup: Transitions of each chain that are dropped; the step size
            is adapted in them, by dual averaging. Defaults to `500`.
        num_samples: Transitions of each chain that are kept. Defaults to `500`.
        target_accept_prob: Acceptance that the step size is adapted to.
        max_tree_depth: A trajectory has at most 2 to this power steps.
        jit_compile: Whether XLA compiles: faster, but not for every model with
            all layers.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes all randomness; fresh if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Returns:
        posterior: `SamplePosterior` of samples `[T, chains, P]`. Its
            `diagnostics` have the worst R-hat, `max_r_hat`, the
            `min_effective_sample_size`, `num_divergences`: transitions whose
            energy was lost, near which parts of the posterior may be missing,
            and `mean_leapfrogs`: gradients that a transition took. Its
            `history` has `r_hat [P]` and `effective_sample_size [P]`.

    Raises:
        ValueError: If an argument is invalid, or the checkpoint is of something
            else.
        FloatingPointError: If the density is not finite where chains start.

    Warns:
        UserWarning: If chains have not mixed (R-hat over 1.01), or transitions
            diverged.

    Example:

    ```python
    laplace = tfp_refine.laplace.LastLayerLaplace(model, "classification")
    laplace.fit(x_train, y_train)
    posterior = tfp_refine.sampling.nuts(laplace, seed=1)
    posterior.diagnostics["max_r_hat"]
    ```

    Reference:
        - [Hoffman and Gelman, 2014](https://arxiv.org/abs/1111.4246)
    """
    if not all(hasattr(laplace, name) for name in _PARTS):
        raise ValueError(
            "`laplace` must be a Laplace approximation, such as a "
            f"LastLayerLaplace. Received: {type(laplace).__name__}"
        )
    laplace.check_data(held=True)
    if prior_precision is None:
        prior_precision = laplace.prior_precision
    _validation.positive("prior_precision", prior_precision)
    _validation.all_positive_integers(
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_samples=num_samples,
        max_tree_depth=max_tree_depth,
    )
    if num_samples < _MIN_SAMPLES:
        raise ValueError(
            f"`num_samples` must be {_MIN_SAMPLES} or more, so that halves of "
            f"chains can be compared. Received: num_samples={num_samples}"
        )
    _validation.proportion("target_accept_prob", target_accept_prob, one=False)
    seed = resumable.check_seed(seed, checkpoint_dir)
    view, dtype = laplace.view, laplace.view.dtype
    target = _target(laplace, prior_precision)
    rng = np.random.default_rng(functional.seeds.key(seed, _INIT))
    start = tf.constant(rng.standard_normal((num_chains, view.size)), dtype)
    density = target(start)
    if not np.isfinite(density).all():
        raise FloatingPointError(
            "The density of the posterior is not finite where the chains "
            "start. Are weights, features or targets of extreme sizes?"
        )
    checkpoint = resumable.open_checkpoint(
        checkpoint_dir,
        "nuts",
        {
            "seed": seed,
            "prior_precision": prior_precision,
            "num_chains": num_chains,
            "num_warmup": num_warmup,
            "num_samples": num_samples,
            "target_accept_prob": target_accept_prob,
            "max_tree_depth": max_tree_depth,
            "model": view.digest(),
            # Noise and coordinates are seen through it.
            "density": resumable.rounded(density),
        },
        {
            **dict(zip(_DATA, laplace.training_data, strict=False)),
            "loc": laplace.loc,
            "fixed_weights": laplace.fixed,
        },
    )
    trace = chains.sample(
        tfp.mcmc.DualAveragingStepSizeAdaptation(
            tfp.mcmc.NoUTurnSampler(
                target,
                # Of the order at which a standard normal target is accepted.
                step_size=tf.constant(view.size**-0.25, dtype),
                max_tree_depth=max_tree_depth,
            ),
            num_adaptation_steps=num_warmup * 4 // 5,
            target_accept_prob=tf.constant(target_accept_prob, dtype),
        ),
        start,
        num_warmup + num_samples,
        functional.seeds.key(seed, _CHAINS),
        jit_compile=jit_compile,
        verbose=verbose,
        checkpoint=checkpoint,
    )
    kept = chains.Trace(*(value[num_warmup:] for value in trace))
    samples = np.stack(
        [laplace.transform(tf.constant(z)).numpy() for z in kept.z]
    )
    r_hat = diagnostics.r_hat(samples)
    size = diagnostics.effective_sample_size(samples)
    posterior = posteriors.SamplePosterior(
        view,
        samples,
        laplace.fixed,
        laplace.link,
        {"r_hat": r_hat, "effective_sample_size": size},
        {
            "max_r_hat": float(np.max(r_hat)),
            "min_effective_sample_size": float(np.min(size)),
            "num_divergences": int(kept.diverges.sum()),
            "mean_leapfrogs": float(kept.leapfrogs.mean()),
        },
    )
    _warn(posterior.diagnostics, r_hat.size)
    return posterior


def _target(laplace, prior_precision):
    """Returns the log density of whitened weights, `[S, P]` to `[S]`.

    Less that of the trained weights, example by example: sums of many examples
    then keep the digits that count, in single precision too.
    """
    view, likelihood = laplace.view, laplace.likelihood
    fixed, inputs, targets, *weights = tf.nest.map_structure(
        functional.tensors.convert,
        (list(laplace.fixed), *laplace.training_data),
    )
    loc = tf.constant(laplace.loc, view.dtype)
    trained = likelihood.log_prob(targets, view.outputs(loc, inputs, fixed))
    prior = gaussian.centered_log_prob(loc, prior_precision)

    def log_density(z):
        theta = laplace.transform(z)
        outputs = view.outputs(theta, inputs, fixed)
        log_likelihood = functional.likelihoods.weighed_sum(
            likelihood.log_prob(targets, outputs) - trained, *weights
        )
        return log_likelihood + (
            gaussian.centered_log_prob(theta, prior_precision) - prior
        )

    return log_density


def _warn(found, size):
    # Not `worst > ...`, which NaN would pass.
    if not found["max_r_hat"] <= _MAX_R_HAT:
        _validation.warn(
            f"The chains have not mixed: R-hat is {found['max_r_hat']:.3f} for "
            f"one of {size} weights, where at most {_MAX_R_HAT} should be. "
            "Raise `num_warmup` and `num_samples`.",
        )
    if found["num_divergences"]:
        _validation.warn(
            f"{found['num_divergences']} transitions diverged: parts of the "
            "posterior may be missing. Raise `target_accept_prob`.",
        )
