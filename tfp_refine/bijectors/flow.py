"""What the bijectors of this package have in common."""

import tensorflow as tf
import tensorflow_probability as tfp


class Flow(tfp.bijectors.Bijector):
    """A bijector of vectors `[..., D]` with named parameters.

    Parameters that are variables stay so: a change of them is seen, and they
    are among the bijector's `trainable_variables`.

    Args:
        event_ndims: Dict from name of a parameter to the number of its axes
            without batches.
        arguments: The arguments of the subclass, as `locals()`.

    Raises:
        ValueError: If a parameter has too few axes, or another dtype.
    """

    def __init__(self, event_ndims, arguments):
        given = [arguments[name] for name in event_ndims]
        with tf.name_scope(arguments["name"]):
            dtype = _dtype_of(given)
            self._parameters_in_order = [
                _checked(name, value, event_ndims[name], dtype)
                for name, value in zip(event_ndims, given, strict=True)
            ]
            super().__init__(
                forward_min_event_ndims=1,
                dtype=dtype,
                validate_args=arguments["validate_args"],
                parameters=arguments,
                name=arguments["name"],
            )

    def _tensors(self):
        """Returns the parameters as they stand, a tuple of tensors."""
        return tuple(map(tf.convert_to_tensor, self._parameters_in_order))


def parameter_properties(event_ndims):
    """Returns what `tfp.bijectors.Bijector._parameter_properties` must."""
    return {
        name: tfp.util.ParameterProperties(event_ndims=ndims)
        for name, ndims in event_ndims.items()
    }


def _dtype_of(values):
    for value in values:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and tf.as_dtype(dtype).is_floating:
            return tf.as_dtype(dtype)
    return tf.float32


def _checked(name, value, event_ndims, dtype):
    is_reference = isinstance(value, tf.Variable | tfp.util.DeferredTensor)
    if not is_reference:
        # A tensor keeps its dtype, which is checked below.
        value = tf.convert_to_tensor(
            value, None if tf.is_tensor(value) else dtype
        )
    rank = value.shape.rank
    if value.dtype != dtype or (rank is not None and rank < event_ndims):
        raise ValueError(
            f"`{name}` must have {event_ndims} axes or more and dtype "
            f"{tf.as_dtype(dtype).name}. Received: shape {value.shape}, dtype "
            f"{value.dtype.name}"
        )
    return value
