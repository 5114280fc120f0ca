"""Copies of Keras models in which layers are replaced, however deep inside."""

import collections
import functools
import json
import textwrap
import warnings

import keras

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.models import sublayers

# Layers whose weights are point estimates, as usual.
NORMALIZATIONS = (
    keras.layers.BatchNormalization,
    keras.layers.GroupNormalization,
    keras.layers.LayerNormalization,
    keras.layers.Normalization,
    keras.layers.UnitNormalization,
)


def clone(model, replace, call_function=None):
    """Copies a model, uncompiled, with some of its layers replaced.

    Layers are copied by their configurations, and have the weights of the
    model's. The replacements take their places: in graphs, and in the
    attributes of layers and models with a `call` of their own. A layer at
    several places is one layer in the copy, too.

    Args:
        model: Built `keras.Model`.
        replace: Function of a layer that returns its replacement, not built,
            or `None` for a copy. It is asked first of all, the outer layers
            before those inside.
        call_function: Calls the layers of the graph, as that of
            `keras.models.clone_model`.

    Returns:
        copy: `keras.Model`, of a subclass of the model's class if its
            configuration alone does not describe the replacements.
        replaced: Dict from layers to their replacements. These are built, and
            their weights are not set.

    Raises:
        ValueError: If the model is not built, or cannot be copied.

    Warns:
        UserWarning: If layers cannot be copied, which both models then share,
            or models lose their class.
    """
    functional.data.check_built(model)
    copier = _Copier(model, replace, call_function)
    with functional.copying.uncompiled(model):
        return copier.copy(model), copier.replaced()


@keras.saving.register_keras_serializable("tfp_refine", "Converted")
class Converted:
    """Mixin of layers and models in which layers were replaced.

    The configuration is that of the original, with the layers inside that take
    the places of others.
    """

    def get_config(self):
        return {
            "name": self.name,
            "trainable": self.trainable,
            "original": json.loads(self._original),
            "build_config": self.get_build_config(),
            "inside": [
                [list(address), _serialize(sublayers.at(self, address))]
                for address in self._replaced
            ],
        }

    @classmethod
    def from_config(cls, config):
        original = _make_original(config["original"], config["name"])
        _build_from_config(original, config["build_config"])
        made = {
            sublayers.at(original, address): layer
            for address, layer in reversed(config["inside"])
        }

        def replace(layer):
            if layer not in made:
                return None
            return keras.saving.deserialize_keras_object(made[layer])

        new = _Copier(original, replace).copy(original)
        if new.trainable != config["trainable"]:
            new.trainable = config["trainable"]
        return new


def _serialize(layer):
    """Returns the configuration of a layer, neither built nor compiled."""
    config = keras.saving.serialize_keras_object(layer)
    more = ("build_config", "compile_config")
    return {name: config[name] for name in config if name not in more}


def _make_original(config, name):
    original = keras.saving.deserialize_keras_object(config)
    original.name = name  # which the configuration that Keras makes up lacks
    return original


@functools.cache
def _converted_class(kind):
    made = type(
        f"Converted{kind.__name__}",
        (Converted, kind),
        {"__doc__": kind.__doc__, "__module__": kind.__module__},
    )
    # Whichever of these is found by the name, it reads all configurations.
    return keras.saving.register_keras_serializable("tfp_refine", "Converted")(
        made
    )


