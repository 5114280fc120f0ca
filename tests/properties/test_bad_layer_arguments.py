"""No argument of a layer, however wrong, crashes it or makes it lie."""

import re

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.properties import budget
from tests.properties import junk
from tests.properties import layer_cases
from tests.support import conv_layers

# Python's and Keras' way to refuse.
REFUSALS = (TypeError, ValueError)

# Values of each argument; none of the values that `junk` draws for it is.
_COMMON = {
    "num_train_examples": junk.not_positive_integers(none=True),
    "kl_scale": junk.not_positive_numbers(zero=True),
    "seed": junk.not_seeds(),
}
_PER_KIND = {
    "units": junk.not_positive_integers(),
    "filters": junk.not_positive_integers(),
    "groups": junk.not_positive_integers(),
    "depth_multiplier": junk.not_positive_integers(),
    "kernel_size": junk.not_sizes(),
    "strides": junk.not_sizes(),
    "dilation_rate": junk.not_sizes(),
    "padding": junk.not_names(),
    "data_format": junk.not_names(none=True),
    "flow_length": junk.not_positive_integers(zero=True),
    "flow_units": junk.not_positive_integers(),
    "auxiliary_flow_length": junk.not_positive_integers(zero=True),
    "auxiliary_flow_units": junk.not_positive_integers(),
    "masks": junk.not_names(),
    "auxiliary": junk.not_names(),
    "log_var_init": junk.not_finite_numbers(),
    "z_var_init": junk.not_positive_numbers(),
    "max_std": junk.not_positive_numbers(none=True),
    "inference_estimator": junk.not_names(),
    "input_dim": junk.not_positive_integers(),
    "output_dim": junk.not_positive_integers(),
}


@st.composite
def _with_a_wrong_argument(draw):
    case = draw(layer_cases.any_of(layer_cases.ALL))
    strategies = _COMMON | {
        name: strategy
        for name, strategy in _PER_KIND.items()
        if name in case.arguments
    }
    name = draw(st.sampled_from(sorted(strategies)))
    return case, name, draw(strategies[name])


@budget.cases(150)
@hypothesis.given(_with_a_wrong_argument())
def test_wrong_arguments_are_refused_by_name(drawn):
    case, name, value = drawn
    with pytest.raises(REFUSALS, match=re.escape(name)):
        case.make(**{name: value})


@st.composite
def _with_junk(draw):
    case = draw(layer_cases.any_of(layer_cases.ALL))
    name = draw(st.sampled_from(sorted(case.arguments)))
    return case, name, draw(junk.ANYTHING)


@budget.cases(40)
@hypothesis.given(_with_junk())
def test_an_argument_is_refused_or_the_outputs_are_finite(drawn):
    case, name, value = drawn
    x = case.inputs()
    if name == "input_dim":
        x = np.zeros_like(x)  # an index of however few
    try:
        layer = case.make(**{name: value})
        outputs = layer(x)
        losses = layer.losses
    except REFUSALS:
        return
    assert np.all(np.isfinite(np.asarray(outputs, "float64")))
    assert np.all(np.isfinite(list(map(float, losses))))


_SHAPES = st.lists(st.integers(0, 3), max_size=5).map(tuple)


@budget.cases(25)
@hypothesis.given(layer_cases.any_of(layer_cases.LINEAR), _SHAPES)
def test_inputs_are_refused_or_have_the_promised_shape(case, shape):
    layer = case.make()
    x = np.ones(shape, case.input_dtype())
    try:
        outputs = layer(x)
    except REFUSALS:
        return
    if shape[0]:
        assert tuple(outputs.shape) == layer.compute_output_shape(shape)
    assert np.all(np.isfinite(np.asarray(outputs, "float64")))


@budget.cases(15)
@hypothesis.given(layer_cases.any_of(layer_cases.LINEAR), _SHAPES)
def test_other_inputs_of_a_built_layer_are_refused_or_work(case, shape):
    layer = case.make()
    layer(case.inputs())
    try:
        outputs = layer(np.ones(shape, case.input_dtype()))
    except REFUSALS:
        return
    if shape[0]:
        assert tuple(outputs.shape) == layer.compute_output_shape(shape)


@budget.cases(15)
@hypothesis.given(layer_cases.any_of(layer_cases.LINEAR))
def test_no_examples_give_no_outputs(case):
    layer = case.make()
    x = np.zeros((0, *case.shape), case.input_dtype())
    for sample in (True, False):
        outputs = layer(x, sample=sample)
        assert tuple(outputs.shape) == layer.compute_output_shape(x.shape)


@budget.cases(15)
@hypothesis.given(
    layer_cases.any_of(
        [kind for kind in layer_cases.LINEAR if not kind.draws_weights]
    ),
    st.sampled_from(["kernel", "bias"]),
)
def test_a_prior_that_needs_a_draw_is_refused_where_there_is_none(case, part):
    if case.kind in conv_layers.DEPTHWISE and part == "kernel":
        part = "depthwise"
    name = f"{part}_regularizer"
    if part != "kernel" or case.kind not in layer_cases.WITH_FLOWS:
        posterior = "kernel" if part == "depthwise" else part
        case.arguments[f"{posterior}_posterior"] = "mean_field"
    with pytest.raises(ValueError, match=f"`{name}` ScaleMixtureKL"):
        case.make(**{name: "scale_mixture_kl"})


_DTYPES = st.sampled_from(["float16", "float64", "int32", "bool", "uint8"])


@budget.cases(15)
@hypothesis.given(layer_cases.any_of(layer_cases.LINEAR), _DTYPES)
def test_inputs_of_any_dtype_work(case, dtype):
    layer = case.make()
    outputs = layer(np.ones((2, *case.shape), dtype))
    assert keras.backend.standardize_dtype(outputs.dtype) == layer.compute_dtype
    assert np.all(np.isfinite(np.asarray(outputs, "float64")))


@budget.cases(10)
@hypothesis.given(layer_cases.any_of(layer_cases.SAMPLED), _SHAPES)
def test_inputs_of_sampled_layers_are_refused_or_work(case, shape):
    layer = case.make()
    dtype = case.inputs().dtype
    try:
        outputs = layer(np.zeros(shape, dtype))
    except REFUSALS:
        return
    assert np.all(np.isfinite(np.asarray(outputs, "float64")))
