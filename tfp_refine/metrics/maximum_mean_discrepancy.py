"""Distance of two sets of samples."""

import numpy as np
import numpy.typing as npt
from keras import ops
from scipy.spatial import distance

from tfp_refine import _validation
from tfp_refine.metrics import inputs

# Samples of each set that published figures take the bandwidth from.
_PAPER_SAMPLES = 50


def mmd(
    reference: npt.ArrayLike,
    samples: npt.ArrayLike,
    bandwidth: float | str | None = None,
) -> float:
    """Computes the squared maximum mean discrepancy of two sets of samples.

    With the kernel `k(x, y) = exp(-|x - y|**2 / bandwidth**2)`, the mean of `k`
    within each set, summed, minus twice that between the sets. Pairs of a
    sample with itself count: it is never negative, and for `n` and `m` samples
    of one distribution it is not 0, but of the order of `1 / n + 1 / m`.

    Args:
        reference: Samples of the reference, `[N, D]`.
        samples: Samples to compare with it, `[M, D]`; one that is repeated may
            be given once.
        bandwidth: Positive number; the median distance between different
            samples of `reference` if `None`, so that several sets can be
            compared with it; or "paper": that of the first 50 of both together.

    Returns:
        mmd: Squared discrepancy, in `[0, 2]`, float.

    Raises:
        ValueError: If there are fewer than 2 reference samples, values are not
            finite, sizes disagree, the bandwidth is not positive, or half of
            the reference are one sample.

    Example:

    ```python
    rng = np.random.default_rng(0)
    tfp_refine.metrics.mmd(rng.normal(size=(200, 2)), rng.normal(size=(200, 2)))
    ```

    Reference:
        - [Gretton et al., 2012](https://jmlr.org/papers/v13/gretton12a.html),
          Eq. 5
    """
    reference, samples = _as_samples(reference, samples)
    if bandwidth is None:
        bandwidth = np.median(distance.pdist(reference))
    elif isinstance(bandwidth, str) and bandwidth == "paper":
        first = (each[:_PAPER_SAMPLES] for each in (reference, samples))
        bandwidth = np.median(distance.pdist(np.concatenate([*first])))
    try:
        bandwidth = _validation.positive("bandwidth", bandwidth)
    except ValueError as error:
        raise ValueError(
            "`bandwidth` must be None, 'paper' or a positive number, and more "
            "than half of the pairs of samples that it is taken from must "
            f"differ. Received: bandwidth={bandwidth!r}"
        ) from error

    def mean_kernel(first: np.ndarray, second: np.ndarray) -> float:
        with np.errstate(over="ignore"):  # a kernel of 0
            ratios = distance.cdist(first, second) / bandwidth
            return float(np.mean(np.exp(-np.square(ratios))))

    discrepancy = (
        mean_kernel(reference, reference)
        + mean_kernel(samples, samples)
        - 2.0 * mean_kernel(reference, samples)
    )
    return float(max(discrepancy, 0.0))  # not -1e-16


def _as_samples(
    reference: npt.ArrayLike, samples: npt.ArrayLike
) -> list[np.ndarray]:
    arrays = [
        ops.convert_to_numpy(inputs.as_array(name, value))
        for name, value in (("reference", reference), ("samples", samples))
    ]
    shapes = [array.shape for array in arrays]
    if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
        raise ValueError(
            "`reference` and `samples` must have shapes [N, D] and [M, D]. "
            f"Received: {shapes[0]} and {shapes[1]}"
        )
    if len(arrays[0]) < 2:
        raise ValueError(
            f"`reference` must hold 2 samples or more. Received: {shapes[0]}"
        )
    return arrays