class _Copier:
    """Copies one model.

    Attributes:
        copies: Dict from layers to their copies or replacements.
    """

    def __init__(self, model, replace, call_function=None):
        self._model, self._call_function = model, call_function
        self._replace = replace
        self._made = {model: None}  # replacements, not built
        self._holders = collections.Counter()
        self._in_converted = set()
        self._current = None  # the layer whose inside is being copied
        self._decide(model)
        self._trainable = {
            layer: new.trainable
            for layer, new in self._made.items()
            if new is not None
        }
        self.copies = {}

    def _decide(self, layer):
        is_converted = isinstance(layer, Converted)
        for part in sublayers.inside(layer):
            self._holders[part] += 1
            if is_converted or layer in self._in_converted:
                self._in_converted.add(part)
            if part not in self._made:
                self._made[part] = self._replace(part)
                if self._made[part] is None:
                    self._decide(part)

    def replaced(self):
        """Returns the layers that were replaced, with their replacements."""
        return {
            layer: self.copies[layer]
            for layer in self._trainable
            if layer in self.copies
        }

    def copy(self, layer):
        """Copies a layer, or an operation of a graph, once."""
        if not isinstance(layer, keras.layers.Layer):
            return layer
        if layer not in self.copies:
            self.copies[layer] = self._copy(layer)
        return self.copies[layer]

    def _copy(self, layer):
        new = self._made[layer]
        if new is not None:
            _build(layer, new)
            return new
        if sublayers.is_graph(layer):
            return self._copy_graph(layer)
        if _is_kept(layer):
            return layer
        before, self._current = dict(self.copies), None
        try:
            if self._has_more_inside(layer):
                return self._copy_with_parts(layer)
            return _copy_alone(layer)
        except Exception as error:  # whatever happens in a user's layer
            self.copies = before
            if self._leave_out(self._current, error):
                return self._copy(layer)
            self._give_up(layer, error)
            return layer

    def _has_more_inside(self, layer):
        """Checks whether a configuration does not make all that is inside."""
        return any(
            self._made[part] is not None
            or self._holders[part] > 1
            or part in self._in_converted
            or _is_kept(part)
            or self._has_more_inside(part)
            for part in sublayers.inside(layer)
        )

    def _leave_out(self, layer, error):
        """Gives up replacing the layers inside a layer, and reports it."""
        paths = self._replaced_inside(layer)
        if not paths:
            return False
        for part in paths:
            self._made[part] = None
            del self._trainable[part]
        _validation.warn(
            f"These layers are not reached: {', '.join(paths.values())}. "
            f"Layer '{layer.name}', a {type(layer).__name__}, does not let "
            f"them be replaced. {_describe(error)}"
        )
        return True

    def _give_up(self, layer, error):
        text = "as its `get_config` and `from_config` do not make another one"
        if layer is self._model:
            raise ValueError(
                f"The model '{layer.name}', a {type(layer).__name__}, cannot "
                f"be copied, {text}. {_describe(error)}"
            ) from error
        paths = self._replaced_inside(layer).values()
        inside = f" These inside are not reached: {', '.join(paths)}."
        _validation.warn(
            f"Layer '{layer.name}', a {type(layer).__name__}, is kept itself, "
            f"not copied, {text}: both models have it, and training one of "
            f"them changes it in both.{inside if paths else ''} "
            f"{_describe(error)}",
        )

    def _replaced_inside(self, layer):
        """Returns the paths of layers to be replaced inside one, by layer."""
        return {
            part: sublayers.name(chains[0])
            for part, chains in sublayers.chains(self._model).items()
            if self._made.get(part) is not None and layer in chains[0]
        }

    # Layers and models with a `call` of their own.

    def _copy_with_parts(self, layer):
        """Makes a layer again, and exchanges layers inside."""
        new, replaced = _from_config(layer), {}
        self._exchange(layer, new, (), replaced)
        _build(layer, new)
        self._exchange(layer, new, (), replaced)  # those that `build` makes
        self._build_parts(layer, new)
        self._exchange(layer, new, (), replaced, is_last=True)
        self._take_over(layer, new)
        if replaced and not _describes(new, replaced):
            _mark(layer, new, replaced)
        return new

    def _exchange(self, layer, new, path, replaced, is_last=False):
        """Puts copies and replacements where a new layer has others."""
        self._current = layer
        present = sublayers.find(new)
        for address, part in sublayers.find(layer).items():
            if address not in present:
                if is_last:
                    raise ValueError(f"it has no {_show(address)} again")
                continue
            copied = self._copy_of_part(part, present[address])
            if copied is not present[address]:
                if copied.built and not new.built:
                    continue  # `build` may build all that it finds
                sublayers.put(new, address, copied)
                if copied is not part:
                    replaced[(*path, *address)] = copied
            elif self._made[part] is None and self._has_more_inside(part):
                self._exchange(
                    part, copied, (*path, *address), replaced, is_last
                )
                self._current = layer

    def _copy_of_part(self, part, present):
        if part not in self.copies:
            new = self._made[part]
            if new is not None and _are_alike(new, present):
                new = present
            elif new is None and _is_kept(part):
                new = part
            elif new is None and (
                sublayers.is_graph(part) and self._has_more_inside(part)
            ):
                new = self._copy_graph(part)
            elif new is None and type(part) is not type(present):
                new = self._copy(part)  # one that was replaced before
            elif new is None:
                new = present
            if new is present:
                new.name = part.name  # which some configurations lack
            if new is not part:
                _name_weights_alike(part, new)
            self.copies[part] = new
        return self.copies[part]

    def _build_parts(self, layer, new):
        """Builds the layers inside that are not built with the layer."""
        self._current = layer
        present = sublayers.find(new)
        for address, part in sublayers.find(layer).items():
            if address not in present or present[address] is part:
                continue
            copied = present[address]
            _build(part, copied)
            if self._made[part] is None and self._has_more_inside(part):
                self._build_parts(part, copied)
                self._current = layer
            elif self._made[part] is None:
                _build_alone(part, copied)

    def _take_over(self, layer, new):
        """Gives a copy the weights, and freezes the same ones."""
        self._current = layer
        self._freeze(layer, new)
        _take_over_own(layer, new)
        present = sublayers.find(new)
        for address, part in sublayers.find(layer).items():
            copied = present[address]
            if self._made[part] is not None or copied is part:
                self._freeze(part, copied)
            elif not self._has_more_inside(part):
                take_over(part, copied)
            elif not sublayers.is_graph(part):
                self._take_over(part, copied)
                self._current = layer

    def _freeze(self, layer, new):
        is_trainable = self._trainable.get(layer, layer.trainable)
        if new is not layer and new.trainable != is_trainable:
            new.trainable = is_trainable

    # Functional and Sequential models.

    def _copy_graph(self, model):
        for layer in sublayers.inside(model):
            functional.data.check_built(layer)  # not behind unknown shapes
        is_whole = model is self._model
        graph = keras.models.clone_model(
            model,
            clone_function=self.copy,
            call_function=self._call_function if is_whole else None,
        )
        if type(graph) is type(model):
            return graph
        if is_whole and self._call_function is not None:
            reason = "it has more layers"
        else:
            try:
                return self._copy_subclass(model, graph)
            except Exception as error:  # whatever happens in a user's model
                reason = (
                    "its `get_config` and `from_config` do not make another "
                    f"one. {_describe(error)}"
                )
        _check_call(model, reason)
        _validation.warn(
            f"The copy of '{model.name}', a {type(model).__name__}, is a plain "
            f"{type(graph).__name__} model, without the methods of its class "
            f"such as `train_step`, as {reason}",
        )
        return graph

    def _copy_subclass(self, model, graph):
        """Makes a model of its class, with another graph."""
        new, replaced = _from_config(model), {}
        before = sublayers.find(new)
        if isinstance(model, keras.Sequential):
            while new.layers:
                new.pop(rebuild=False)
            for layer in graph.layers:
                new.add(layer)
        else:
            for layer in list(new._layers):
                new._tracker.untrack(layer)
            policy = new.dtype_policy
            type(graph).__init__(
                new, graph.input, graph.output, name=model.name
            )
            new.dtype_policy = policy
        for address, part in sublayers.find(model).items():
            copied = self.copy(part)
            if sublayers.at(new, address) is not copied:
                sublayers.put(new, address, copied)
            if _kinds(copied) != _kinds(before[address]):
                replaced[address] = copied
        _take_over_own(model, new)
        if replaced:
            _mark(model, new, replaced)
        return new


