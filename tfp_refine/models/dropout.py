"""Dropout that makes a model Bayesian."""

import math

import keras

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers
from tfp_refine.models import cloning


def to_mc_dropout(
    model: keras.Model,
    rate: float = 0.5,
    *,
    num_train_examples: int | None,
    prior_scale: float = 1.0,
    learn_rate: bool = False,
    seed: int | None = None,
) -> keras.Model:
    """Copies a model, with dropout that also acts in predictions.

    The copy has `layers.MCDropout` after each Dense layer and convolution but
    the last. The divergence from the prior becomes weight decay, in place of
    regularizers that these layers had; so the loss is a bound, over the number
    of training examples. With `learn_rate`, all these layers are wrapped in
    `layers.ConcreteDropout` instead.

    Args:
        model: Built `keras.Model`, functional or Sequential. It is not changed.
        rate: Probability of dropping, in (0, 1); the initial one of those that
            are learned. Defaults to `0.5`.
        num_train_examples: Number of training examples.
        prior_scale: Standard deviation of the weights' prior: a number,
            "fan_in" (variance `1 / fan_in`) or "he" (`2 / fan_in`). Defaults to
            `1.0`.
        learn_rate: Whether each layer learns a rate of its own.
        seed: Integer that fixes the noise; fresh if `None`.

    Returns:
        model: Functional `keras.Model` with the same weights, not compiled.

    Raises:
        ValueError: If an argument is invalid, or the model is subclassed, has
            models inside, or has no layer that would drop anything.

    Warns:
        UserWarning: If layers with weights are left without dropout, such as
            recurrent ones; it names them. Normalization is left silently.
            Also if a layer cannot be copied, because it does not say how it was
            made (`get_config`) or else: then both models have the layer itself.

    Example:

    ```python
    dropout = tfp_refine.models.to_mc_dropout(model, num_train_examples=60000)
    ```

    Reference:
        - [Gal and Ghahramani, 2016](https://arxiv.org/abs/1506.02142), Eq. 4
        - [Gal et al., 2017](https://arxiv.org/abs/1705.07832)
    """
    _validation.proportion("rate", rate, one=False)
    _validation.positive_integer("num_train_examples", num_train_examples)
    prior = regularizers.GaussianKL(prior_scale)
    conversion = _Conversion(
        _weighted_layers(model),
        rate,
        num_train_examples,
        prior,
        functional.seeds.check(seed),
    )
    graph = model
    if isinstance(model, keras.Sequential):  # which has no `call_function`
        (x,), (y,) = model.inputs, model.outputs
        graph = keras.Model(x, y, name=model.name)
    converted, replaced = cloning.clone(
        graph,
        conversion.learn if learn_rate else conversion.decay,
        call_function=None if learn_rate else conversion.call,
    )
    for layer, new in replaced.items():
        cloning.take_over(layer, new.layer if learn_rate else new)
    return converted


_DEPTHWISE = (keras.layers.DepthwiseConv1D, keras.layers.DepthwiseConv2D)
_TRANSPOSED = (
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3DTranspose,
)
_WITH_KERNELS = (
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.Conv3D,
    keras.layers.Dense,
    *_DEPTHWISE,
    *_TRANSPOSED,
)
# Layers whose weights need no dropout.
_SILENT = (*cloning.NORMALIZATIONS, layers.HomoscedasticNoise)


