"""Docstrings of public layers, composed of fragments that are written once."""

import functools
import re
import textwrap
from collections.abc import Mapping
from typing import TypeVar

import keras

from tfp_refine import _validation

Layer = TypeVar("Layer", bound=type)

_WIDTH = 80

# Descriptions of arguments, by name. A part of a layer's weights is called by
# the beginning of its arguments' names: "kernel", "recurrent".
_ARGUMENTS = {
    "units": "Positive integer, size of the output space.",
    "equation": (
        'Einsum of the inputs with the kernel, such as `"abc,cd->abd"`, '
        '`"...ab,bc->...ac"` or `"ab...,bc->ac..."`.'
    ),
    "output_shape": (
        "Integer, or one integer or `None` (as in the inputs) for each letter "
        "of the outputs, without the axis of the examples."
    ),
    "bias_axes": (
        "Letters of the outputs that a bias is added along. Defaults to "
        "`None`: no bias."
    ),
    "filters": "Positive integer, number of output channels.",
    "kernel_size": "{sizes}, size of the window.",
    "strides": "{sizes}.",
    "padding": "{paddings}.",
    "output_padding": (
        "Integers below the strides, added to the size of the outputs. "
        "Defaults to `None`, inferred."
    ),
    "depth_multiplier": "Number of outputs for each input channel.",
    "data_format": (
        '`"channels_last"` or `"channels_first"`. Defaults to that of your '
        "Keras configuration."
    ),
    "dilation_rate": "{sizes}.",
    "groups": "Positive integer that divides input and output channels.",
    "input_dim": "Positive integer, number of rows.",
    "output_dim": "Positive integer, size of a row.",
    "mask_zero": "Whether the index 0 stands for padding, to be masked.",
    "activation": "Activation function; `None` is linear.",
    "recurrent_activation": "Activation function of the gates.",
    "use_bias": "Whether to add a bias.",
    "unit_forget_bias": "Whether the bias of the forget gate starts from 1.",
    "{part}_initializer": "Initializer of the {part}'s posterior means.",
    "{part}_regularizer": (
        "KL divergence of the {part}'s posterior from its prior: a "
        "`KLRegularizer`, its name, or `None`. A point estimate takes any "
        "Keras regularizer, and ignores a KL regularizer. The prior of "
        '`"gaussian_kl"` is `N(0, 1)`.'
    ),
    "{part}_constraint": "Keras constraint of the {part}'s posterior means.",
    "{part}_posterior": (
        'Posterior family of the {part}: `"mean_field"`, `"fixed_variance"`, '
        '`"k_tied"`, `"low_rank"`, a `PosteriorFamily` or its class, or `None` '
        "for a point estimate."
    ),
    "activity_regularizer": "Keras regularizer of the outputs.",
    "dropout": "Fraction of the {dropped} to drop in training.",
    "recurrent_dropout": "Fraction of the states to drop in training.",
    "return_sequences": "Whether to return the outputs of all steps.",
    "return_state": "Whether to return the last states as well.",
    "go_backwards": "Whether to read the sequence from its end.",
    "stateful": "Whether a batch starts from the last states of the last one.",
    "unroll": "Whether to unroll the loop over steps.",
    "reset_after": "Whether the reset gate comes after the matrix product.",
    "use_cudnn": "As for `{twin}`.",
    "zero_output_for_mask": "Whether outputs of masked steps are zeros.",
    # Of attention.
    "num_heads": "Positive integer, number of heads.",
    "key_dim": "Positive integer, size of each head of queries and keys.",
    "value_dim": "Size of each head of values. Defaults to `None`: `key_dim`.",
    "head_dim": "Positive integer, size of each head.",
    "num_query_heads": "Positive integer, number of heads of queries.",
    "num_key_value_heads": (
        "Positive integer that divides it, number of heads of keys and values."
    ),
    "attention_axes": "As for `{twin}`.",
    "sliding_window": (
        "Positive integer: each query attends to keys less than so many "
        "positions away. Defaults to `None`: to all."
    ),
    "flash_attention": "As for `{twin}`.",
    "use_gate": "Whether another projection of the query gates the outputs.",
    # Of dropout and of noise.
    "rate": "Probability of dropping, in [0, 1).",
    "noise_shape": "As for `keras.layers.Dropout`.",
    "layer": (
        "Dense layer or convolution, whose inputs are dropped: features, or "
        "for a convolution whole channels, which must be the last axis."
    ),
    "initial_rate": "Initial rate, in (0, 1).",
    "prior_scale": "`s`, standard deviation of the weights' prior.",
    "temperature": "Temperature of the relaxation.",
    "initial_scale": (
        "Initial standard deviation of the noise. The default suits "
        "standardized targets."
    ),
    # Of bases of layers.
    "twin_arguments": (
        "Arguments of the twin, except `name`, `dtype`, `trainable` and the "
        "regularizers of its weights."
    ),
    "regularizers": (
        "For each part its KL regularizer, its name, or `None`. A point "
        "estimate takes any Keras regularizer."
    ),
    "posteriors": (
        "For each part its posterior family, its name, or `None` for a point "
        "estimate."
    ),
    # Of all layers.
    "num_train_examples": (
        "Size of the training set. The KL divergence (nats) enters `losses` "
        "divided by it, once per step. Can be set later, by "
        "`set_num_train_examples`."
    ),
    "kl_scale": (
        "Factor on the KL divergence. Below 1 the loss is no longer a lower "
        "bound, and the posterior is narrower."
    ),
    "sample": (
        "Whether calls draw the weights, in training and in inference alike; "
        "if `False` they use the posterior means."
    ),
    "seed": "Integer seed of the layer's random draws.",
    "name": "Name of the layer.",
    "dtype": "Data type or dtype policy of the layer.",
    "trainable": "Whether the layer's variables are trained.",
    # Of multiplicative normalizing flows.
    "flow_length": (
        "Steps of the normalizing flow of the multipliers. With `0` there are "
        "no multipliers, and the posterior is mean field."
    ),
    "flow_units": "Hidden units of each step.",
    "auxiliary_flow_length": (
        "Steps of the flow of `r(z|W)`, which makes the bound on the KL "
        "divergence tighter; may be `0`."
    ),
    "auxiliary_flow_units": "Hidden units of each of these steps.",
    "masks": (
        '`"random"`, a coupling of coordinates drawn at each use, or '
        '`"alternating"`. A single multiplier leaves nothing to couple: then '
        "the flows are planar, and this and the units have no effect."
    ),
    "auxiliary": (
        "Form of `r(z|W)`, given a statistic of the weights: "
        '`"log_precision"`, an affine function for the mean and the log '
        'precision each, which starts at `q(z)`; or `"paper"`, a linear one '
        "for the mean and a sigmoid for the scale."
    ),
    "log_var_init": (
        "Initial log variance of the weights given the multipliers, and of a "
        'bias with the posterior `"mean_field"`.'
    ),
    "z_var_init": (
        "Initial variance of the multipliers before their flow, about means "
        "near 1."
    ),
    "max_std": (
        "Largest standard deviation of the weights that outputs are computed "
        "with; the KL divergence in the loss has no limit. Defaults to `None`."
    ),
    "inference_estimator": (
        '`"local_reparameterization"`, or `"reparameterization"`: in inference '
        "all positions and examples share one draw of the weights."
    ),
}

