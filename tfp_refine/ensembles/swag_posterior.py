"""Gaussians of weights beside which a model has moving averages."""

from typing import Any

import numpy as np

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.ensembles import moving_statistics
from tfp_refine.posteriors import covariances

_MIN_VARIANCE = 1e-30


class SWAGPosterior(posteriors.GaussianPosterior):
    """Gaussian whose draws have moving averages of their own.

    Those of batch normalization: of the training inputs, under the weights of
    the draw. Training inputs are not saved with the posterior.

    Args:
        view: As for `GaussianPosterior`, as all arguments.
        loc: Mean, `[P]`.
        covariance: One of `covariances`.
        fixed: Values of the view's fixed weights, a list.
        link: `Link`, or `None`.
        history: Dict of arrays.
        diagnostics: Dict of numbers.
        prior_scale: Standard deviation of the prior, or `None`.

    Example:

    ```python
    posterior = tfp_refine.ensembles.swag(model, x_train, y_train)
    posterior.save("swag.zip")
    loaded = tfp_refine.load_posterior("swag.zip", model)
    weights = loaded.sample(20)  # [20, P]
    ```
    """

    _x = None

    def set_data(self, x: Any) -> "SWAGPosterior":
        """Gives the training inputs again, after the posterior was loaded.

        Args:
            x: Training inputs, as for `swag`.

        Returns:
            self: This object.

        Raises:
            ValueError: If they are invalid, or do not fit the model.
        """
        x = functional.data.inputs(x)
        self._x = functional.model_inputs.fit(self.model, x)
        return self

    def sample(
        self, num_samples: int, *, seed: int | None = None
    ) -> np.ndarray:
        """Draws weights; needs no training inputs.

        Args:
            num_samples: `S`, number of draws.
            seed: Integer that fixes the draws; fresh ones if `None`.

        Returns:
            weights: `numpy` array `[S, P]`, in the order of `view`.

        Raises:
            ValueError: If an argument is invalid.
        """
        return posteriors.GaussianPosterior(
            self.view, self.loc, self.covariance, self.fixed
        ).sample(num_samples, seed=seed)

    def _made_of(self, z):
        if self._x is None:
            raise ValueError(
                "Training inputs are not saved with the posterior, and the "
                "model has moving averages of them: give them again by "
                "`set_data(x)`, to each of the `members` of a mixture."
            )
        draws = super()._made_of(z)
        fixed = moving_statistics.recompute(
            self.view, draws.params, self.fixed, self._x
        )
        return draws._replace(fixed=fixed, stacked=True)


def moments(snapshots, rank):
    """Computes the mean `[P]`, and the covariance, of SWAG.

    Snapshots are `[T, P]`. Half of the variance of each weight is the diagonal;
    deviations of the last `rank`, 2 or more, from the means until then are the
    other half of the covariance. If `rank` is 0, it is the diagonal alone.
    """
    exact = snapshots.astype(np.float64)
    variance = np.maximum(np.var(exact, axis=0), _MIN_VARIANCE)
    if not rank:
        mean, scale = np.mean(exact, axis=0), np.sqrt(variance)
        dtype = snapshots.dtype
        return mean.astype(dtype), covariances.Diagonal(scale.astype(dtype))
    counts = np.arange(1, len(exact) + 1)[:, np.newaxis]
    running = np.cumsum(exact, axis=0) / counts
    deviations = (exact - running)[-rank:]
    mean, scale, factor = (
        value.astype(snapshots.dtype)
        for value in (
            running[-1],
            np.sqrt(0.5 * variance),
            deviations / np.sqrt(2.0 * (rank - 1.0)),
        )
    )
    return mean, covariances.LowRank(scale, factor)
