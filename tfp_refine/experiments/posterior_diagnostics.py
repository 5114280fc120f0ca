"""What is said of posteriors besides their predictions."""

import numpy as np


def num_params(refined):
    """Returns the number of parameters of a refined posterior's flows."""
    return sum(np.size(value) for value in refined.params.values())


def diagnostics(samples):
    """Returns how far samples can be trusted.

    Args:
        samples: `sampling.WeightSamples`.

    Returns:
        about: Dict of floats.
    """
    return {
        "max_r_hat": float(np.max(samples.r_hat)),
        "min_effective_sample_size": float(
            # An estimate, which may be negative for few samples.
            max(0.0, np.min(samples.effective_sample_size))
        ),
        "num_divergences": float(samples.num_divergences),
        "mean_leapfrogs": float(samples.mean_leapfrogs),
    }
