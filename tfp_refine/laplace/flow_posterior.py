"""A posterior that a normalizing flow has refined."""

import copy
import dataclasses

import numpy as np
import tensorflow as tf

from tfp_refine.laplace import density_posterior
from tfp_refine.laplace import flows


class FlowPosterior(density_posterior.DensityPosterior):
    """Laplace's approximation after a chain of normalizing flows.

    Made by `refine`, or loaded from a file; not usually constructed.

    Args:
        base: Fitted `Laplace`, of which a copy is kept.
        flow: `Flow`.
        params: Parameters of the flows, a dict of arrays.
        prior_precision: 1 / variance of the prior that it was refined for.
        trace: See the attribute.

    Attributes:
        flow: `Flow`: its `kind`, `length`, `space` and `base`.
        params: Parameters of the flows, a dict of arrays.
        trace: Bound in the course of training, estimated from batches, nats,
            float64 array, `[T]`.
    """

    def __init__(self, base, flow, params, prior_precision, trace):
        super().__init__(base.network, base.likelihood, base.activation)
        self.inputs, self.targets = base.inputs, base.targets
        self.base = copy.copy(base)
        self._digest = base._digest
        self.flow = flow
        self.params = params
        self.trace = np.asarray(trace, np.float64)
        self._prior_precision = prior_precision
        self._transformation = flow.base_transformation(base, tf.float64)

    @property
    def prior_precision(self):
        """1 / variance of the prior that it was refined for."""
        return self._prior_precision

    def data(self, x, y=None, batch_size=256, verbose=0):
        """Checks data, as `DensityPosterior`."""
        return self.base.data(x, y, batch_size, verbose)

    def forward(self, z):
        """Makes weights of standard normal draws, as `DensityPosterior`."""
        params = {
            name: tf.cast(value, z.dtype) for name, value in self.params.items()
        }
        return self.flow.forward(params, z, *self._transformation)

    def contents(self):
        """Returns what a file of it holds, as `WeightPosterior` says."""
        description, arrays = self.base.contents()
        about = {
            "base": type(self.base).__name__,
            "flow": dataclasses.asdict(self.flow),
            "refined_for": self.prior_precision,
        }
        params = {f"flow_{name}": v for name, v in self.params.items()}
        return description | about, arrays | params | {"trace": self.trace}

    @classmethod
    def from_contents(cls, network, likelihood, description, arrays):
        """Restores what `contents` returned, as `WeightPosterior` says."""
        base = cls.classes[description["base"]].from_contents(
            network, likelihood, description, arrays
        )
        params = {
            name.removeprefix("flow_"): value
            for name, value in arrays.items()
            if name.startswith("flow_")
        }
        return cls(
            base,
            flows.Flow(**description["flow"]),
            params,
            description["refined_for"],
            arrays["trace"],
        )
