"""Documentation that several layers share, written once."""

_SHARED = """\
        activation: Activation function. Defaults to `None`, linear.
        use_bias: Whether to add a bias. Defaults to `True`.
        kernel_initializer: Initializer of the kernel's means.
        bias_initializer: Initializer of the bias' means.
        kernel_regularizer: KL divergence of the kernel's posterior from its
            prior: a `KLRegularizer`, its name, or `None`. For a kernel that is
            a point estimate: any Keras regularizer, and a KL regularizer is
            without effect. Defaults to `"gaussian_kl"`, the prior `N(0, 1)`.
        bias_regularizer: The same for the bias.
        activity_regularizer: Keras regularizer of the outputs.
        kernel_constraint: Keras constraint of the kernel's means.
        bias_constraint: Keras constraint of the bias' means.
        kernel_posterior: Posterior family of the kernel: `"mean_field"`,
            `"fixed_variance"`, `"k_tied"`, `"low_rank"`, a `PosteriorFamily`,
            or `None` for a point estimate.
        bias_posterior: The same for the bias.
        num_train_examples: Size of the training set. The KL divergence (nats)
            enters `losses` divided by it, once for each step. May be given
            later, through `set_num_train_examples`.
        kl_scale: Factor on the KL divergence. Below 1 the bound is none, and
            the posterior narrower. Defaults to `1.0`.
        sample: Whether calls draw the weights, in training and in inference
            alike; if `False` they use the posterior means. Defaults to `True`.
        seed: Integer seed of the layer's random draws.
        **kwargs: Arguments of `keras.layers.Layer`, such as `name`, `dtype`.

    Call arguments:
        inputs: Tensor, as below.
        sample: Overrides the layer's own `sample` if not `None`."""

_DENSE = f"""\
    Args:
        units: Positive integer, size of the output space.
{_SHARED}

    Input shape:
        `[batch_size, ..., input_dim]`.

    Output shape:
        `[batch_size, ..., units]`."""

# Of the convolutions, but for what `expand` fills in.
_MAP = {
    "filters": """\
        filters: Positive integer, number of output channels.""",
    "kernel_size": """\
        kernel_size: {integers}, size of the window.""",
    "strides": """\
        strides: {integers}. Defaults to `1`.""",
    "padding": """\
        padding: {padding}. Defaults to `"valid"`.""",
    "output_padding": """\
        output_padding: Integers below the strides, added to the size of the
            outputs. Defaults to `None`, inferred.""",
    "depth_multiplier": """\
        depth_multiplier: Outputs for each input channel. Defaults to `1`.""",
    "data_format": """\
        data_format: `"channels_last"` or `"channels_first"`. Defaults to that
            of your Keras configuration.""",
    "dilation_rate": """\
        dilation_rate: {integers}. Defaults to `1`.""",
    "groups": """\
        groups: Positive integer that divides input and output channels.
            Defaults to `1`.""",
}
_AXES = {1: "steps", 2: "height, width", 3: "depth, height, width"}


def _conv(keras_layer, names):
    """Documents the arguments and shapes of a convolution."""
    rank = next(rank for rank in _AXES if f"{rank}D" in keras_layer.__name__)
    integers = "Integer" if rank == 1 else f"Integer or {rank} integers"
    padding = '`"valid"` or `"same"`'
    if keras_layer.__name__ == "Conv1D":
        padding = '`"valid"`, `"same"` or `"causal"`'
    described = "\n".join(
        _MAP[name].format(integers=integers, padding=padding) for name in names
    )
    shared = _SHARED
    if "depth_multiplier" in names:
        for name in ("initializer", "regularizer", "constraint"):
            shared = shared.replace(f"kernel_{name}", f"depthwise_{name}")
    return f"""\
    Args:
{described}
{shared}

    Input shape:
        `[batch_size, {_AXES[rank]}, channels]`, or with
        `data_format="channels_first"` the channels second.

    Output shape:
        Of the same layout, as `keras.layers.{keras_layer.__name__}`."""


