"""Weights of a mixture of predictive distributions, from held-out data."""

import numpy as np
import numpy.typing as npt
import scipy.special

from tfp_refine import _validation

# The largest change of a weight in the last step, and the most steps.
_TOLERANCE = 1e-9
_MAX_STEPS = 20000


def stacking_weights(
    log_likelihood: npt.ArrayLike,
    *,
    sample_weight: npt.ArrayLike | None = None,
    concentration: float = 2.0,
) -> np.ndarray:
    """Computes the weights of a mixture of predictive distributions.

    They maximize `sum_n log sum_k w_k p_k(y_n)` plus the log density of a
    symmetric Dirichlet prior, by expectation maximization. Held-out examples
    are scored by the mixture, so a component that is wrong about a few of them
    still helps with the others; a choice of the single best component has more
    variance.

    Args:
        log_likelihood: `log p_k(y_n)`, nats, of `N` held-out examples under `K`
            predictive distributions, each averaged over its draws, `[K, N]`.
        sample_weight: How often each example counts, `[N]`, not negative. Once
            if `None`.
        concentration: Concentration of the Dirichlet prior, at least 1. 1 gives
            the maximum likelihood; 2 counts as if each component had explained
            one example more. Defaults to `2.0`.

    Returns:
        weights: Array `[K]`, not negative, with the sum 1.

    Raises:
        ValueError: If `log_likelihood` is not a matrix with rows and columns,
            has NaN or positive infinity, or an example that is impossible under
            all components; weights are not one for each example, or negative;
            or `concentration` is less than 1.

    Example:

    ```python
    log_likelihood = [[-1.0, -9.0, -1.0], [-2.0, -2.0, -2.0]]
    tfp_refine.ensembles.stacking_weights(log_likelihood)  # 0.49, 0.51
    ```

    Reference:
        - [Yao et al., 2018](https://doi.org/10.1214/17-BA1091)
    """
    concentration = _validation.positive("concentration", concentration)
    if concentration < 1.0:
        raise ValueError(
            "`concentration` must be at least 1. Received: "
            f"concentration={concentration}"
        )
    try:
        values = np.asarray(log_likelihood, np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if (
        values.ndim != 2
        or not values.size
        or not np.all(values < np.inf)
        or np.any(np.all(values == -np.inf, axis=0))
    ):
        raise ValueError(
            "`log_likelihood` must hold log densities of held-out examples, "
            "[K, N], less than infinity, each finite for some component. "
            f"Received: {log_likelihood!r}"
        )
    count, num_examples = values.shape
    counts = np.ones(num_examples)
    if sample_weight is not None:
        counts = _validation.array("sample_weight", sample_weight, num_examples)
        if np.any(counts < 0.0) or not np.any(counts):
            raise ValueError(
                "`sample_weight` must not be negative, nor 0 for all examples. "
                f"Received: sample_weight={counts.tolist()}"
            )
    total = counts.sum() + count * (concentration - 1.0)
    weights = np.full(count, 1.0 / count)
    for _ in range(_MAX_STEPS):
        with np.errstate(divide="ignore"):
            joint = values + np.log(weights)[:, np.newaxis]
        shares = scipy.special.softmax(joint, axis=0)
        before = weights
        weights = (shares @ counts + concentration - 1.0) / total
        if np.max(np.abs(weights - before)) < _TOLERANCE:
            break
    return weights
