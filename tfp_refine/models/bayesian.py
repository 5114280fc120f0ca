"""Trained Keras models that become Bayesian, and back."""

import functools
import itertools
import operator
from typing import Any
from typing import TypeVar

import keras

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import initializers
from tfp_refine import layers as layers_lib
from tfp_refine import posteriors
from tfp_refine import regularizers
from tfp_refine.models import cloning
from tfp_refine.models import gaussian
from tfp_refine.models import members
from tfp_refine.models import sublayers

_Model = TypeVar("_Model", keras.Model, posteriors.EnsemblePosterior)

_ESTIMATORS = {
    "Flipout": "flipout",
    "LocalReparameterization": "local_reparameterization",
    "Reparameterization": "reparameterization",
}


def _classes() -> dict[Any, dict[str, Any]]:
    """Lists the layer of each estimator for each deterministic layer's class.

    The first one is made if the requested one is missing.
    """
    classes: dict[Any, dict[str, Any]] = {}
    for name in layers_lib.__all__:
        kind = getattr(layers_lib, name)
        twin = getattr(kind, "keras_layer", None)
        # `Local...` comes first.
        endings = [ending for ending in _ESTIMATORS if name.endswith(ending)]
        if twin is not None and endings:
            classes.setdefault(twin, {})[_ESTIMATORS[endings[0]]] = kind
    return classes


_CLASSES = _classes()
# Layers that compute the steps of a cell.
_OF_CELLS = {
    keras.layers.GRUCell: keras.layers.GRU,
    keras.layers.LSTMCell: keras.layers.LSTM,
}
_DETERMINISTIC: dict[Any, Any] = {
    bayesian: deterministic
    for deterministic, by_estimator in _CLASSES.items()
    for bayesian in by_estimator.values()
}
# Arguments that only layers with posteriors have.
_OF_POSTERIORS = ("kl_scale", "num_train_examples", "sample")