_FLOW = """\
        flow_length: Steps of the normalizing flow of the multipliers. `0`: no
            multipliers, but the mean-field posterior, as in
            `{plain}`. Defaults to `2`.
        flow_units: Hidden units of each step. Defaults to `50`.
        auxiliary_flow_length: Steps of the flow of `r(z|W)`, which makes the
            bound on the KL divergence tighter; may be `0`. Defaults to `2`.
        auxiliary_flow_units: Hidden units of each of them. Defaults to `100`.
        masks: `"random"`, a coupling of coordinates drawn at each use, or
            `"alternating"`. A single {multiplied} leaves nothing to couple:
            then the flows are planar, and this and the units have no effect.
        auxiliary: What `r(z|W)` makes of its statistic of the weights:
            `"log_precision"`, an affine function for the mean and the log
            precision each, which starts where `q(z)` does; or `"paper"`, a
            linear one for the mean and a sigmoid for the scale. Defaults to
            `"log_precision"`.
        log_var_init: Initial log variance of the weights given the
            multipliers, and of the biases. Defaults to `-9.0`.
        z_var_init: Initial variance of the multipliers before their flow, about
            means near 1. Defaults to `0.01`.
        max_std: Largest standard deviation that weights have in the outputs; in
            the KL divergence that is trained on they have their own. Defaults
            to `None`, any.
        inference_estimator: `"local_reparameterization"`, or
            `"reparameterization"`: out of training all positions and examples
            share one draw of the weights. Defaults to the first.
"""


def _with_flow(documented, plain, multiplied):
    """Documents the arguments of a layer with a multiplicative flow."""
    begin = documented.index("        kernel_posterior:")
    end = documented.index("        num_train_examples:")
    return (
        documented[:begin]
        + _FLOW.format(plain=plain, multiplied=multiplied)
        + "        bias_posterior: Posterior family of the bias. Defaults to\n"
        "            mean field.\n" + documented[end:]
    )


_SAMPLED = """\
        num_train_examples: Size of the training set. The KL divergence (nats)
            enters `losses` divided by it, once for each step. May be given
            later, through `set_num_train_examples`.
        kl_scale: Factor on the KL divergence. Defaults to `1.0`.
        sample: Whether calls draw the weights, in training and in inference
            alike; if `False` they use the posterior means. Defaults to `True`.
        seed: Integer seed of the layer's random draws.
        name: Name of the layer.
        dtype: As for `keras.layers.Layer`.
        trainable: As for `keras.layers.Layer`."""

_RECURRENT = """\
    All steps of all examples of a call share the draw: the weights are those of
    one network, which is unrolled over time. It can be the layer of a
    `keras.layers.Bidirectional`; then each direction has draws of its own.

    Args:
        *args: Arguments of `{twin}`: `units`.
{sampled}
        **kwargs: Other arguments of `{twin}`; for each of `kernel`,
            `recurrent` and `bias` a `..._regularizer` is a KL regularizer
            (defaults to `"gaussian_kl"`), and there is a `..._posterior`
            (defaults to `"mean_field"`; `None` for a point estimate).

    Call arguments:
        inputs: Tensor, as below.
        sample: Overrides the layer's own `sample` if not `None`.
        mask: As for `{twin}`.
        training: As for `{twin}`.
        initial_state: As for `{twin}`.

    Input shape:
        `[batch_size, steps, features]`.

    Output shape:
        As `{twin}`."""

_KL_ERRORS = """\
    Raises:
        ValueError: If an argument is invalid; and at the first use of `losses`
            if `num_train_examples` was never given."""


def expand(layer):
    """Fills `{dense}`, `{conv}`, `{errors}` and so on into a docstring."""
    if layer.__doc__ is not None:  # `python -OO` strips docstrings
        if "{recurrent}" in layer.__doc__:
            twin = f"keras.layers.{layer.keras_layer.__name__}"
            layer.__doc__ = layer.__doc__.replace(
                "    {recurrent}",
                _RECURRENT.format(twin=twin, sampled="        {sampled}"),
            )
        layer.__doc__ = layer.__doc__.replace("        {sampled}", _SAMPLED)
        layer.__doc__ = layer.__doc__.replace("    {dense}", _DENSE).replace(
            "    {errors}", _KL_ERRORS
        )
        if "{conv}" in layer.__doc__:
            layer.__doc__ = layer.__doc__.replace(
                "    {conv}", _conv(layer.keras_layer, layer.map_arguments)
            )
        if "{mnf_dense}" in layer.__doc__:
            layer.__doc__ = layer.__doc__.replace(
                "    {mnf_dense}",
                _with_flow(_DENSE, "DenseLocalReparameterization", "input"),
            )
        if "{mnf_conv}" in layer.__doc__:
            layer.__doc__ = layer.__doc__.replace(
                "    {mnf_conv}",
                _with_flow(
                    _conv(layer.keras_layer, layer.map_arguments),
                    "Conv2DLocalReparameterization",
                    "filter",
                ),
            )
    return layer
