"""Adversarial perturbations by the fast gradient sign method."""

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import losses


def fast_gradient_sign(
    model: keras.Model,
    x: Any,
    y: Any = None,
    num_samples: int = 10,
    seed: int | None = None,
    *,
    loss: Any = None,
    batch_size: int = 256,
) -> np.ndarray:
    """Computes the sign of the input gradient, for attacks (FGSM).

    The perturbed inputs are `x + epsilon * sign`. The gradient is that of the
    negative log likelihood, averaged over draws of the weights: an attack on
    the model as a whole, not on one draw.

    Args:
        model: Built `keras.Model`, with or without variational layers.
        x: Inputs, one tensor, `[N, ...]`, or batches of `(x, y)` or `(x, y,
            sample_weight)`, such as a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator. A weight, one for each
            example, changes nothing, unless it is 0: then so are the signs.
        y: Targets, one tensor, `[N, ...]`; `None` for batches.
        num_samples: Draws of the weights. Defaults to `10`.
        seed: Integer that fixes the draws; fresh ones if `None`.
        loss: Negative log likelihood: a Keras loss, its name or a callable
            `(y_true, y_pred)`; the loss that the model was compiled with if
            `None`.
        batch_size: Examples computed at a time. Defaults to `256`.

    Returns:
        signs: -1, 0 or 1, a `numpy` array of the shape of `x`.

    Raises:
        ValueError: If an argument is invalid, or data and model do not fit.

    Example:

    ```python
    signs = tfp_refine.posteriors.fast_gradient_sign(model, x, y)
    draws = tfp_refine.predict(model, x + 0.1 * signs)
    ```

    Reference:
        - [Goodfellow et al., 2015](https://arxiv.org/abs/1412.6572)
    """
    num_samples = _validation.positive_integer("num_samples", num_samples)
    batch_size = _validation.positive_integer("batch_size", batch_size)
    seed = functional.seeds.check(seed)
    functional.data.check_model(model)
    x, y, weights, num_examples = functional.data.weighted(x, y)
    given, x = x, functional.model_inputs.fit(model, x)
    for name, value in (("x", x), ("y", y)):
        if not isinstance(value, tf.Tensor):
            raise ValueError(
                f"`{name}` must be one tensor. Received: a structure of "
                f"{len(keras.tree.flatten(value))}"
            )
    if not x.dtype.is_floating:
        raise ValueError(
            "`x` must be floating: a gradient is a direction to move in. "
            f"Received: dtype {x.dtype.name}"
        )
    loss = functional.objective.resolve(model, loss)
    view = functional.WeightView(model, "none")
    vector, fixed = view.params(), view.fixed()
    # Not `model(x)`, which would move the model's own random state.
    outputs = view.call(x[:1], vector, fixed, 0)
    functional.objective.check_targets(loss, y, outputs)
    keys = functional.seeds.keys(seed, num_samples)

    def gradient_sign(x, y, fixed, keys, block):
        def add(sample, highest, total):
            with tf.GradientTape() as tape:
                tape.watch(x)
                outputs = view.call(x, vector, fixed, keys[sample], block)
                objective, log_weight = _objective(loss, y, outputs)
            gradient = tape.gradient(objective, x, unconnected_gradients="zero")
            # Only the sign counts: weights are relative to the highest so far.
            new_highest = tf.maximum(highest, log_weight)
            before, now = (
                tf.reshape(
                    tf.exp(tf.cast(value - new_highest, x.dtype)),
                    [-1] + [1] * (len(x.shape) - 1),
                )
                for value in (highest, log_weight)
            )
            return sample + 1, new_highest, before * total + now * gradient

        lowest = tf.fill([tf.shape(x)[0]], tf.float32.min)
        _, _, total = tf.while_loop(
            lambda sample, *_: sample < num_samples,
            add,
            (tf.constant(0), lowest, tf.zeros_like(x)),
            parallel_iterations=1,
        )
        return tf.sign(total)

    program = functional.Program(
        gradient_sign, varying=(True, True, False, False, False)
    )
    signs = []
    for block, begin in enumerate(range(0, num_examples, batch_size)):
        rows = slice(begin, begin + batch_size)
        signs.append(
            program(
                x[rows],
                y[rows],
                fixed,
                keys,
                tf.constant(block, tf.int64),
            ).numpy()
        )
    signs = np.concatenate(signs)
    if weights is not None:
        signs[np.equal(weights, 0.0)] = 0.0
    (given,) = keras.tree.flatten(given)
    return signs.reshape(given.shape)


def _objective(loss, y, outputs):
    """Factors the gradient of the negative log likelihood of each example.

    Where a classifier is sure of the right class, that gradient is zero in
    single precision, and an attack that stands still would pass for robustness.
    With logits `f` it is `1 - p_y` times the gradient of `logsumexp_{j != y}
    f_j - f_y`, which is not. Returns that objective, and the logarithm of the
    factor, float32, both `[B]`.
    """
    takes_logits = isinstance(
        loss, keras.losses.SparseCategoricalCrossentropy | losses.CategoricalNLL
    ) and getattr(loss, "from_logits", False)
    if not takes_logits or len(outputs.shape) != 2:
        nll = functional.objective.negative_log_likelihood(loss, y, outputs)
        return nll, tf.zeros([tf.shape(outputs)[0]])
    logits = tf.cast(outputs, tf.float32)
    if y.shape[1:] == logits.shape[1:] != [1]:  # one-hot rows
        true = tf.cast(y, tf.bool)
    else:
        labels = tf.reshape(tf.cast(y, tf.int32), [-1])
        true = tf.one_hot(labels, logits.shape[-1], True, False)
    others = tf.reduce_logsumexp(
        tf.where(true, logits.dtype.min, logits), axis=-1
    )
    objective = others - tf.reduce_sum(tf.where(true, logits, 0.0), axis=-1)
    return objective, -tf.nn.softplus(-objective)