def to_bayesian(
    model: _Model,
    *,
    num_train_examples: int | None,
    estimator: str = "flipout",
    regularizer: Any = "gaussian_kl",
    posterior: Any = "mean_field",
    initializer: Any = "moped",
    layers: Any = None,
    data: Any = None,
    seed: int | None = None,
) -> _Model:
    """Copies a Keras model, with posteriors for its weights.

    Dense and einsum layers, convolutions, attention, embeddings and recurrent
    layers become variational layers, with the model's weights as their
    posteriors' means: those of the model's graph, and those inside wrappers,
    custom layers and models with a `call` of their own, if these can be made
    again by their `get_config` and `from_config`. Other layers are copied as
    they are. A `keras.layers.RNN` of an `LSTMCell` or a `GRUCell` becomes the
    layer of that cell. In the scope `layers.mean_weights`, and with
    `sample=False` of `predict`, the copy returns the outputs of the model.

    The copy of a custom layer or model is of a subclass of its class, which
    saves and loads like all others: as ever, Keras must find the custom class
    (`keras.saving.register_keras_serializable`, or `custom_objects`).

    Args:
        model: Built `keras.Model`: functional, Sequential, or a subclass. Or an
            ensemble of such models, as `ensembles.deep_ensemble` trains them:
            each member is converted. It is not changed.
        num_train_examples: Number of training examples.
        estimator: How outputs are drawn: "flipout", "local_reparameterization"
            or "reparameterization"; where a kind of layer has no such class, as
            it can be: embeddings and recurrent layers by reparameterization.
        regularizer: KL regularizer of kernels and biases, or its name; those of
            the model are dropped, as a prior takes their place.
        posterior: Posterior family of kernels and biases, or its name. Or a
            `GaussianPosterior` of all weights of the model, independent, such
            as that of a model trained with `optimizers.IVON`: the copy has its
            means and scales, mean-field families, and, unless `regularizer` is
            given, its prior; `initializer` is not used. Weights of layers that
            get no posterior, such as gamma and beta of `BatchNormalization`,
            are at their means.
        initializer: Sets the posteriors then: a function of the model and its
            data, such as an initializer of `tfp_refine.initializers`, or its
            name. "moped" keeps the means, and makes scales a tenth of their
            size; others replace the trained weights. `None`: scales are those
            that `posterior` starts from.
        layers: Layers that get posteriors, frozen ones too: a class, a name
            (`"dense"`, or with those of the layers around it,
            `"block_1/dense"`), a list of classes and names, or a function of a
            layer that returns whether it gets them. The class or the name of a
            layer with others inside chooses all of these. Defaults to `None`:
            all that can, but frozen ones, which are copied as they are.
        data: `(x, y)` or `(x, y, sample_weight)`, or batches of them, such as
            a `tf.data.Dataset`, a `keras.utils.PyDataset` or a generator, for
            initializers that look at data.
        seed: Integer that fixes the noise; fresh if `None`.

    Returns:
        model: `keras.Model`, not compiled. Of an ensemble an
            `EnsemblePosterior`, whose model has the ensemble's loss: several
            posteriors that `refine` can start from.

    Raises:
        ValueError: If an argument is invalid, or the model is not built, has no
            layer that can get posteriors, or has a `call` of its own and cannot
            be made again.

    Warns:
        UserWarning: If layers are kept as they are, because there is no
            variational layer of their kind; it names them with their path.
            Normalization and noise are kept silently. Also if a functional
            subclass comes back as a plain functional model; if a layer cannot
            be copied, because it does not say how it was made (`get_config`) or
            else: then both models have the layer itself, and its parts are
            named; and if a convolution with the channels first is one for which
            Keras adds the bias along another axis, so that the two models
            differ.

    Example:

    ```python
    bayesian = tfp_refine.models.to_bayesian(model, num_train_examples=60000)

    ensemble = tfp_refine.ensembles.deep_ensemble(model, x, y)
    bayesian = tfp_refine.models.to_bayesian(
        ensemble,
        num_train_examples=len(x),
        estimator="local_reparameterization",
        posterior=tfp_refine.layers.MeanFieldPosterior(0.01),
        initializer=None,  # all scales are 0.01
    )
    refined = tfp_refine.refine(bayesian, x, y)
    ```

    Reference:
        - [Krishnan et al., 2020](https://arxiv.org/abs/1906.05323)
    """
    if isinstance(model, posteriors.EnsemblePosterior):
        convert_one = functools.partial(
            to_bayesian,
            num_train_examples=num_train_examples,
            estimator=estimator,
            regularizer=regularizer,
            posterior=posterior,
            initializer=initializer,
            layers=layers,
            data=data,
            seed=functional.seeds.check(seed),
        )
        return members.to_bayesian(model, convert_one)
    _validation.positive_integer("num_train_examples", num_train_examples)
    _validation.one_of("estimator", estimator, tuple(_ESTIMATORS.values()))
    _check_model(model)
    set_posteriors = None
    if initializer is not None:
        set_posteriors = initializers.get(initializer)
    if isinstance(data, tuple) and len(data) not in (2, 3):
        raise ValueError(
            "`data` must be (x, y) or (x, y, sample_weight), or batches of "
            f"them. Received: a tuple of {len(data)}"
        )
    seed = functional.seeds.check(seed)
    scales = {}
    if isinstance(posterior, posteriors.GaussianPosterior):
        model, scales = gaussian.at_means(posterior, model)
        if regularizer == "gaussian_kl":
            regularizer = gaussian.regularizer(posterior)
        posterior, set_posteriors = "mean_field", None
    chosen = _Choice(layers, model)
    numbers = itertools.count()

    def convert(layer):
        kinds = _kinds(layer)
        is_outer = kinds is None and sublayers.inside(layer)
        number = None if is_outer else next(numbers)
        if kinds is None or not layer.built or not chosen.has(layer):
            return None
        kind = kinds.get(estimator, next(iter(kinds.values())))
        config = layer.get_config()
        if "cell" in config:
            del config["cell"]
            config = layer.cell.get_config() | config
        config["trainable"] = layer.trainable and _owner(layer).trainable
        for name in _regularizers(config):
            config[name] = regularizer
        for name in _posteriors(kind):
            config[name] = posterior
        config["num_train_examples"] = num_train_examples
        config["seed"] = functional.seeds.key(seed, number)
        return _make(kind, config)

    converted, changed = cloning.clone(model, convert)
    chosen.check_all_found()
    hint = ""
    if _has_more_weights(model):
        hint = (
            " Kernels that are quantized, or have low-rank adapters (LoRA), "
            "get none."
        )
    if not changed:
        if chosen.frozen:
            hint += (
                " These are frozen: make them trainable, or choose them with "
                f"`layers`: {', '.join(chosen.frozen)}."
            )
        raise ValueError(
            f"The model '{model.name}' has no layer that can get posteriors"
            f"{'' if layers is None else ' and that `layers` chooses'}; those "
            f"are {', '.join(kind.__name__ for kind in _CLASSES)}.{hint}"
        )
    kept = dict.fromkeys(_kept((model,), has_frozen=layers is not None))
    if kept:
        _validation.warn(
            "These layers stay without posteriors, as there is no variational "
            f"layer of their kind: {', '.join(kept)}.{hint}",
        )
    _check_biases(changed)
    for old, new in changed.items():
        for name, weight in new.twin_weights.items():
            variable = operator.attrgetter(name)(_owner(old))
            if scales:
                weight.assign(variable, scales[id(variable)])
            else:
                weight.loc.assign(variable)
        _freeze_parts(new.twin_weights, old, new)
    if set_posteriors is not None:
        parts = data if isinstance(data, tuple) else (data, None)
        set_posteriors(converted, *parts)
    return converted


