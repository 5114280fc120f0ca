"""Links of a model's outputs to class probabilities."""

from typing import NamedTuple

import keras
import tensorflow as tf

from tfp_refine import losses
from tfp_refine.functional import several_outputs
from tfp_refine.math import ordinal


class Link(NamedTuple):
    """Relation of a classifier's outputs to class probabilities.

    Attributes:
        function: `"softmax"`: classes exclude each other, `C` along the last
            axis. `"sigmoid"`: of one output the second of two classes; of
            several, labels that do not exclude each other. `"ordinal"`:
            ordered classes, from `C - 1` outputs (`losses.OrdinalNLL`).
        from_logits: Whether outputs are logits; else they are probabilities.
    """

    function: str
    from_logits: bool

    def probabilities(self, outputs):
        """Computes class probabilities, `[..., C]`, of outputs `[..., C]`.

        They are `[..., 2]` for a sigmoid of one output, and `[..., C]` for
        `C - 1` outputs of ordered classes.
        """
        if self.function == "ordinal":
            return tf.exp(ordinal.log_probs(outputs))
        if self.function == "softmax":
            return tf.nn.softmax(outputs) if self.from_logits else outputs
        probs = tf.sigmoid(outputs) if self.from_logits else outputs
        if outputs.shape[-1] > 1:
            return probs
        complement = tf.sigmoid(-outputs) if self.from_logits else 1.0 - outputs
        return tf.concat([complement, probs], axis=-1)

    def distributions(self, outputs):
        """Computes probabilities that sum to 1, `[..., C]`.

        Of several labels they are those of each and of its absence, `[..., C,
        2]`.
        """
        probs = self.probabilities(outputs)
        if self.function == "sigmoid" and outputs.shape[-1] > 1:
            return tf.stack([probs, 1.0 - probs], axis=-1)
        return probs


class Links(NamedTuple):
    """Relations of a model's several outputs to class probabilities.

    Attributes:
        names: Names of the outputs, as `several_outputs.names_of`.
        links: The `Link` of each, or `None` for one that does not classify.
    """

    names: tuple
    links: tuple

    def probabilities(self, outputs):
        """Computes those of outputs that classify, a dict by their names."""
        return {
            name: link.probabilities(output)
            for name, link, output in self._classifying(outputs)
        }

    def distributions(self, outputs):
        """Computes those that sum to 1, likewise."""
        return {
            name: link.distributions(output)
            for name, link, output in self._classifying(outputs)
        }

    def _classifying(self, outputs):
        flat = keras.tree.flatten(outputs)
        for found in zip(self.names, self.links, flat, strict=True):
            if found[1] is not None:
                yield found


def describe(link):
    """Returns a link, `Links` or `None` as values for JSON."""
    if isinstance(link, Links):
        return {"names": link.names, "links": [*map(describe, link.links)]}
    return link and link._asdict()


def restore(described):
    """Restores a link from the result of `describe`."""
    if described and "links" in described:
        links = tuple(map(restore, described["links"]))
        return Links(tuple(described["names"]), links)
    return described and Link(**described)


def find(model, loss=None, outputs=None):
    """Returns the `Link` of a model, or `None` if nothing says it classifies.

    The loss, that which it was compiled with if `None`, or else the activation
    of the last layer says so. For several outputs these are `Links`. `outputs`
    are some of them, for models that are not functional.
    """
    takes_all = several_outputs.takes_all(loss)
    if loss is None:
        loss = getattr(model, "loss", None)
    if outputs is None:
        outputs = getattr(model, "_outputs_struct", None)
    if keras.tree.is_nested(loss) or (
        keras.tree.is_nested(outputs) and not takes_all
    ):
        return _links(model, loss, outputs)
    layers = [None, *model._flatten_layers(include_self=False)]
    return _link(loss, layers[-1])


def _links(model, loss, outputs):
    if outputs is None:
        return None
    names = several_outputs.names_of(model, outputs)
    flat = keras.tree.flatten(outputs)
    try:
        found = several_outputs.by_output(
            "loss", loss, names, outputs, one_for_all=True
        )
    except ValueError:
        return None
    layers = [None] * len(flat)
    if loss is None:
        layers = [
            getattr(getattr(output, "_keras_history", None), "operation", None)
            for output in flat
        ]
    links = tuple(map(_link, found, layers))
    if not any(links):
        return None
    return Links(names, links) if keras.tree.is_nested(outputs) else links[0]


def _link(loss, last_layer):
    """Returns the link of one output, by its loss, or else its layer."""
    if isinstance(loss, str):
        try:
            loss = keras.losses.get(loss)
        except (TypeError, ValueError):
            loss = None
    if loss is not None:
        for function, (classes, functions) in _BY_LOSS.items():
            if isinstance(loss, classes) or any(
                loss is one for one in functions
            ):
                return Link(function, bool(getattr(loss, "from_logits", False)))
        return None
    activation = getattr(last_layer, "activation", None)
    name = getattr(activation, "__name__", None)
    if name in ("softmax", "sigmoid"):
        return Link(name, from_logits=False)
    return None


_BY_LOSS = {
    "ordinal": ((losses.OrdinalNLL,), ()),
    "softmax": (
        (
            losses.CategoricalNLL,
            keras.losses.SparseCategoricalCrossentropy,
            keras.losses.CategoricalCrossentropy,
            keras.losses.CategoricalFocalCrossentropy,
        ),
        (
            keras.losses.sparse_categorical_crossentropy,
            keras.losses.categorical_crossentropy,
        ),
    ),
    "sigmoid": (
        (
            losses.BernoulliNLL,
            keras.losses.BinaryCrossentropy,
            keras.losses.BinaryFocalCrossentropy,
        ),
        (keras.losses.binary_crossentropy,),
    ),
}
