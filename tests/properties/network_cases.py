"""Strategies of Keras models, functional and Sequential."""

import keras
from hypothesis import strategies as st

_PLAIN = (
    keras.layers.BatchNormalization,
    keras.layers.Flatten,
    keras.layers.LayerNormalization,
    keras.layers.LeakyReLU,
    keras.layers.ReLU,
)
_ACTIVATIONS = st.sampled_from([None, "relu", "tanh"])


def network(draw):
    """Makes a model, built.

    No strategy itself, as Keras uses Python's own random numbers.

    Args:
        draw: That of `st.data()`.
    """
    keras.utils.set_random_seed(draw(st.integers(0, 99)))
    num_axes = draw(st.integers(1, 3))
    if num_axes == 2 and draw(st.booleans()):
        inputs = keras.Input((draw(st.integers(1, 4)),), dtype="int32")
        x = keras.layers.Embedding(5, draw(st.integers(1, 3)))(inputs)
    else:
        shape = [draw(st.integers(1, 4)) for _ in range(num_axes)]
        inputs = keras.Input(shape)
        x = inputs
    for _ in range(draw(st.integers(0, 3))):
        x = _step(draw, x)
    x = _dense(draw, x)
    kind = draw(st.sampled_from(["one", "one", "list", "dict"]))
    outputs = x
    if kind != "one":
        other = keras.layers.Dense(2)(x)
        outputs = [x, other] if kind == "list" else {"a": x, "b": other}
    model = keras.Model(inputs, outputs)
    if kind == "one" and draw(st.booleans()) and _is_a_chain(model):
        return keras.Sequential(
            [keras.Input(inputs.shape[1:], dtype=inputs.dtype)]
            + list(model.layers[1:])
        )
    if kind == "one" and draw(st.integers(0, 3)) == 0:  # nested
        outer = keras.Input(inputs.shape[1:], dtype=inputs.dtype)
        model = keras.Model(outer, keras.layers.Dense(2)(model(outer)))
    return model


def _is_a_chain(model):
    nodes = [node for layer in model.layers for node in layer._inbound_nodes]
    return len(nodes) == len(model.layers) and all(
        len(node.parent_nodes) <= 1 for node in nodes
    )


def _dense(draw, x):
    units, activation = draw(st.integers(1, 4)), draw(_ACTIVATIONS)
    use_bias = draw(st.booleans())
    return keras.layers.Dense(units, activation, use_bias=use_bias)(x)


def _step(draw, x):
    """Draws the outputs of one more layer, or a few."""
    steps = [*_ANY_AXES, *{2: _POSITIONS, 3: _IMAGES}.get(x.ndim - 1, ())]
    return draw(st.sampled_from(steps))(draw, x)


def _residual(draw, x):
    activation = draw(_ACTIVATIONS)
    dense = keras.layers.Dense(x.shape[-1], activation)
    return keras.layers.Add()([x, dense(x)])


def _shared(draw, x):
    dense = keras.layers.Dense(x.shape[-1])
    return dense(keras.layers.ReLU()(dense(x)))


def _joined(draw, x):
    units = draw(st.integers(1, 3))
    return keras.layers.Concatenate()([x, keras.layers.Dense(units)(x)])


def _nested(draw, x):
    inputs = keras.Input(x.shape[1:])
    inner = keras.Model(inputs, _dense(draw, inputs))
    return inner(x)


def _plain(draw, x):
    make = draw(st.sampled_from(_PLAIN))
    return make()(x)


def _convolution(draw, x):
    rank = x.ndim - 2
    kind = getattr(keras.layers, f"Conv{rank}D")
    strides, dilation = draw(st.sampled_from([(1, 1), (2, 1), (1, 2)]))
    layer = kind(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        strides=strides,
        dilation_rate=dilation,
        padding="same",
        activation=draw(_ACTIVATIONS),
        use_bias=draw(st.booleans()),
        kernel_regularizer=draw(st.sampled_from([None, "l2"])),
    )
    return layer(x)


def _recurrent(draw, x):
    return _recurrent_layer(draw)(x)


def _recurrent_layer(draw):
    layer, cell = draw(
        st.sampled_from(
            [
                (keras.layers.LSTM, keras.layers.LSTMCell),
                (keras.layers.GRU, keras.layers.GRUCell),
            ]
        )
    )
    units, all_steps = draw(st.integers(1, 3)), draw(st.booleans())
    if draw(st.booleans()):
        return keras.layers.RNN(cell(units), return_sequences=all_steps)
    return layer(units, return_sequences=all_steps)


def _bidirectional(draw, x):
    mode = draw(st.sampled_from(["concat", "sum"]))
    return keras.layers.Bidirectional(_recurrent_layer(draw), merge_mode=mode)(
        x
    )


def _transposed(draw, x):
    strides = draw(st.integers(1, 2))
    kind = getattr(keras.layers, f"Conv{x.ndim - 2}DTranspose")
    return kind(2, 2, strides, padding="same")(x)


def _depthwise(draw, x):
    return getattr(keras.layers, f"DepthwiseConv{x.ndim - 2}D")(
        draw(st.integers(1, 2)),
        padding="same",
        depth_multiplier=draw(st.integers(1, 2)),
    )(x)


def _separable(draw, x):
    return keras.layers.SeparableConv2D(2, 2, padding="same")(x)


def _pooled(draw, x):
    rank = x.ndim - 2
    name = draw(st.sampled_from(["GlobalAveragePooling", "MaxPooling"]))
    layer = getattr(keras.layers, f"{name}{rank}D")
    if name == "MaxPooling":
        return layer(2, padding="same")(x)
    return layer()(x)


# Layers for any inputs, `[positions, channels]`, `[height, width, channels]`.
_ANY_AXES = (_residual, _shared, _joined, _nested, _plain, _dense)
_POSITIONS = (
    _convolution,
    _transposed,
    _depthwise,
    _recurrent,
    _bidirectional,
    _pooled,
)
_IMAGES = (_convolution, _transposed, _depthwise, _separable, _pooled)
