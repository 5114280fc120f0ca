import inspect
import re

import keras
import numpy as np
import pytest

from tests.support import conv_layers
from tfp_refine import _validation
from tfp_refine import layers


def _assert_refused(make_layer, message, **arguments):
    with pytest.raises(ValueError, match=message):
        conv_layers.make(make_layer, **arguments)


@conv_layers.every_layer
@pytest.mark.parametrize("number", [0, -3, 2.0, "4", None])
def test_filters_must_be_a_positive_integer(make_layer, number):
    depthwise = make_layer in conv_layers.DEPTHWISE
    name = "depth_multiplier" if depthwise else "filters"
    message = (
        f"`{name}` must be a positive integer. "
        f"Received: {name}={re.escape(repr(number))}"
    )
    _assert_refused(make_layer, message, filters=number)


@pytest.mark.slow
@conv_layers.every_layer
@pytest.mark.parametrize("name", ["kernel_size", "strides", "dilation_rate"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "a", (2,) * 4, (), (2, 2, 0)])
def test_sizes_must_be_positive_integers_for_each_axis(make_layer, name, value):
    message = (
        f"`{name}` must be a positive integer, or one for each axis. "
        f"Received: {name}={re.escape(repr(value))}"
    )
    if value == (2,) * 4:
        message = (
            f"`{name}` argument must be a tuple of "
            f"{conv_layers.rank(make_layer)} integers. "
        )
    _assert_refused(make_layer, message, **{name: value})


@conv_layers.every_layer
@pytest.mark.parametrize("padding", ["full", "causal", 3, None, (1, 1)])
def test_padding_must_be_one_of_those_that_are_documented(make_layer, padding):
    if padding == "causal" and make_layer.keras_layer is keras.layers.Conv1D:
        return
    _assert_refused(
        make_layer,
        f"`padding`.*'same'.*Received.*{re.escape(str(padding))}",
        padding=padding,
    )


@conv_layers.every_layer
def test_data_format_must_be_known(make_layer):
    message = "`data_format` .* one of .*Received: data_format=channels_middle"
    _assert_refused(make_layer, message, data_format="channels_middle")


@pytest.mark.parametrize(
    "make_layer", [*conv_layers.CONVOLUTIONS, *conv_layers.TRANSPOSED]
)
def test_strides_and_dilation_exclude_each_other(make_layer):
    message = "not supported.*`dilation_rate > 1`. Received: strides=.*2.*=.*3"
    _assert_refused(make_layer, message, strides=2, dilation_rate=3)


def test_a_depthwise_convolution_takes_both_as_that_of_keras(rng):
    x = rng.normal(size=(2, 8, 9, 3)).astype("float32")
    layer = layers.DepthwiseConv2DFlipout(2, 2, "same", 2, dilation_rate=2)
    outputs = layer(x, sample=False)
    expected = conv_layers.twin(layer, x.shape)(x)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-6)


@conv_layers.every_convolution
@pytest.mark.parametrize("groups", [0, -1, 1.5, None])
def test_groups_must_be_a_positive_integer(make_layer, groups):
    message = f"`groups` must be a positive integer. Received: groups={groups}"
    _assert_refused(make_layer, message, groups=groups)


@conv_layers.every_convolution
def test_groups_must_divide_filters_and_input_channels(make_layer):
    message = "filters must be evenly divisible.*groups=3, filters=4"
    _assert_refused(make_layer, message, groups=3)
    layer = make_layer(4, 3, groups=2)
    message = (
        "`groups` must divide the number of input channels. "
        "Received: groups=2 for 5 channels"
    )
    with pytest.raises(ValueError, match=message):
        layer(keras.Input([6] * conv_layers.rank(make_layer) + [5]))


@pytest.mark.parametrize(
    ("output_padding", "message"),
    [
        (2, "less than `strides`.*Received: output_padding=.*2.*strides=.*2"),
        (-1, "`output_padding` must be .* not negative.*output_padding=-1"),
        ((1,), r"`output_padding` .* tuple of 2 integers.*output_padding=\(1,"),
    ],
)
def test_output_padding_must_be_less_than_the_strides(output_padding, message):
    _assert_refused(
        layers.Conv2DTransposeFlipout,
        message,
        strides=2,
        output_padding=output_padding,
    )