class _Conversion:
    """Conversion of each layer of a model."""

    def __init__(self, weighted, rate, num_train_examples, prior, seed):
        self.weighted, self._rate, self._prior = weighted, rate, prior
        self._undropped = _without_others_before(weighted)
        self._num_train_examples = num_train_examples
        self._seed = seed
        self._originals, self._dropout = {}, {}

    def decay(self, layer):
        """Remakes a layer, with the decay that its prior stands for."""
        if layer not in self.weighted:
            return None
        # Keras divides the kept inputs by `1 - rate`: the weights of the
        # paper are its kernels divided by that.
        keep = 1.0 if layer in self._undropped else 1.0 - self._rate
        decay = 0.5 / self._num_train_examples / self._scale(layer) ** 2
        return self._remake(
            layer,
            keras.regularizers.L2(decay / keep),
            keras.regularizers.L2(decay),
        )

    def call(self, layer, *args, **kwargs):
        """Calls a copied layer, and drops some of its outputs."""
        outputs = layer(*args, **kwargs)
        original = self._originals.get(layer)
        if original not in self.weighted[:-1]:
            return outputs
        if layer not in self._dropout:  # a shared layer has one
            number = self.weighted.index(original)
            self._dropout[layer] = layers.MCDropout(
                self._rate,
                seed=functional.seeds.key(self._seed, number),
                name=f"{original.name}_dropout",
            )
        return self._dropout[layer](outputs)

    def learn(self, layer):
        """Remakes a layer, into one that drops its inputs at a learned rate."""
        if layer not in self.weighted:
            return None
        made = self._remake(layer, None, None)  # the wrapper has the divergence
        if made is None:
            return None
        return layers.ConcreteDropout(
            made,
            initial_rate=self._rate,
            prior_scale=self._scale(layer),
            num_train_examples=self._num_train_examples,
            seed=functional.seeds.key(self._seed, self.weighted.index(layer)),
            name=layer.name,
        )

    def _remake(self, layer, kernel_regularizer, bias_regularizer):
        changes = {
            f"{_prefix(layer)}_regularizer": kernel_regularizer,
            "bias_regularizer": bias_regularizer,
        }
        try:
            made = type(layer).from_config(layer.get_config() | changes)
        except Exception as error:  # whatever happens in a user's subclass
            if not cloning.is_copied(layer):
                self._originals[layer] = layer
                return None
            raise ValueError(
                f"Layer '{layer.name}', a {type(layer).__name__}, cannot "
                f"be made with another regularizer: {error}"
            ) from error
        self._originals[made] = layer
        return made

    def _scale(self, layer):
        """Returns the prior's standard deviation for the weights of a layer."""
        shape = layer.kernel.shape
        units = shape[-2] if isinstance(layer, _TRANSPOSED) else shape[-1]
        if isinstance(layer, _DEPTHWISE):  # each unit has one input channel
            units = math.prod(shape[-2:])
        fan_in = math.prod(shape) // units
        return self._prior.for_fan_in(fan_in).prior_scale


def _without_others_before(weighted):
    """Returns the layers that are reached from the inputs by no other one."""

    def is_behind_another(tensor):
        operation = tensor._keras_history.operation
        if operation in weighted:
            return True
        node = operation._inbound_nodes[tensor._keras_history.node_index]
        return any(map(is_behind_another, node.input_tensors))

    return [
        layer
        for layer in weighted
        if not any(
            is_behind_another(tensor)
            for node in layer._inbound_nodes
            for tensor in node.input_tensors
        )
    ]


def _prefix(layer):
    """Returns the prefix of the names of a kernel's arguments."""
    is_depthwise = isinstance(layer, _DEPTHWISE)
    return "depthwise" if is_depthwise else "kernel"


def _weighted_layers(model):
    """Returns the layers with a kernel, in order of the calls."""
    if isinstance(model, keras.Sequential):
        functional.data.check_built(model)
    if not isinstance(model, keras.Model) or not hasattr(model, "inputs"):
        raise ValueError(
            "`model` must be a functional or Sequential keras.Model whose "
            "layers all know the shapes of their outputs. "
            f"Received: {type(model).__name__}"
        )
    inside = [v.name for v in model.layers if isinstance(v, keras.Model)]
    if inside:
        raise ValueError(
            "`model` must not have models inside: call their layers in its "
            f"own. Received: '{model.name}' with {', '.join(inside)}"
        )
    if any(hasattr(layer, "variational_weights") for layer in model.layers):
        raise ValueError(
            f"The model '{model.name}' has layers with posteriors already."
        )
    weighted = [v for v in model.layers if isinstance(v, _WITH_KERNELS)]
    if len(weighted) < 2:
        raise ValueError(
            "`model` must have two layers with a kernel or more, such as Dense "
            f"layers. Received: '{model.name}' with {len(weighted)}"
        )
    left = [
        layer.name
        for layer in model.layers
        if layer.weights and not isinstance(layer, _WITH_KERNELS + _SILENT)
    ]
    if left:
        _validation.warn(
            f"These layers are left without dropout: {', '.join(left)}.",
        )
    return weighted
