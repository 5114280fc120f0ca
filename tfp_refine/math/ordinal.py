"""Cumulative logit models of ordered classes."""

import tensorflow as tf


def log_probs(outputs: tf.Tensor) -> tf.Tensor:
    """Computes log probabilities of ordered classes.

    With `logits = outputs[0] + cumsum(softplus(outputs[1:]))`, which increase,
    `P(y <= k) = sigmoid(logits[k])`. No difference of sigmoids is taken:
    `sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))`, whose
    last factor is the sigmoid of an output.

    Args:
        outputs: Real numbers, `[..., C - 1]`.

    Returns:
        log_probs: Nats, `[..., C]`.

    Reference:
        - [McCullagh, 1980](https://doi.org/10.1111/j.2517-6161.1980.tb01109.x)
    """
    first, gaps = outputs[..., :1], outputs[..., 1:]
    logits = tf.cumsum(tf.concat([first, tf.math.softplus(gaps)], -1), axis=-1)
    return tf.concat(
        [
            tf.math.log_sigmoid(first),
            tf.math.log_sigmoid(logits[..., 1:])
            + tf.math.log_sigmoid(-logits[..., :-1])
            + tf.math.log_sigmoid(gaps),
            tf.math.log_sigmoid(-logits[..., -1:]),
        ],
        axis=-1,
    )