def to_deterministic(
    model: keras.Model, *, seed: int | None = None
) -> keras.Model:
    """Copies a Bayesian model, without posteriors.

    Variational layers become those of Keras that they stand for, also inside
    other layers.

    Args:
        model: Built `keras.Model`, with layers of posteriors that are no flows.
            It is not changed.
        seed: Integer: the weights are one draw from the posteriors. Defaults to
            `None`: they are the posteriors' means.

    Returns:
        model: `keras.Model`, not compiled.

    Raises:
        ValueError: If the model is not built, has no variational layer or one
            that stands for no layer of Keras, or has a `call` of its own and
            cannot be made again by its `get_config` and `from_config`.
    """
    generator = None
    if seed is not None:
        generator = keras.random.SeedGenerator(functional.seeds.check(seed))
    converted, pairs = _to_deterministic(model)
    for weight, variable in pairs:
        value = weight.mean(weight.loc.dtype)
        if generator is not None:
            value = weight.sample(generator, weight.loc.dtype)
        variable.assign(value)
    return converted


def to_gaussian(model: keras.Model) -> posteriors.GaussianPosterior:
    """Makes a Gaussian posterior of a deterministic model, from a Bayesian one.

    The model of the posterior has layers of Keras, as that of
    `to_deterministic`; layers without posteriors are frozen in it. Draws are of
    the weights, whatever the estimators of the layers are.

    Args:
        model: Built `keras.Model`, functional or Sequential, with mean-field
            layers whose priors are Gaussians around zero. It is not changed.

    Returns:
        posterior: `GaussianPosterior` of all weights that have a posterior,
            with their prior.

    Raises:
        ValueError: If the model has no variational layer, or its posterior is
            another, or a layer has trainable weights with and without one.

    Example:

    ```python
    posterior = tfp_refine.models.to_gaussian(model)
    plain = posterior.model
    ```
    """
    converted, pairs = _to_deterministic(model)
    if getattr(model, "loss", None) is not None:
        converted.compile(loss=model.loss, jit_compile=model.jit_compile)
    return gaussian.of_pairs(converted, pairs)


def _to_deterministic(model):
    """Copies a model without posteriors.

    Also returns pairs of a weight of the model, and a variable of the copy.
    """
    _check_model(model)

    def convert(layer):
        kind = _DETERMINISTIC.get(type(layer))
        if kind is None:
            if getattr(layer, "variational_weights", ()):
                raise ValueError(
                    f"Layer '{layer.name}', a {type(layer).__name__}, stands "
                    "for no layer of Keras."
                )
            return None
        config = layer.get_config()
        priors = [
            name
            for name in _regularizers(config)
            if regularizers.is_kl(regularizers.get(config[name]))
        ]
        for name in (*_OF_POSTERIORS, *_posteriors(type(layer)), *priors):
            del config[name]
        if "seed" not in _validation.parameters(kind):
            del config["seed"]  # layers with dropout have one too
        return kind.from_config(config)

    converted, changed = cloning.clone(model, convert)
    if not changed:
        raise ValueError(
            f"The model '{model.name}' has no layer with posteriors."
        )
    _check_biases(changed)
    pairs = []
    for old, new in changed.items():
        pairs += [
            (weight, operator.attrgetter(name)(_owner(new)))
            for name, weight in old.twin_weights.items()
        ]
        _freeze_parts(old.twin_weights, old, new)
    return converted, pairs


