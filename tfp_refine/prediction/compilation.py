"""What predicts of a model is compiled once."""

import functools
import weakref

from tfp_refine import functional
from tfp_refine import layers

# For as long as the model lives.
_PREDICTORS = weakref.WeakKeyDictionary()


def compiled(model, sample):
    """Returns a model's `Forward` and `Predictor`, made at the first call.

    Args:
        model: Built `keras.Model`.
        sample: Whether layers draw their weights.

    Returns:
        forward: `Forward`.
        predictor: `Predictor`.
    """
    by_mode = _PREDICTORS.setdefault(model, {})
    if sample not in by_mode:
        # A proxy, lest the dictionary's value keep its key alive.
        proxy = weakref.proxy(model)
        # Explicit either way: the program outlives the scope of this call.
        scope = functools.partial(layers.mean_weights, active=not sample)
        forward = functional.Forward(proxy, scope=scope)
        check = functools.partial(functional.arrays.check_fits, proxy)
        by_mode[sample] = forward, functional.Predictor(forward, check)
    return by_mode[sample]
