"""Chains of short normalizing flows, and where they are applied."""

import dataclasses

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.math import planar_flow
from tfp_refine.math import radial_flow

KINDS = ("radial", "planar")
SPACES = ("whitened", "paper")
BASES = ("laplace", "standard_normal")
_LOG_2_PI = float(np.log(2.0 * np.pi))


@dataclasses.dataclass(frozen=True)
class Flow:
    """A chain of flows of one kind, after or before the base's transformation.

    Attributes:
        kind: "radial" or "planar".
        length: Number of flows, 0 or more.
        space: "whitened": the flows move standard normal draws, which the base
            then makes weights of. "paper": they move draws of the base, weights
            themselves.
        base: "laplace", or "standard_normal": weights from N(0, I).
    """

    kind: str = "radial"
    length: int = 5
    space: str = "whitened"
    base: str = "laplace"

    def __post_init__(self):
        _validation.one_of("flow", self.kind, KINDS)
        _validation.not_negative_integer("flow_length", self.length)
        _validation.one_of("space", self.space, SPACES)
        _validation.one_of("base", self.base, BASES)

    def initial_params(self, size, rng):
        """Draws parameters of flows that are near the identity.

        Args:
            size: `D`, the number of weights.
            rng: `numpy` generator.

        Returns:
            params: Dict of arrays, `[length, D]` or `[length]`.
        """
        length = self.length

        def uniform(*shape):
            return rng.uniform(-1.0, 1.0, shape) / np.sqrt(size)

        if self.kind == "planar":
            return {
                "u": uniform(length, size),
                "w": uniform(length, size),
                "b": uniform(length),
            }
        if self.space == "paper":
            return {
                "x0": uniform(length, size),
                "alpha_prime": uniform(length),
                "beta_prime": uniform(length),
            }
        # Reaching as far as the draws lie from their center.
        reach = np.full(length, np.sqrt(size))
        return {
            "x0": rng.standard_normal((length, size)),
            "alpha_prime": reach,
            "beta_prime": reach + rng.standard_normal(length),
        }

    def base_transformation(self, laplace, dtype):
        """Returns what makes weights of standard normal draws, at the base.

        Args:
            laplace: Fitted `Laplace`.
            dtype: Of the draws.

        Returns:
            transform: Function of tensors `[S, D]` to `[S, D]`.
            log_det: Log determinant of its Jacobian, nats, float.
        """
        if self.base == "laplace":
            return laplace.transformation(dtype)
        return tf.identity, 0.0

    def forward(self, params, z, transform, log_det):
        """Makes weights, with their density, of standard normal draws.

        Args:
            params: As `initial_params`.
            z: Draws, `[S, D]`.
            transform: Function of them to weights under the base, `[S, D]`.
            log_det: Log determinant of its Jacobian, nats.

        Returns:
            theta: Weights, `[S, D]`.
            log_q: Their log density, nats, `[S]`.
        """
        log_q = -0.5 * tf.reduce_sum(tf.square(z) + _LOG_2_PI, axis=-1)
        log_q -= tf.cast(log_det, z.dtype)
        theta = z
        if self.space == "paper":
            theta = transform(theta)
        function, names = {
            "radial": (radial_flow, ("x0", "alpha_prime", "beta_prime")),
            "planar": (planar_flow, ("u", "w", "b")),
        }[self.kind]
        for step in range(self.length):
            theta, flow_log_det = function.forward(
                theta, *(params[name][step] for name in names)
            )
            log_q -= flow_log_det
        if self.space == "whitened":
            theta = transform(theta)
        return theta, log_q
