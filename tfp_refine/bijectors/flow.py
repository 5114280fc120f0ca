"""Base class of the bijectors of this package."""

from typing import Any
from typing import ClassVar

import tensorflow as tf
import tensorflow_probability as tfp


class Flow(tfp.bijectors.Bijector):
    """A bijector of vectors `[..., D]` with named parameters.

    A subclass names its `_formulas`, a module with functions `forward` and
    `inverse`, and its `_axes`: a dict from name of a parameter to a letter for
    each of its axes without batches, such as `"DH"`. Axes of one letter have
    one size; `D` is that of the points.

    Parameters that are variables stay so: they are among the bijector's
    `trainable_variables`, and functions use the value that they have then. (TFP
    keeps results of eager calls, and returns them for the same tensor.)

    Args:
        arguments: The arguments of the subclass, as `locals()`.

    Raises:
        ValueError: If a parameter has too few axes or another dtype, or sizes
            disagree.
    """

    _formulas: Any = None
    _axes: ClassVar[dict[str, str]] = {}

    def __init__(self, arguments):
        axes = self._axes
        given = [arguments[name] for name in axes]
        with tf.name_scope(arguments["name"]):
            dtype = _dtype_of(given)
            self._parameters_in_order = [
                _checked(name, value, len(axes[name]), dtype)
                for name, value in zip(axes, given, strict=True)
            ]
            self._size = _sizes(axes, self._parameters_in_order)["D"]
            super().__init__(
                forward_min_event_ndims=1,
                dtype=dtype,
                validate_args=arguments["validate_args"],
                parameters=arguments,
                name=arguments["name"],
            )

    def forward_and_log_det(self, x):
        """Moves points, and computes both results at once.

        Args:
            x: Points, `[..., D]`.

        Returns:
            y: Points, `[..., D]`.
            log_det: Log determinant of the Jacobian, nats, `[...]`.
        """
        self._check_points(x)
        return self._formulas.forward(x, *self._tensors())

    def _check_points(self, points):
        """Checks that points have the size of the parameters."""
        size = points.shape[-1]
        if None not in (size, self._size) and size != self._size:
            raise ValueError(
                f"Points of the bijector '{self.name}' must have "
                f"{self._size} coordinates. Received: shape {points.shape}"
            )

    def _tensors(self):
        """Returns the parameters as they stand, as the formulas take them."""
        return tuple(map(tf.convert_to_tensor, self._parameters_in_order))

    @classmethod
    def _parameter_properties(cls, dtype):
        return {
            name: tfp.util.ParameterProperties(event_ndims=len(letters))
            for name, letters in cls._axes.items()
        }

    def _forward(self, x):
        return self.forward_and_log_det(x)[0]

    def _inverse(self, y):
        self._check_points(y)
        return self._formulas.inverse(y, *self._tensors())

    def _forward_log_det_jacobian(self, x):
        return self.forward_and_log_det(x)[1]


def _sizes(axes, parameters):
    """Returns the size of each letter; `None` where it is not known."""
    sizes = {}
    for (name, letters), value in zip(axes.items(), parameters, strict=True):
        shape = value.shape
        if shape.rank is None:
            continue
        for letter, size in zip(letters[::-1], shape[::-1], strict=False):
            if size is None:
                continue
            if sizes.setdefault(letter, size) != size:
                raise ValueError(
                    f"`{name}` must have {sizes[letter]} in place of {size}, "
                    f"as the others. Received: shape {shape}"
                )
    return {"D": None} | sizes


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