def own(layer):
    """Returns the weights of a layer that are of none inside."""
    inside = {
        id(weight)
        for part in layer._flatten_layers(include_self=False, recursive=False)
        for weight in part.weights
    }
    return [weight for weight in layer.weights if id(weight) not in inside]


def _build(layer, new):
    """Builds a copy, or a replacement, as the layer was built."""
    if not layer.built or new.built:
        return
    _name_weights_alike(layer, new)
    _build_from_config(new, layer.get_build_config())


def _name_weights_alike(layer, new):
    new._parent_path = layer._parent_path


def _build_from_config(layer, config):
    with warnings.catch_warnings():
        # Those inside are built one by one if this does not build them.
        warnings.filterwarnings("ignore", ".*build", UserWarning)
        layer.build_from_config(config or {})
    layer.built = True


def _describes(new, replaced):
    """Checks whether a configuration makes the layers inside, too."""
    try:
        other = _from_config(new)
        return all(
            _kinds(sublayers.at(other, address)) == _kinds(layer)
            for address, layer in replaced.items()
        )
    except Exception:  # whatever happens in a user's layer
        return False


def _kinds(layer):
    return [
        type(part)
        for part in layer._flatten_layers()
        if not isinstance(part, keras.layers.InputLayer)
    ]


def _are_alike(new, present):
    """Checks whether two layers, built or not, are of the same kinds."""
    if _kinds(new) == _kinds(present):
        return True
    # Attention makes those inside when it is built.
    return (
        type(new) is type(present)
        and new.built != present.built
        and _arguments(new) == _arguments(present)
    )


