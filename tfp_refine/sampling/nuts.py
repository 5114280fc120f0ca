"""The no-U-turn sampler on the weights of a trained network."""

import warnings

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import checkpoint as checkpoint_lib
from tfp_refine.sampling import chains
from tfp_refine.sampling import weight_samples

# Over it, chains have not come to the same distribution.
_MAX_R_HAT = 1.01
_MIN_SAMPLES = 4
# Random streams, below the seed.
_INIT, _CHAINS = range(2)


def nuts_last_layer(laplace, **options):
    """Samples the posterior that a `LastLayerLaplace` approximates.

    The chains move in the coordinates in which Laplace's approximation is
    standard normal, start there, and all of them and all data are computed at
    once. The reference to measure approximations by.

    Args:
        laplace: Fitted `tfp_refine.laplace.LastLayerLaplace`, with its training
            data. It is not changed.
        **options: As for `nuts`.

    Returns:
        samples: `WeightSamples`.

    Raises:
        ValueError: If an argument is invalid.

    Warns:
        UserWarning: As `nuts`.
    """
    if not isinstance(getattr(laplace, "network", None), posteriors.LastLayer):
        raise ValueError(
            "`laplace` must be a LastLayerLaplace. "
            f"Received: {type(laplace).__name__}"
        )
    return nuts(laplace, **options)


def nuts(
    laplace,
    *,
    prior_precision=None,
    num_chains=4,
    num_warmup=500,
    num_samples=500,
    target_accept_prob=0.8,
    max_tree_depth=10,
    jit_compile=True,
    checkpoint_dir=None,
    seed=None,
    verbose=1,
):
    """Samples the posterior that a Laplace approximation is of.

    Args:
        laplace: Fitted Laplace approximation, with its training data: of a last
            layer, or of all layers of a small network.
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
        verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

    Returns:
        samples: `WeightSamples`, with `sample`, `predict` and what tells how
            far they can be trusted.

    Raises:
        ValueError: If an argument is invalid, or the checkpoint is of something
            else.
        FloatingPointError: If the density is not finite where chains start.

    Warns:
        UserWarning: If chains have not mixed (R-hat over 1.01), or transitions
            diverged.

    Reference:
        - [Hoffman and Gelman, 2014](https://arxiv.org/abs/1111.4246)
    """
    if not hasattr(laplace, "transformation"):
        raise ValueError(
            "`laplace` must be a Laplace approximation, such as a "
            f"LastLayerLaplace. Received: {type(laplace).__name__}"
        )
    laplace.check_data()
    if prior_precision is None:
        prior_precision = laplace.prior_precision
    _validation.positive("prior_precision", prior_precision)
    for name, value in (
        ("num_chains", num_chains),
        ("num_warmup", num_warmup),
        ("num_samples", num_samples),
        ("max_tree_depth", max_tree_depth),
    ):
        _validation.positive_integer(name, value)
    if num_samples < _MIN_SAMPLES:
        raise ValueError(
            f"`num_samples` must be {_MIN_SAMPLES} or more, so that halves of "
            f"chains can be compared. Received: num_samples={num_samples}"
        )
    _validation.proportion("target_accept_prob", target_accept_prob, one=False)
    seed = checkpoint_lib.check_seed(seed, checkpoint_dir)
    network = laplace.network
    transform, _ = laplace.transformation(network.dtype)
    target = _target(laplace, prior_precision, transform)
    rng = np.random.default_rng(functional.seeds.key(seed, _INIT))
    start = tf.constant(
        rng.standard_normal((num_chains, network.size)), network.dtype
    )
    if not np.isfinite(target(start)).all():
        raise FloatingPointError(
            "The density of the posterior is not finite where the chains "
            "start. Are weights, features or targets of extreme sizes?"
        )
    checkpoint = None
    if checkpoint_dir is not None:
        fingerprint = checkpoint_lib.fingerprint(
            {
                "seed": seed,
                "prior_precision": prior_precision,
                "num_chains": num_chains,
                "num_warmup": num_warmup,
                "num_samples": num_samples,
                "target_accept_prob": target_accept_prob,
                "max_tree_depth": max_tree_depth,
                "model": network.digest(),
            },
            {"inputs": laplace.inputs, "targets": laplace.targets},
        )
        checkpoint = checkpoint_lib.Checkpoint(
            checkpoint_dir, "nuts", fingerprint
        )
    trace = chains.run(
        tfp.mcmc.DualAveragingStepSizeAdaptation(
            tfp.mcmc.NoUTurnSampler(
                target,
                # Of the order at which a standard normal target is accepted.
                step_size=tf.constant(network.size**-0.25, network.dtype),
                max_tree_depth=max_tree_depth,
            ),
            num_adaptation_steps=num_warmup * 4 // 5,
            target_accept_prob=tf.constant(target_accept_prob, network.dtype),
        ),
        start,
        num_warmup + num_samples,
        functional.seeds.key(seed, _CHAINS),
        jit_compile=jit_compile,
        verbose=verbose,
        checkpoint=checkpoint,
    )
    kept = chains.Trace(*(value[num_warmup:] for value in trace))
    samples = weight_samples.WeightSamples(
        network,
        laplace.likelihood,
        laplace.activation,
        np.stack([transform(tf.constant(z)).numpy() for z in kept.z]),
        num_divergences=int(kept.diverges.sum()),
        mean_leapfrogs=float(kept.leapfrogs.mean()),
    )
    _warn(samples)
    return samples


def _target(laplace, prior_precision, transform):
    """Returns the log density of whitened weights, `[S, D]` to `[S]`.

    Less that of the trained weights, example by example: sums of many examples
    then keep the digits that count, in single precision too.
    """
    network, likelihood = laplace.network, laplace.likelihood
    inputs = tf.nest.map_structure(tf.convert_to_tensor, laplace.inputs)
    targets = tf.convert_to_tensor(laplace.targets)
    mean = tf.constant(laplace.mean, network.dtype)
    trained = likelihood.log_prob(targets, network.outputs(mean, inputs))
    prior = posteriors.log_prior(mean, prior_precision)

    def log_density(z):
        theta = transform(z)
        log_likelihood = tf.reduce_sum(
            likelihood.log_prob(targets, network.outputs(theta, inputs))
            - trained,
            axis=-1,
        )
        return log_likelihood + (
            posteriors.log_prior(theta, prior_precision) - prior
        )

    return log_density


def _warn(samples):
    worst = float(np.max(samples.r_hat))
    # Not `worst > ...`, which NaN would pass.
    if not worst <= _MAX_R_HAT:
        warnings.warn(
            f"The chains have not mixed: R-hat is {worst:.3f} for one of "
            f"{samples.r_hat.size} weights, where at most {_MAX_R_HAT} should "
            "be. Raise `num_warmup` and `num_samples`.",
            UserWarning,
            stacklevel=3,
        )
    if samples.num_divergences:
        warnings.warn(
            f"{samples.num_divergences} transitions diverged: parts of the "
            "posterior may be missing. Raise `target_accept_prob`.",
            UserWarning,
            stacklevel=3,
        )