def _check_model(model):
    if not isinstance(model, keras.Model):
        raise ValueError(
            f"`model` must be a keras.Model. Received: {type(model).__name__}"
        )
    functional.data.check_built(model)


class _Choice:
    """The layers that get posteriors, of those that can.

    Attributes:
        frozen: Paths of layers that are left out because they are frozen.
    """

    def __init__(self, layers, model):
        self._chains = sublayers.chains(model)
        self._entries = layers
        if isinstance(layers, str | type):
            self._entries = [layers]
        if not (
            layers is None
            or callable(layers)
            or isinstance(self._entries, list | tuple)
            and all(map(_is_entry, self._entries))
        ):
            raise ValueError(
                "`layers` must be a class of layers, a name, a list of these, "
                f"a function of a layer, or None. Received: layers={layers!r}"
            )
        self._candidates, self._found = [], []
        self.frozen = []

    def has(self, layer):
        """Returns whether a layer gets posteriors."""
        chains = self._chains[layer]
        path = sublayers.name(chains[0])
        self._candidates.append(path)
        if self._entries is None:
            is_frozen = all(map(_is_frozen, chains))
            self.frozen += [path] if is_frozen else []
            return not is_frozen
        if callable(self._entries):
            return self._entries(layer)
        found = [
            entry
            for entry in self._entries
            if any(_is_meant(entry, chain) for chain in chains)
        ]
        self._found += found
        return bool(found)

    def check_all_found(self):
        """Raises a `ValueError` if an entry chooses no layer."""
        if self._entries is None or callable(self._entries):
            return
        missing = [
            getattr(entry, "__name__", entry)
            for entry in self._entries
            if entry not in self._found
        ]
        if missing:
            raise ValueError(
                f"`layers` chooses no layer by {', '.join(missing)}. Those "
                "that can get posteriors are "
                f"{', '.join(dict.fromkeys(self._candidates)) or 'none'}."
            )


def _is_entry(entry):
    """Tells whether it is a name, or a class of layers."""
    return isinstance(entry, str) or (
        isinstance(entry, type) and issubclass(entry, keras.layers.Layer)
    )


def _is_meant(entry, chain):
    """Checks whether an entry names a layer, or one that it is inside of."""
    if isinstance(entry, str):
        return any(
            entry in (chain[end].name, sublayers.name(chain[: end + 1]))
            for end in range(1, len(chain))
        )
    return any(isinstance(layer, entry) for layer in chain[1:])


def _is_frozen(chain):
    *holders, layer = chain
    return bool(layer.weights) and not (
        layer.trainable_weights and all(one.trainable for one in holders)
    )


def _kept(chain, has_frozen):
    """Names the layers inside one that stay point estimates.

    One that has none inside that could get posteriors is named as a whole.
    """
    names = []
    for part in sublayers.inside(chain[-1]):
        to_part = (*chain, part)
        if _kinds(part) is not None:
            continue
        if _is_frozen(to_part) and not has_frozen:
            continue
        if sublayers.is_graph(part) or _has_candidates(part):
            if any(weight.trainable for weight in cloning.own(part)):
                names.append(sublayers.name(to_part))
            names += _kept(to_part, has_frozen)
        elif _is_worth_a_warning(part):
            names.append(sublayers.name(to_part))
    return names


def _has_candidates(layer):
    return any(
        _kinds(part) is not None or _has_candidates(part)
        for part in sublayers.inside(layer)
    )


def _kinds(layer):
    """Returns the layer of each estimator for a layer, or `None`."""
    if _has_more_weights(layer):
        return None
    return _CLASSES.get(_kind(layer))