# Paragraphs and sections. A line with nothing but `{name}` in a docstring or in
# a fragment is replaced by the fragment of this name.
_FRAGMENTS = {
    "reparameterization": """\
The whole batch sees the same draw: the cheapest forward pass, the noisiest
gradient, and coherent functions (one call is one function).""",
    "flipout_conv": """\
Each example sees the weights' one deviation from the means with signs of
its own, which are the same at all positions. The outputs of each example
have the exact distribution for any posterior symmetric about its mean. Two
convolutions, a gradient with far less variance than with one draw for the
whole batch.""",
    "depthwise": """\
Keras names the kernel's arguments `depthwise_*` in this layer; its
posterior is `kernel_posterior`, as in all others.""",
    "separable": """\
A depthwise convolution and a 1x1 one, each with noise of its own; the two
kernels and the bias have posteriors.""",
    "recurrent": """\
All steps of all examples of a call share the draw: the weights are those of
one network, which is unrolled over time. The layer can be wrapped by
`keras.layers.Bidirectional`; then each direction has draws of its own.""",
    "call_arguments": """\
Call arguments:
    inputs: Tensor, of the shape below.
    sample: Overrides the layer's own `sample` if not `None`.""",
    "errors": """\
Raises:
    ValueError: If an argument is invalid; and at the first use of `losses`
        if `num_train_examples` is not set.""",
    "dense": """\
{args}

{call_arguments}

Input shape:
    `[batch_size, ..., input_dim]`.

Output shape:
    `[batch_size, ..., units]`.

{errors}""",
    "einsum": """\
{args}

{call_arguments}

Input shape:
    `[batch_size, ...]`, with the axes of `equation`.

Output shape:
    `[batch_size, ...]`, likewise.

{errors}

Example:

```python
layer = tfp_refine.layers.{layer}(
    "abc,cde->abde", (None, 8, 64), bias_axes="de", num_train_examples=60000
)
```""",
    "attention": """\
The projections of queries, keys and values, the gate if there is one, and
the projection of the outputs are einsum layers with posteriors, all with
these arguments. All else is as in `{twin}`.

{args}

Call arguments:
    query: Tensor `[batch_size, queries, features]`.
    value: Tensor `[batch_size, positions, features]`.
    key: Tensor `[batch_size, positions, features]`. Defaults to `None`:
        `value`.
    query_mask: Boolean tensor `[batch_size, queries]`, set by Keras.
    value_mask: Boolean tensor `[batch_size, positions]`, set by Keras.
    key_mask: Boolean tensor `[batch_size, positions]`, set by Keras.
    attention_mask: Boolean tensor `[batch_size, queries, positions]`: which
        positions each query sees.
    return_attention_scores: Whether to return these too.
    training: Whether there is dropout.
    use_causal_mask: Whether positions see none that come later.
    sample: Overrides the layer's own `sample` if not `None`.

Output shape:
    As for `{twin}`.

{errors}

Example:

```python
layer = tfp_refine.layers.{layer}(
    {example}, num_train_examples=60000
)
tokens = keras.Input((128, 256))
outputs = layer(tokens, tokens)
```""",
    "attention_reparameterization": """\
{reparameterization}

{attention}

{blundell}""",
    "attention_local_reparameterization": """\
Each token of each example has noise of its own in queries, keys, values and
outputs, where one draw of the weights would couple them. For bounds that
are compared with those of other layers, use another estimator.

{attention}

{kingma}""",
    "attention_flipout": """\
Each example sees the weights' one deviation from the means with signs of
its own, which are the same for all of its tokens: the function of each
example is that of one draw of the weights.

{attention}

{wen}""",
    "conv": """\
{args}

{call_arguments}

Input shape:
    `[batch_size, {axes}, channels]`, or with
    `data_format="channels_first"` the channels second.

Output shape:
    The same layout, as `{twin}`.

{errors}

Example:

```python
layer = tfp_refine.layers.{layer}(
    {example}, num_train_examples=60000
)
```""",
    "conv_reparameterization": """\
{reparameterization}

{conv}

{blundell}""",
    "conv_local_reparameterization": """\
Mean and variance of each output are exact, and the gradient has little
variance. But positions of one example are drawn independently, where one
draw of the weights would couple them. So sums and pools over space have
another variance than under the posterior, and the bound is that of separate
weights at each position. For bounds and predictions that are compared with
other layers', use those layers, or `{flipout}`.

{conv}

{kingma}""",
    "conv_flipout": """\
{flipout_conv}

{conv}

{wen}""",
    "sequences": """\
{args}

{call_arguments}
    mask: As for `{twin}`.
    training: As for `{twin}`.
    initial_state: As for `{twin}`.

Input shape:
    `[batch_size, steps, features]`.

Output shape:
    As for `{twin}`.

{errors}

Example:

```python
layer = tfp_refine.layers.{layer}(
    32, num_train_examples=20000
)
```

{fortunato}""",
    "blundell": """\
Reference:
    - [Blundell et al., 2015](https://arxiv.org/abs/1505.05424)""",
    "kingma": """\
Reference:
    - [Kingma et al., 2015](https://arxiv.org/abs/1506.02557)""",
    "wen": """\
Reference:
    - [Wen et al., 2018](https://arxiv.org/abs/1803.04386)""",
    "louizos": """\
Reference:
    - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)""",
    "fortunato": """\
Reference:
    - [Fortunato et al., 2017](https://arxiv.org/abs/1704.02798)""",
}
_AXES = {1: "steps", 2: "height, width", 3: "depth, height, width"}

