"""Centers and scales columns, and goes back to original units."""

from typing import Any
from typing import NamedTuple

import numpy as np
from sklearn import preprocessing


class Standardizer(NamedTuple):
    """An affine map of each column, `(x - loc) / scale`.

    Attributes:
        loc: Value subtracted from each column, float64, `[P]`.
        scale: Divisor of each column, positive, float64, `[P]`. The
            root mean squared error and standard deviations in original units
            are `scale` times the standardized ones.

    Example:

    ```python
    scaler = tfp_refine.datasets.Standardizer.fit(np.array([[1.0], [3.0]]))
    scaler.transform(np.array([[4.0]]))  # [[2.0]]
    ```
    """

    loc: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, x: np.ndarray) -> "Standardizer":
        """Fits mean and standard deviation of each column.

        A constant column gets scale 1: it becomes zeros.

        Args:
            x: Training rows, `[N, P]`.

        Returns:
            standardizer: `Standardizer` under which `x` has mean 0 and
                (population) standard deviation 1 in each column.

        Raises:
            ValueError: If `x` is not `[N, P]` with a row, or not finite.
        """
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or x.shape[0] == 0:
            raise ValueError(
                "`x` must have shape [N, P] with N >= 1. "
                f"Received: shape {x.shape}"
            )
        if not np.all(np.isfinite(x)):
            raise ValueError(
                "`x` must be finite. Received: "
                f"{x[~np.isfinite(x)][0]} at row, column "
                f"{tuple(np.argwhere(~np.isfinite(x))[0].tolist())}"
            )
        fitted = preprocessing.StandardScaler().fit(x)
        return cls(fitted.mean_, fitted.scale_)

    def transform(self, x: np.ndarray) -> np.ndarray:
        """Standardizes rows.

        Args:
            x: Rows in original units, `[..., P]`.

        Returns:
            standardized: Rows, float64, `[..., P]`.
        """
        x = self._check_columns("x", x)
        return (x - self.loc) / self.scale

    def inverse(self, standardized: np.ndarray) -> np.ndarray:
        """Brings standardized rows, such as predictions, to original units.

        Args:
            standardized: Rows, `[..., P]`.

        Returns:
            x: Rows in original units, float64, `[..., P]`.
        """
        standardized = self._check_columns("standardized", standardized)
        return standardized * self.scale + self.loc

    def inverse_log_likelihood(self, log_likelihood: Any) -> Any:
        """Brings log-densities of standardized rows to original units.

        A density of `x` is that of the standardized row over the volume it
        was stretched by: `log p(x) = log p(standardized) - sum(log(scale))`.

        Args:
            log_likelihood: Log-density a row (or its mean over rows) in
                standardized units, nats, `[...]`.

        Returns:
            log_likelihood: The same in original units, nats, `[...]`.
        """
        log_likelihood = _numbers("log_likelihood", log_likelihood)
        return log_likelihood - float(np.sum(np.log(self.scale)))

    def _check_columns(self, name, x):
        x = _numbers(name, x)
        # One column would broadcast silently against many.
        if x.ndim == 0 or x.shape[-1] != self.loc.shape[0]:
            raise ValueError(
                f"`{name}` must have {self.loc.shape[0]} columns, as in `fit`, "
                f"along the last axis. Received: shape {x.shape}"
            )
        return x


def _numbers(name, value):
    try:
        return np.asarray(value, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise ValueError(
            f"`{name}` must be an array of numbers. Received: "
            f"{type(value).__name__} ({error})"
        ) from error
