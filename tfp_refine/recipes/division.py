"""Division of networks among the factors on a KL divergence."""

import numpy as np
import numpy.typing as npt

from tfp_refine import _validation
from tfp_refine import ensembles


def divide_networks(
    kl_scales: npt.ArrayLike, weights: npt.ArrayLike, num_networks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Divides the networks of an ensemble among factors on the KL divergence.

    Factors get networks by the largest remainders. One that gets none shares a
    network: it has a member of its own behind the others, started from the
    first networks. So the mixture of all members is that of the weights,
    without loss of a warm component that has little weight, but keeps cold ones
    from great errors.

    Args:
        kl_scales: Factors on the KL divergence, `[K]`.
        weights: Their weights in the mixture, `[K]`; not negative, with the sum
            1.
        num_networks: Number of networks.

    Returns:
        kl_scales: Factor of each member, `[M]`; member `m` is that of network
            `m % num_networks`.
        member_weights: Weight of each member, `[M]`.

    Raises:
        ValueError: If an argument is invalid.
    """
    weights = _validation.weights("weights", weights, None)
    kl_scales = _validation.array("kl_scales", kl_scales, len(weights))
    counts = ensembles.apportion(weights, num_networks)
    alone = np.flatnonzero((counts == 0) & (weights > 0.0))
    factors = np.append(np.repeat(np.arange(len(weights)), counts), alone)
    counts[alone] = 1
    return kl_scales[factors], weights[factors] / counts[factors]
