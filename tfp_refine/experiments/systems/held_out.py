"""Settings that a part of the training data chooses."""

import dataclasses
import itertools
import math
from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf

from tfp_refine import ensembles
from tfp_refine import losses
from tfp_refine.experiments.systems import expression as expression_lib
from tfp_refine.experiments.systems import networks
from tfp_refine.math import softplus
from tfp_refine.posteriors import spread as spread_lib

# Of candidates for the members of refined ensembles: the part of the steps that
# networks are trained for, and the factor on the KL divergence.
_CANDIDATES = ((1.0, 3.0), (0.03, 1.0), (1.0, 0.3), (1.0, 0.1))
# What `tune` tries: factors on the prior's scale, and parts of the steps.
_PRIOR_FACTORS = (0.3, 1.0)
_STEP_PARTS = (0.01, 0.03, 0.1, 0.3, 1.0)
# Logarithms of the least and the greatest factor on the noise.
_NOISE_FACTORS = (-3.0, 5.0)


class Candidate(NamedTuple):
    """Members of a refined ensemble that have the same settings.

    Attributes:
        start: The networks, an `Expression`.
        kl_scale: Factor on the KL divergence.
        noise_scale: Standard deviation that learned homoscedastic noise starts
            from; `None` for that of the networks.
    """

    start: expression_lib.Expression
    kl_scale: float
    noise_scale: float | None


def choose(fit):
    """Weighs candidates, and chooses the spread, of a refined ensemble.

    Ensembles are refined under each factor, and after a short training; the
    weights of their best mixture are those of the candidates, and its best
    spread is the spread. Learned homoscedastic noise starts from the error of
    the networks: what they have learned is overfitted.

    Returns:
        candidates: List of `Candidate`s.
        weights: Weight of each.
        spread: As `Posterior.spread`; 1 unless the model predicts the noise of
            each example.
        num_steps: Gradient steps that this took.

    Raises:
        ValueError: If there are too few training examples.
    """
    of, config = fit.repetition.held_out(), fit.config
    x, _ = of.data.test
    candidates, draws, noise_scales, num_steps = [], [], {}, 0
    for part, kl_scale in _CANDIDATES:
        start = fit.expression.argument
        if part < 1.0:
            steps = max(1, round(part * config.train_steps))
            start = _with_root(start, train_steps=steps)
        trained, _ = of.fitted(start)
        if start not in noise_scales:
            num_steps += trained.num_steps
            noise_scale = config.member_noise_scale
            if noise_scale is None and networks.learns_noise(config, fit.data):
                noise_scale = _error(trained.draws(x), of.data)
            noise_scales[start] = noise_scale
        options = {"member_kl_scale": kl_scale}
        if noise_scales[start] is not None:
            options["member_noise_scale"] = noise_scales[start]
        system = dataclasses.replace(fit.expression, argument=start)
        found, _ = of.fitted(_with(system, **options))
        num_steps += found.num_steps - trained.num_steps
        draws.append(np.asarray(found.draws(x)))
        candidates.append(Candidate(start, kl_scale, noise_scales[start]))
    weights = ensembles.stacking_weights(_log_likelihoods(draws, of.data))
    spread = 1.0
    if of.data.is_regression and config.likelihood == "heteroscedastic":
        spread = _spread(draws, weights, of.data)
    return candidates, weights, spread, num_steps


def tune(fit):
    """Fits a system with the prior, steps and noise that are best for it.

    Those of its network: a smaller scale of the prior is more weight decay,
    fewer steps end its training early.

    Raises:
        ValueError: If there are too few training examples.
    """
    config, of, scores, num_steps = fit.config, fit.repetition.held_out(), {}, 0
    prior_scale = float(config.prior_scale)
    for factor, part in itertools.product(_PRIOR_FACTORS, _STEP_PARTS):
        options = {
            "prior_scale": factor * prior_scale,
            "train_steps": max(1, round(part * config.train_steps)),
        }
        system = _with_root(fit.expression.argument, **options)
        found, _ = of.fitted(system)
        score, noise_factor = _scored(found.draws(of.data.test[0]), of.data)
        scores[system] = score, options | {"noise_factor": noise_factor}
        num_steps += found.num_steps
    best = max(scores, key=lambda system: scores[system][0])
    _, chosen = scores[best]
    found, _ = fit.repetition.fitted(best)
    return found._replace(
        draws=lambda x: _with_noise(found.draws(x), chosen["noise_factor"]),
        num_steps=found.num_steps + num_steps,
        diagnostics=chosen,
        history=None,
        seconds=None,
    )


def _with(expression, **options):
    """Returns a system with options, in place of its own of the same names."""
    kept = [o for o in expression.options if o[0] not in options]
    added = [(name, str(value)) for name, value in options.items()]
    return dataclasses.replace(expression, options=(*kept, *added))


def _with_root(
    expression: expression_lib.Expression, **options
) -> expression_lib.Expression:
    """Returns a system whose network has options."""
    if expression.argument is None:
        return _with(expression, **options)
    argument = _with_root(expression.argument, **options)
    return dataclasses.replace(expression, argument=argument)


def _spread(draws, weights, data):
    """Chooses the spread of a mixture of several draws, with their weights."""
    mean = np.tensordot(weights, [part.mean(axis=0) for part in draws], 1)

    def log_likelihood(spread):
        moved = [mean + spread * (part - mean) for part in draws]
        values = _log_likelihoods(moved, data)
        shares = weights[:, np.newaxis]
        return np.sum(scipy.special.logsumexp(values, axis=0, b=shares))

    scores = spread_lib.LOG_PRIOR + [
        log_likelihood(spread) for spread in spread_lib.CANDIDATES
    ]
    return float(spread_lib.CANDIDATES[np.argmax(scores)])


def _log_likelihoods(draws, data):
    return [_log_likelihood(part, data) for part in draws]


def _log_likelihood(draws, data, factor=1.0):
    """Computes that of each test example, nats, of a regression as scaled."""
    y = data.test[1]
    if data.is_regression:
        loc, scale = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
        density = scipy.stats.norm(np.asarray(loc), factor * np.asarray(scale))
        values = density.logpdf(y).sum(axis=-1)
    else:
        log_probs = scipy.special.log_softmax(np.float64(draws), axis=-1)
        values = log_probs[:, np.arange(len(y)), y]
    return scipy.special.logsumexp(values, axis=0) - math.log(len(draws))


def _error(draws, data):
    """Computes the RMSE of single draws, of a regression as scaled."""
    loc, _ = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    return float(np.sqrt(np.mean((np.asarray(loc) - data.test[1]) ** 2)))


def _scored(draws, data):
    """Returns the best log likelihood of test data, and the noise's factor."""
    if not data.is_regression:
        return float(np.mean(_log_likelihood(draws, data))), 1.0
    found = scipy.optimize.minimize_scalar(
        lambda log_factor: (
            -np.mean(_log_likelihood(draws, data, math.exp(log_factor)))
        ),
        bounds=_NOISE_FACTORS,
        method="bounded",
    )
    return -float(found.fun), math.exp(found.x)


def _with_noise(draws, factor):
    """Returns draws of outputs whose noise has a factor, if it is not 1."""
    if factor == 1.0:
        return draws
    loc, scale = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    raw = softplus.inverse(tf.convert_to_tensor(scale) * factor)
    return np.concatenate([loc, raw], axis=-1)
