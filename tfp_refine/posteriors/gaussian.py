"""Gaussian posteriors of a vector of weights."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import files
from tfp_refine.posteriors import covariances
from tfp_refine.posteriors import protocol


class GaussianPosterior(protocol.Posterior):
    """Gaussian distribution of a vector of weights.

    Args:
        view: View of the weights.
        loc: Mean, `[P]`.
        covariance: One of `covariances`: diagonal, full, Kronecker-factored, or
            of low rank and a diagonal.
        fixed: Values of the view's fixed weights, a list.
        link: `Link` of the outputs to class probabilities, or `None`.
        history: Dict of arrays.
        diagnostics: Dict of numbers.

    Attributes:
        loc: Mean, float array `[P]`.
        covariance: The covariance.
        fixed: Values of the view's fixed weights.
    """

    def __init__(
        self,
        view: functional.WeightView,
        loc: Any,
        covariance: Any,
        fixed: Any,
        link: functional.objective.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
    ) -> None:
        super().__init__(view, link, history, diagnostics)
        self.loc, self.covariance, self.fixed = loc, covariance, fixed

    @property
    def scale(self):
        """Standard deviation of each weight, `[P]`."""
        return np.sqrt(self.covariance.variances())

    def transform(self, z: Any) -> tf.Tensor:
        """Makes weights of standard normal draws.

        Args:
            z: Tensor, `[..., R]`.

        Returns:
            weights: `[..., P]`.
        """
        return tf.cast(self.loc, z.dtype) + self.covariance.deviation(z)

    def _draw(self, num_samples, seed, at_once):
        size = max(self.covariance.num_draws, 1)
        for z in protocol.normal_draws(num_samples, size, seed, at_once):
            yield self._made_of(z)

    def _made_of(self, z):
        return protocol.Draws(
            tf.cast(self.transform(z), self.view.dtype),
            np.arange(z.shape[0]),
            self.fixed,
        )

    def _contents(self):
        return {"covariance": type(self.covariance).__name__}, {
            "loc": self.loc,
            **self.covariance.arrays(),
            **files.pack(self.fixed),
        }

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        return cls(
            view,
            arrays["loc"],
            covariances.from_arrays(description["covariance"], arrays),
            files.unpack(arrays),
            link,
        )