# A line that stands for a fragment, and a word that stands for a value.
_LINE = re.compile(r"^( *)\{(\w+)\}$", re.MULTILINE)
_WORD = re.compile(r"\{(\w+)\}")


def public_layer(layer: Layer) -> Layer:
    """Registers a layer, and fills fragments into its docstring; a decorator.

    `{args}` becomes a section with every argument of the constructor, in its
    order.
    """
    keras.saving.register_keras_serializable(package="tfp_refine")(layer)
    if layer.__doc__ is None:  # `python -OO` strips docstrings
        return layer
    values = _values(layer)
    fragments = _FRAGMENTS | {"args": _args(layer, values)}
    text = layer.__doc__
    while _LINE.search(text):
        text = _LINE.sub(
            lambda line: textwrap.indent(fragments[line[2]], line[1]), text
        )
    layer.__doc__ = _fill(text, values)
    return layer


def _values(layer: type) -> dict[str, str]:
    """Returns the words that differ between convolutions and the like."""
    twin = getattr(layer, "keras_layer", None)
    if twin is None:
        return {}
    # Its class is named otherwise than `keras.layers` names it.
    name = twin.__name__.replace("GroupedQuery", "GroupQuery")
    values = {"layer": layer.__name__, "twin": f"keras.layers.{name}"}
    values["dropped"] = "inputs"
    if name.endswith("Attention"):
        values["dropped"] = "attention scores"
        values["example"] = "8, 32" if name.startswith("Multi") else "32, 8, 2"
    rank = re.search(r"(\d)D", twin.__name__)
    if rank is not None:
        axes = int(rank[1])
        paddings = ['`"valid"`', '`"same"`']
        if twin.__name__ == "Conv1D":
            paddings.append('`"causal"`')
        is_depthwise = twin.__name__.startswith("Depthwise")
        values |= {
            "flipout": f"{twin.__name__}Flipout",
            "example": "3" if is_depthwise else "16, 3",
            "axes": _AXES[axes],
            "sizes": "Integer" if axes == 1 else f"Integer or {axes} integers",
            "paddings": " or ".join(paddings),
        }
    return values