def _kind(layer):
    """Returns the class of a layer, or the one that computes the same."""
    if type(layer) is not keras.layers.RNN:
        return type(layer)
    cell = layer.cell
    if getattr(cell, "dtype_policy", None) != layer.dtype_policy:
        return type(layer)
    return _OF_CELLS.get(type(cell), type(layer))


def _has_more_weights(layer):
    """Tells whether a kernel is quantized, or has low-rank adapters."""
    return any(
        getattr(part, "quantization_mode", None) is not None
        or getattr(part, "lora_enabled", False)
        for part in layer._flatten_layers()
    )


def _regularizers(config):
    """Returns the names of the regularizers of weights in a configuration."""
    return [
        name
        for name in config
        if name.endswith("_regularizer") and name != "activity_regularizer"
    ]


def _posteriors(kind):
    """Returns the names of a variational layer's posteriors of weights."""
    parts = [part for part, _ in getattr(kind, "parts", ())]
    return [f"{part}_posterior" for part in parts or ("kernel", "bias")]


def _owner(layer):
    """Returns the layer that has the weights as its attributes."""
    return getattr(layer, "cell", layer)


def _freeze_parts(names, layer, copy):
    """Freezes layers inside a copy as they are, given the names of weights."""
    for name in names:
        part, is_inside, _ = name.rpartition(".")
        if is_inside:
            find = operator.attrgetter(part)
            find(copy).trainable = find(layer).trainable


def _make(kind, config):
    """Makes a layer, and uncovers the error that Keras hides in its own."""
    try:
        return kind.from_config(config)
    except TypeError as error:
        raise ValueError(
            f"Layer '{config['name']}' cannot become a {kind.__name__}: "
            f"{error.__context__ or error}"
        ) from error


def _check_biases(changed):
    """Warns of layers for which the two models may differ."""
    differ = [layer.name for layer in changed if _is_biased_elsewhere(layer)]
    if differ:
        _validation.warn(
            "Keras adds a bias along the last axis where it is as long as its "
            "own, such as that of channels which come first; layers with "
            "posteriors add it along its own. So the two models differ in "
            "these layers, or may for inputs of some lengths: "
            f"{', '.join(differ)}.",
        )


def _is_biased_elsewhere(layer):
    """Tells whether Keras may take another axis for that of the bias.

    That is the last one, or for an `EinsumDense` also the second one.
    """
    if type(layer) is keras.layers.EinsumDense:
        return _is_biased_along_another(layer)
    if getattr(layer, "data_format", None) != "channels_first":
        return False
    lengths = [
        outputs.shape[-1]
        for node in layer._inbound_nodes
        for outputs in node.output_tensors
    ]
    channels = layer.bias.shape[0] if layer.use_bias else 1
    is_possible = {None, channels}.intersection(lengths or [None])
    return channels > 1 and bool(is_possible)


def _is_biased_along_another(layer):
    """Tells it of an `EinsumDense`, whose bias may lie along any axis."""
    shape = () if layer.bias is None else tuple(layer.bias.shape)
    lengths = [size for size in shape if size > 1]
    if len(lengths) != 1 or shape[-1] > 1:
        return False
    own = shape.index(lengths[0]) - len(shape)
    for node in layer._inbound_nodes:
        for outputs in node.output_tensors:
            axes = {1, len(outputs.shape) - 1} - {len(outputs.shape) + own}
            if any(outputs.shape[axis] in (None, *lengths) for axis in axes):
                return True
    return not layer._inbound_nodes  # one inside a layer


def _is_worth_a_warning(layer):
    if isinstance(
        layer, (*cloning.NORMALIZATIONS, layers_lib.HomoscedasticNoise)
    ):
        return False  # point estimates, as usual
    if getattr(layer, "variational_weights", ()):
        return False
    if isinstance(layer, keras.layers.Wrapper):
        return _is_worth_a_warning(layer.layer)
    package, ours = (
        name.partition(".")[0] for name in (type(layer).__module__, __name__)
    )
    is_custom = package not in ("keras", ours)
    is_function = isinstance(layer, keras.layers.Lambda)
    return bool(layer.weights) or is_custom or is_function
