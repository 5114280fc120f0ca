"""Bijectors are invertible, and know their Jacobians, for all parameters."""

import hypothesis
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tests.properties import budget
from tests.properties import junk
from tfp_refine import bijectors


def _array(draw, shape, spread=3.0):
    size = int(np.prod(shape))
    numbers = st.floats(-spread, spread, allow_subnormal=False)
    values = draw(st.lists(numbers, min_size=size, max_size=size))
    return np.reshape(np.array(values, "float64"), shape)


@st.composite
def flows(draw):
    """Draws a bijector, with points for it."""
    size, batch = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["radial", "planar", "coupling"]))
    if kind == "radial":
        flow = bijectors.Radial(
            _array(draw, (size,)), *(_array(draw, ()) for _ in range(2))
        )
    elif kind == "planar":
        flow = bijectors.Planar(
            _array(draw, (size,)), _array(draw, (size,)), _array(draw, ())
        )
    else:
        units = draw(st.integers(1, 3))
        booleans = st.lists(st.booleans(), min_size=size, max_size=size)
        shapes = [
            (size, units),
            (units,),
            (units, size),
            (size,),
            (units, size),
            (size,),
        ]
        flow = bijectors.GatedCoupling(
            np.array(draw(booleans), "float64"),
            *(_array(draw, shape, 1.5) for shape in shapes),
        )
    return flow, tf.constant(_array(draw, (batch, size), 10.0))


@budget.cases(15)
@hypothesis.given(flows())
def test_the_inverse_inverts(drawn):
    flow, x = drawn
    y = flow.forward(x)
    assert np.all(np.isfinite(y))
    # An identity: TFP would return the points that it remembers.
    found = flow.inverse(tf.identity(y))
    # As far as the flow has not pressed them together.
    log_det = flow.forward_log_det_jacobian(x, event_ndims=1)
    hypothesis.assume(np.min(log_det) > -12.0)
    np.testing.assert_allclose(found, x, rtol=1e-6, atol=1e-6)


@budget.cases(15)
@hypothesis.given(flows())
def test_the_log_determinant_is_that_of_the_jacobian(drawn):
    flow, x = drawn
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = flow.forward(x)
    jacobians = tape.batch_jacobian(y, x, experimental_use_pfor=False)
    found = flow.forward_log_det_jacobian(x, event_ndims=1)
    sign, expected = np.linalg.slogdet(jacobians.numpy())
    assert np.all(np.isfinite(found))
    hypothesis.assume(np.min(expected) > -25.0)  # of a matrix that is singular
    assert np.all(sign > 0.0)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


_SHAPES = st.lists(st.integers(1, 3), max_size=3).map(tuple)


@budget.cases(15)
@hypothesis.given(
    st.sampled_from([bijectors.Radial, bijectors.Planar]),
    st.integers(0, 2),
    st.one_of(_SHAPES.map(np.ones), junk.ANYTHING),
)
def test_wrong_parameters_are_refused_or_make_a_flow(kind, index, value):
    parameters = [np.ones(2), np.ones(2), np.ones(())]
    if kind is bijectors.Radial:
        parameters[1] = np.ones(())
    parameters[index] = value
    try:
        flow = kind(*parameters)
    except (TypeError, ValueError):
        return
    try:
        y = flow.forward(tf.ones([1, 2], flow.dtype))
    except ValueError:
        return
    if np.all(np.isfinite(np.asarray(value, "float64"))):
        assert np.all(np.isfinite(y))


def test_points_of_another_size_are_refused():
    flow = bijectors.Radial(np.ones(2), 1.0, 2.0)
    with pytest.raises(ValueError, match="must have 2 coordinates"):
        flow.forward(tf.ones([1, 3], tf.float64))
