"""The density that posteriors of weights are proportional to."""

import math

import tensorflow as tf

_LOG_2_PI = math.log(2.0 * math.pi)


def log_prior(theta, prior_precision):
    """Computes the log density of weights under their prior.

    Args:
        theta: Weights, `[..., D]`.
        prior_precision: 1 / variance of each, around 0.

    Returns:
        log_prior: Nats, `[...]`.
    """
    log_norm = 0.5 * (_LOG_2_PI - math.log(prior_precision))
    return -tf.reduce_sum(
        0.5 * prior_precision * tf.square(theta) + log_norm, axis=-1
    )


def log_joint(network, likelihood, prior_precision):
    """Returns the log density of weights and targets, a function.

    Args:
        network: `LastLayer` or `AllLayers`.
        likelihood: Likelihood of targets given its outputs.
        prior_precision: 1 / variance of each weight, around 0.

    Returns:
        log_joint: Function of weights `[S, D]`, inputs, as the network takes
            them, and targets of a batch, and the factor that its likelihood is
            scaled up by; to nats, `[S]`.
    """

    def function(theta, inputs, targets, factor=1.0):
        outputs = network.outputs(theta, inputs)
        log_likelihood = tf.reduce_sum(
            likelihood.log_prob(targets, outputs), axis=-1
        )
        return factor * log_likelihood + log_prior(theta, prior_precision)

    return function
