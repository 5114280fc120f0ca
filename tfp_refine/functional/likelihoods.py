"""Likelihoods of targets, given the outputs of a network."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import losses
from tfp_refine.functional import links
from tfp_refine.functional import objective
from tfp_refine.metrics import inputs

KINDS = ("classification", "multilabel", "regression")


@dataclasses.dataclass(frozen=True)
class Categorical:
    """Classes, given logits `[..., C]`."""

    kind: ClassVar = "classification"
    activations: ClassVar = {"linear": tf.identity, "softmax": tf.nn.softmax}

    def targets(self, y, num_outputs):
        """Converts labels to class numbers, int32 array, `[N]`.

        They are class numbers, `[N]` or `[N, 1]`, or one-hot rows, `[N, C]`.
        """
        return np.asarray(inputs.as_labels(y, len(y), num_outputs))

    def log_prob(self, targets, outputs):
        """Computes log likelihoods `[..., B]`, nats, of logits `[..., C]`."""
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.broadcast_to(targets, tf.shape(outputs)[:-1]),
            logits=outputs,
        )

    def statistic(self, targets, outputs, weights=None):
        """Computes the sum over examples that `log_likelihood` takes.

        Each counts as often as its weight says, `[B]`.
        """
        return weighed_sum(self.log_prob(targets, outputs), weights)

    def log_likelihood(self, statistic, count):
        """Computes the log likelihood of all examples, nats.

        `statistic` is the sum over them, `count` the number of all outputs, or
        the sum of their weights.
        """
        del count
        return statistic

    def output_hessian(self, outputs):
        """Computes the Hessian of the negative log likelihood in the outputs.

        It is `diag(p) - p p^T`, `[B, C, C]`.
        """
        probs = tf.nn.softmax(outputs)
        return tf.linalg.diag(probs) - tf.einsum("bi,bj->bij", probs, probs)

    def output_hessian_diagonal(self, outputs):
        """Computes the diagonals of `output_hessian`, `[B, C]`."""
        probs = tf.nn.softmax(outputs)
        return probs * (1.0 - probs)

    def output_hessian_sum(self, outputs, weights=None):
        """Computes the sum of `output_hessian` over examples, `[C, C]`."""
        probs = tf.nn.softmax(outputs)
        weighted = weighed(probs, weights)
        return tf.linalg.diag(tf.reduce_sum(weighted, axis=0)) - tf.matmul(
            weighted, probs, transpose_a=True
        )

    def predictions(self, outputs):
        """Returns class probabilities, `[..., C]`, of logits."""
        return tf.nn.softmax(outputs)


class _Independent:
    """Likelihood whose outputs do not share a target."""

    def output_hessian(self, outputs):
        """Computes the Hessian, diagonal, `[B, C, C]`, as `Categorical`."""
        return tf.linalg.diag(self.output_hessian_diagonal(outputs))

    def output_hessian_sum(self, outputs, weights=None):
        """Computes the sum of `output_hessian` over examples, `[C, C]`."""
        diagonals = weighed(self.output_hessian_diagonal(outputs), weights)
        return tf.linalg.diag(tf.reduce_sum(diagonals, axis=0))


@dataclasses.dataclass(frozen=True)
class Bernoulli(_Independent):
    """Two classes, given the logit of the second, `[..., 1]`."""

    kind: ClassVar = "classification"
    activations: ClassVar = {"linear": tf.identity, "sigmoid": tf.sigmoid}

    def targets(self, y, num_outputs):
        """Converts labels to class numbers, 0 and 1, as `Categorical` does."""
        del num_outputs
        return np.asarray(inputs.as_labels(y, len(y), 2))

    def log_prob(self, targets, outputs):
        """Computes the log likelihood of each example, as `Categorical`."""
        logits = outputs[..., 0]
        labels = tf.broadcast_to(
            tf.cast(targets, logits.dtype), tf.shape(logits)
        )
        return -tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)

    statistic = Categorical.statistic
    log_likelihood = Categorical.log_likelihood

    def output_hessian_diagonal(self, outputs):
        """Computes the diagonals of `output_hessian`, `[B, 1]`."""
        return tf.sigmoid(outputs) * tf.sigmoid(-outputs)

    def predictions(self, outputs):
        """Returns the probabilities of both classes, `[..., 2]`."""
        return tf.concat([tf.sigmoid(-outputs), tf.sigmoid(outputs)], axis=-1)


@dataclasses.dataclass(frozen=True)
class Multilabel(_Independent):
    """Labels that do not exclude each other, given their logits, `[..., C]`."""

    kind: ClassVar = "multilabel"
    activations: ClassVar = Bernoulli.activations

    def targets(self, y, num_outputs):
        """Converts labels 0 and 1, `[N, C]`, to a float64 array, `[N, C]`."""
        labels = np.asarray(inputs.as_array("y_true", y))
        if labels.shape != (len(y), num_outputs):
            raise ValueError(
                "`y` must have a label for each output, "
                f"{(len(y), num_outputs)}. Received: shape {labels.shape}"
            )
        bad = labels[(labels != 0.0) & (labels != 1.0)]
        if bad.size:
            raise ValueError(
                f"`y` must hold labels 0 and 1. Received: {bad[0]:g}, "
                f"{bad.size} such"
            )
        return labels

    def log_prob(self, targets, outputs):
        """Computes the log likelihood of each example, summed over labels."""
        labels = tf.broadcast_to(
            tf.cast(targets, outputs.dtype), tf.shape(outputs)
        )
        return -tf.reduce_sum(
            tf.nn.sigmoid_cross_entropy_with_logits(labels, outputs), axis=-1
        )

    statistic = Categorical.statistic
    log_likelihood = Categorical.log_likelihood
    output_hessian_diagonal = Bernoulli.output_hessian_diagonal

    def predictions(self, outputs):
        """Returns the probability of each label, `[..., C]`."""
        return tf.sigmoid(outputs)


@dataclasses.dataclass(frozen=True)
class Gaussian(_Independent):
    """Numbers around the outputs, `[..., D]`, with one noise for all.

    `noise_scale` is its standard deviation.
    """

    noise_scale: float = 1.0

    kind: ClassVar = "regression"
    activations: ClassVar = {"linear": tf.identity}

    def targets(self, y, num_outputs):
        """Converts targets `[N, D]`, or `[N]`, to a float64 array, `[N, D]`."""
        like = tf.zeros([1, len(y), num_outputs])
        return np.asarray(inputs.as_targets(y, like))

    def log_prob(self, targets, outputs):
        """Computes log likelihoods `[..., B]`, nats, of means `[..., D]`."""
        error = (tf.cast(targets, outputs.dtype) - outputs) / self.noise_scale
        log_norm = math.log(self.noise_scale) + 0.5 * math.log(2.0 * math.pi)
        return tf.reduce_sum(-0.5 * tf.square(error) - log_norm, axis=-1)

    def statistic(self, targets, outputs, weights=None):
        """Computes the sum of squared errors, which no noise changes."""
        error = tf.cast(targets, outputs.dtype) - outputs
        return tf.reduce_sum(weighed(tf.square(error), weights))

    def log_likelihood(self, statistic, count):
        """Computes the log likelihood of all examples, as `Categorical`."""
        log_norm = math.log(self.noise_scale) + 0.5 * math.log(2.0 * math.pi)
        return -0.5 * statistic / self.noise_scale**2 - count * log_norm

    def output_hessian_diagonal(self, outputs):
        """Computes the diagonals of `output_hessian`, `[B, D]`."""
        return tf.ones_like(outputs) / self.noise_scale**2

    def predictions(self, outputs):
        """Returns the outputs: means, without the noise."""
        return outputs


def weighed(values, weights):
    """Multiplies values of examples, `[B, ...]`, by weights `[B]`, if any."""
    if weights is None:
        return values
    weights = tf.cast(weights, values.dtype)
    missing = len(values.shape) - 1
    return values * tf.reshape(weights, [-1, *[1] * missing])


def weighed_sum(log_probs, weights=None):
    """Sums log likelihoods `[..., B]`, with weights `[B]` if any, `[...]`."""
    if weights is not None:
        log_probs *= tf.cast(weights, log_probs.dtype)
    return tf.reduce_sum(log_probs, axis=-1)


def of_kind(kind, num_outputs, noise_scale=1.0):
    """Returns the likelihood of one of `KINDS`.

    It is `Categorical`, `Bernoulli` if there is one output, `Multilabel` or
    `Gaussian`.
    """
    _validation.one_of("likelihood", kind, KINDS)
    if kind == "regression":
        return Gaussian(_validation.positive("noise_scale", noise_scale))
    if kind == "multilabel":
        if num_outputs == 1:
            raise ValueError(
                'The likelihood "multilabel" is for several labels. For one '
                'output take "classification".'
            )
        return Multilabel()
    return Categorical() if num_outputs > 1 else Bernoulli()


def link_of(kind, num_outputs, activation):
    """Returns the `Link` of a model's outputs, `None` for a regression.

    `activation` is the name of that after the outputs.
    """
    if kind == "regression":
        return None
    excludes = kind == "classification" and num_outputs > 1
    function = "softmax" if excludes else "sigmoid"
    return links.Link(function, activation == "linear")


def check_loss(model, kind, num_outputs):
    """Raises a `ValueError` if the model was trained with another likelihood.

    Of `kind`, one of `KINDS`, of a model that was compiled with a loss that
    says so.
    """
    loss = getattr(model, "loss", None)
    if loss is None:
        return
    factors = objective.compiled_loss_weights(model)
    if factors is not None:
        raise ValueError(
            f"The model '{model.name}' was compiled with loss_weights="
            f"{factors!r}, by which the likelihood here is not multiplied: "
            "compile it without, and give `sample_weight` where it counts."
        )
    link = links.find(model)
    if isinstance(link, links.Links):
        return  # refused as a model of several outputs
    expected = link_of(kind, num_outputs, "linear")
    if expected is not None:
        fits = link is None or link.function == expected.function
    else:
        fits = link is None and (
            isinstance(loss, losses.GaussianLoss)
            or not isinstance(loss, losses.LikelihoodLoss)
        )
    if not fits:
        known = {
            "classification": "of classes that exclude each other",
            "multilabel": "of labels that do not exclude each other",
            "regression": "Gaussian",
        }[kind]
        is_of_labels = link is not None and link.function == "sigmoid"
        hint = ' Take "multilabel".' if is_of_labels and num_outputs > 1 else ""
        raise ValueError(
            f"The likelihood of a {kind} is {known} here, but the model "
            f"'{model.name}' with {num_outputs} outputs was compiled with "
            f"loss={loss!r}.{hint}"
        )
