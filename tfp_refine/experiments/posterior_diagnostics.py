"""What is said of posteriors besides their predictions."""

import numpy as np

from tfp_refine import bijectors


def num_params(refined):
    """Returns the number of parameters of a refined posterior's flows."""
    return sum(
        int(np.size(part.parameters[name]))
        for part in refined.bijector.bijectors
        if isinstance(part, bijectors.Radial | bijectors.Planar)
        for name in type(part).parameter_properties()
    )


def diagnostics(samples):
    """Returns how far samples can be trusted.

    Args:
        samples: What `sampling.nuts` returned.

    Returns:
        about: Dict of floats.
    """
    return {name: float(v) for name, v in samples.diagnostics.items()}
