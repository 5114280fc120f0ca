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
        prior_scale: Standard deviation of the prior of each weight, which is
            centred and independent: a number, `[P]`, or `None` if there is no
            prior.
        num_train_examples: Number of examples that it was trained with, which
            those of a bound must have; `None` if any number is right.

    Attributes:
        loc: Mean, float array `[P]`.
        covariance: The covariance.
        fixed: Values of the view's fixed weights.
        prior_scale: As above; of the prior.
        num_train_examples: As above.

    Example:

    ```python
    loss = tfp_refine.losses.CategoricalNLL()
    model.compile(tfp_refine.optimizers.IVON(0.1, len(x_train)), loss)
    model.fit(x_train, y_train, epochs=100)
    posterior = tfp_refine.posterior(model)
    posterior.kl_divergence()  # nats
    ```
    """

    def __init__(
        self,
        view: functional.WeightView,
        loc: Any,
        covariance: Any,
        fixed: Any,
        link: functional.links.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
        prior_scale: Any = None,
        num_train_examples: int | None = None,
    ) -> None:
        super().__init__(view, link, history, diagnostics)
        self.loc, self.covariance, self.fixed = loc, covariance, fixed
        self.prior_scale = prior_scale
        self.num_train_examples = num_train_examples

    @property
    def scale(self):
        """Standard deviation of each weight, `[P]`."""
        return np.sqrt(self.covariance.variances())

    def kl_divergence(self) -> float:
        """Computes the KL divergence from the prior, `KL(q || p)`.

        Returns:
            kl: Nats, a float.

        Raises:
            ValueError: If there is no prior.
        """
        if self.prior_scale is None:
            raise ValueError(
                "The posterior has no prior, and so no KL divergence from it. "
                f"Received: {self!r} with prior_scale=None"
            )
        loc = np.asarray(self.loc, np.float64)
        prior = np.broadcast_to(
            np.asarray(self.prior_scale, np.float64), loc.shape
        )
        moments = np.square(loc) + self.covariance.variances()
        terms = 0.5 * (moments / np.square(prior) - 1.0) + np.log(prior)
        return float(np.sum(terms)) - self.covariance.log_det

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
        prior = {}
        if self.prior_scale is not None:
            prior["prior_scale"] = np.asarray(self.prior_scale)
        description = {
            "covariance": type(self.covariance).__name__,
            "num_train_examples": self.num_train_examples,
        }
        return description, {
            "loc": self.loc,
            **prior,
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
            prior_scale=arrays.get("prior_scale"),
            num_train_examples=description["num_train_examples"],
        )