@pytest.mark.parametrize("make_layer", conv_layers.TRANSPOSED)
@pytest.mark.parametrize("kernel_size", [2, 3, 4])
@pytest.mark.parametrize("strides", [1, 3])
def test_no_output_padding_of_even_windows_is_refused(
    make_layer, kernel_size, strides
):
    # No inputs of a convolution are that small; TensorFlow would abort.
    arguments = {
        "kernel_size": kernel_size,
        "strides": strides,
        "padding": "same",
        "output_padding": 0,
    }
    if kernel_size % 2 == 0:
        message = "at least 1 where `kernel_size` is even.*=.0.*kernel_size=.2"
        message = message.replace("2", str(kernel_size))
        _assert_refused(make_layer, message, **arguments)
    else:
        x = np.ones([1] + [2] * conv_layers.rank(make_layer) + [3])
        layer = conv_layers.make(make_layer, **arguments)
        assert layer(x).shape == layer.compute_output_shape(x.shape)


def test_odd_windows_may_have_output_padding():
    arguments = {"strides": 2, "padding": "same", "output_padding": 1}
    layer = conv_layers.make(layers.Conv1DTransposeFlipout, **arguments)
    # Without it, 7: the inputs, and a place between each two of them.
    assert layer(np.ones([1, 4, 3])).shape == (1, 8, 4)


@conv_layers.every_layer
def test_arguments_of_other_layers_are_refused(make_layer):
    others = ["units"]
    if make_layer not in conv_layers.CONVOLUTIONS:
        others.append("groups")
    if make_layer not in conv_layers.TRANSPOSED:
        others.append("output_padding")
    for name in others:
        with pytest.raises(TypeError, match=f"unexpected .*'{name}'"):
            conv_layers.make(make_layer, **{name: 2})


@conv_layers.every_layer
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_inputs_with_an_unknown_channel_axis_are_refused(
    make_layer, data_format
):
    last = data_format == "channels_last"
    space = [8] * conv_layers.rank(make_layer)
    shape = (*space, None) if last else (None, *space)
    layer = conv_layers.make(make_layer, data_format=data_format)
    message = r"channel axis .* must have a known size.*input_shape=\(None, .*8"
    with pytest.raises(ValueError, match=message):
        layer(keras.Input(shape))


@conv_layers.every_layer
def test_inputs_of_another_rank_or_number_of_channels_are_refused(make_layer):
    rank = conv_layers.rank(make_layer)
    layer = conv_layers.make(make_layer)
    # Neither without a batch axis, nor without channels, nor with one more.
    for shape in ([5] * (rank + 1), [2] + [5] * rank, [2] + [5] * (rank + 2)):
        message = f"expected ndim={rank + 2}, found ndim={len(shape)}"
        with pytest.raises(ValueError, match=message):
            layer(np.ones(shape, "float32"))
    layer(np.ones([2] + [5] * rank + [3], "float32"))
    with pytest.raises(ValueError, match="expected axis -1 .* have value 3"):
        layer(np.ones([2] + [5] * rank + [4], "float32"))


@conv_layers.every_layer
def test_images_smaller_than_the_window_are_refused(make_layer):
    if make_layer in conv_layers.TRANSPOSED:
        return
    rank, layer = conv_layers.rank(make_layer), conv_layers.make(make_layer)
    message = "would be zero or negative.*Received"
    with pytest.raises(ValueError, match=message):
        layer(np.ones([1] + [2] * rank + [3]))
    # Built already: else TensorFlow would crash.
    layer = conv_layers.make(make_layer)
    layer(np.ones([1] + [3] * rank + [3]))
    for size in (0, 2):
        with pytest.raises(ValueError, match=message):
            layer(np.ones([1] + [size] * rank + [3]))


@conv_layers.every_layer
def test_images_without_positions_are_refused(make_layer):
    # With zeros around it TensorFlow computes something, of another shape.
    layer = conv_layers.make(make_layer, padding="same")
    shape = [1] + [0] * conv_layers.rank(make_layer) + [3]
    with pytest.raises(ValueError, match="must have at least one position"):
        layer(np.ones(shape, "float32"))


@conv_layers.every_layer
def test_the_documentation_names_every_argument_and_nothing_else(make_layer):
    documentation = inspect.getdoc(make_layer)
    section = documentation.split("Args:\n")[1].split("\n\n")[0]
    documented = re.findall(r"^    (\*{0,2}\w+):", section, flags=re.MULTILINE)
    assert documented == list(_validation.parameters(make_layer))


@conv_layers.every_layer
def test_the_documentation_leaves_no_placeholder(make_layer):
    documentation = make_layer.__doc__
    assert not re.search(r"\{\w*\}", documentation)
    assert f"keras.layers.{make_layer.keras_layer.__name__}`" in documentation
    assert f"tfp_refine.layers.{make_layer.__name__}(" in documentation
    causal = make_layer.keras_layer is keras.layers.Conv1D
    assert ("causal" in documentation) == causal
    # No line is longer than those of the source.
    assert max(map(len, documentation.splitlines())) <= 80