def _arguments(layer):
    """Returns the configuration of the layers inside, without name and seed."""
    config = layer.get_config()
    return {key: config[key] for key in config if key not in ("name", "seed")}


def _mark(layer, new, replaced):
    """Lets a copy describe itself with the layers that were replaced."""
    if isinstance(layer, Converted):
        original = layer._original
    else:
        original = json.dumps(_serialize(layer))
    new.__class__ = _converted_class(type(new))
    new._original, new._replaced = original, tuple(replaced)


def _describe(error):
    text = textwrap.shorten(str(error), 300, placeholder=" ...")
    return f"{type(error).__name__}: {text}"


def _show(address):
    attribute, *keys = address
    return attribute + "".join(f"[{key!r}]" for key in keys)


def _check_call(model, reason):
    """Raises a `ValueError` for a model that computes more than its graph."""
    (owner, *_) = (k for k in type(model).__mro__ if "call" in vars(k))
    if owner.__module__.partition(".")[0] != "keras":
        raise ValueError(
            f"The model '{model.name}', a {type(model).__name__}, cannot be "
            "copied: its `call` is its own, not the graph of its inputs and "
            f"outputs, and {reason}"
        )


def _is_kept(layer):
    """Checks whether the copy has the layer itself.

    It has nothing to train and is a Python function, which cannot be copied, or
    preprocessing, whose state is not all in its weights.
    """
    if isinstance(layer, keras.layers.Lambda):
        return True
    has_more = any(hasattr(one, "adapt") for one in layer._flatten_layers())
    return has_more and not layer.trainable_weights


def is_copied(layer):
    """Checks whether the configuration of a layer makes a copy of it."""
    try:
        _copy_alone(layer)
    except Exception:  # whatever happens in a user's layer
        return False
    return True


def _copy_alone(layer):
    new = _from_config(layer)
    _build(layer, new)
    _build_alone(layer, new)
    take_over(layer, new)
    return new


def _build_alone(layer, copy):
    """Builds the layers inside that are not built with the layer."""
    for one, other in _pairs(layer, copy):
        _build(one, other)


def _from_config(layer):
    """Makes a layer again, without its weights."""
    with functional.copying.scope(layer):
        if isinstance(layer, Converted):
            return _make_original(json.loads(layer._original), layer.name)
        config = layer.get_config()
        try:
            # Which the configuration that Keras makes up does not have.
            new = type(layer).from_config({"name": layer.name, **config})
        except TypeError:
            new = type(layer).from_config(config)
    if {id(v) for v in new.variables} & {id(v) for v in layer.variables}:
        raise ValueError("the other one would have its variables")
    return new


def _take_over_own(layer, copy):
    if len(own(copy)) != len(own(layer)):
        raise ValueError(
            f"'{layer.name}' has {len(own(layer))} weights of its own, and its "
            f"copy {len(own(copy))}: one of them may be of a layer inside"
        )
    for weight, value in zip(own(copy), own(layer), strict=True):
        weight.assign(value)


def take_over(layer, copy):
    """Gives a copy the weights of a layer, and freezes the same ones."""
    copy.set_weights(layer.get_weights())
    for one, other in _pairs(layer, copy):
        if one.trainable != other.trainable:
            other.trainable = one.trainable


def _pairs(layer, copy):
    """Returns pairs of a layer and its copy, the outer ones first."""
    parts, copied = layer._flatten_layers(), copy._flatten_layers()
    return zip(parts, copied, strict=True)