def _args(layer: type, values: Mapping[str, str]) -> str:
    """Describes the arguments of a layer's constructor, with their defaults."""
    lines = ["Args:"]
    for name, parameter in _validation.parameters(layer).items():
        text = _fill(_description(name), values)
        if parameter.default not in (parameter.empty, None):
            default = str(parameter.default)
            if isinstance(parameter.default, str):
                default = f'"{default}"'
            text += f" Defaults to `{default}`."
        lines.append(_paragraph(name, text))
    return "\n".join(lines)


def _description(name: str) -> str:
    if name in _ARGUMENTS:
        return _ARGUMENTS[name]
    part, _, kind = name.rpartition("_")
    # Keras names these two differently from the weights.
    noun = {
        "recurrent": "recurrent kernel",
        "depthwise": "depthwise kernel",
        "pointwise": "pointwise kernel",
    }
    return _ARGUMENTS[f"{{part}}_{kind}"].replace(
        "{part}", noun.get(part, part)
    )


@functools.cache
def _paragraph(name: str, description: str) -> str:
    return textwrap.fill(
        f"{name}: {description}",
        _WIDTH - 4,
        initial_indent=4 * " ",
        subsequent_indent=8 * " ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _WORD.sub(lambda word: values.get(word[1], word[0]), text)
