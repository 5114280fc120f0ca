"""Small trained models, and their data, for posteriors of their weights."""

import keras
import numpy as np
import scipy.optimize
import scipy.special


def classifier(rng, num_classes=3, num_features=4, count=40, **layer):
    """Returns a model that was not trained, with its data, all in float64."""
    inputs = keras.Input((2,), dtype="float64")
    features = keras.layers.Dense(
        num_features, activation="tanh", dtype="float64"
    )(inputs)
    outputs = keras.layers.Dense(num_classes, dtype="float64", **layer)(
        features
    )
    model = keras.Model(inputs, outputs)
    for weight in model.weights:
        weight.assign(rng.normal(size=weight.shape))
    x = rng.normal(size=(count, 2))
    return model, x, rng.integers(0, num_classes, count)


def ridge_regression(rng, noise_scale, prior_precision, count=30):
    """Returns a linear model at the mode of its posterior, with its data."""
    x = rng.normal(size=(count, 3))
    y = x @ rng.normal(size=(3, 2)) + 0.5
    y += noise_scale * rng.normal(size=y.shape)
    design = np.concatenate([x, np.ones((count, 1))], axis=1)
    precision = design.T @ design / noise_scale**2
    precision += prior_precision * np.eye(4)
    theta = np.linalg.solve(precision, design.T @ y / noise_scale**2)
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="float64"),
            keras.layers.Dense(2, dtype="float64"),
        ]
    )
    model.layers[-1].set_weights([theta[:3], theta[3]])
    return model, x, y


def logistic_regression(rng, prior_precision, separation=1.5, count=50):
    """Returns a model at its mode: two inputs, two classes of two clusters."""
    y = np.repeat([0, 1], count // 2)
    cluster = rng.integers(0, 2, count)
    center = np.eye(2)[cluster] * np.where(y == 0, -2.0, 2.0)[:, np.newaxis]
    x = separation * center + rng.normal(size=(count, 2))
    x = x.astype(np.float32).astype(np.float64)
    sign = 2.0 * y - 1.0

    def loss(theta):
        return (
            np.sum(np.logaddexp(0.0, -sign * (x @ theta)))
            + 0.5 * prior_precision * theta @ theta
        )

    theta = scipy.optimize.minimize(loss, np.zeros(2), tol=1e-12).x
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, use_bias=False)]
    )
    model.layers[-1].set_weights([theta[:, np.newaxis]])
    return model, x, y


class LogisticGrid:
    """The posterior of `logistic_regression` on a dense grid.

    Attributes:
        points: `[G, 2]`.
        weights: Probabilities, `[G]`.
        log_evidence: Nats.
    """

    def __init__(self, x, y, prior_precision, low=-6.0, high=26.0, size=1201):
        line = np.linspace(low, high, size)
        self.points = np.stack(
            np.meshgrid(line, line, indexing="ij"), axis=-1
        ).reshape(-1, 2)
        logits = self.points @ x.T
        log_joint = -np.sum(
            np.logaddexp(0.0, np.where(y == 1, -logits, logits)), axis=-1
        )
        log_joint -= 0.5 * prior_precision * np.sum(self.points**2, axis=-1)
        log_joint += np.log(prior_precision / (2.0 * np.pi))
        log_total = scipy.special.logsumexp(log_joint)
        self.weights = np.exp(log_joint - log_total)
        self.log_evidence = log_total + 2.0 * np.log(line[1] - line[0])

    def sample(self, rng, count):
        """Draws points of the grid, `[count, 2]`."""
        chosen = rng.choice(len(self.points), count, p=self.weights)
        return self.points[chosen]
