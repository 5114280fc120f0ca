"""Checks of arguments that are handed on to Keras."""

from tfp_refine._validation import kind
from tfp_refine._validation import one_of

_REDUCTIONS = (
    "none",
    "sum",
    "sum_over_batch_size",
    "mean",
    "mean_with_sample_weight",
)


def check_name(name):
    """Checks the argument `name`, a string or `None`, and returns it."""
    if name is not None and not isinstance(name, str):
        raise ValueError(
            f"`name` must be a string or None. Received: name={name!r}"
        )
    return name


def check_dtype(dtype):
    """Checks that Keras knows the argument `dtype`, and returns it."""
    if not kind.holds(_is_dtype, dtype):
        raise ValueError(
            "`dtype` must be a Keras dtype policy, its name, or None. "
            f"Received: dtype={dtype!r}"
        )
    return dtype


def check_reduction(reduction):
    """Checks the argument `reduction` of a loss, and returns it."""
    if reduction is None:
        return None
    return one_of.one_of("reduction", reduction, _REDUCTIONS)


def _is_dtype(dtype):
    import keras  # figures need none

    # Keras returns anything that is not a policy as it is.
    return hasattr(keras.dtype_policies.get(dtype), "convert_input")
