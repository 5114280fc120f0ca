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
        kernel_posterior: Posterior family of the kernel: `"mean_field"`, a
            `MeanFieldPosterior`, or `None` for a point estimate.
        bias_posterior: The same for the bias.
        num_train_examples: Size of the training set. The KL divergence (nats)
            enters `losses` divided by it, once for each step. May be given
            later, through `set_num_train_examples`.
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

_KL_ERRORS = """\
    Raises:
        ValueError: If an argument is invalid; and at the first use of `losses`
            if `num_train_examples` was never given."""


def expand(layer):
    """Fills `{dense}` and `{errors}` into the docstring of `layer`."""
    if layer.__doc__ is not None:  # `python -OO` strips docstrings
        layer.__doc__ = layer.__doc__.replace("    {dense}", _DENSE).replace(
            "    {errors}", _KL_ERRORS
        )
    return layer
