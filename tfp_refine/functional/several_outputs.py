"""Losses and weights of several outputs by name, and the sum of the losses."""

from typing import Any
from typing import NamedTuple

import keras

from tfp_refine.functional import example_weights


class Part(NamedTuple):
    """One output with its loss, targets and weights, for some examples.

    Attributes:
        where: Words that name the output in messages, empty if there is one.
        loss: Its loss.
        factor: How often it counts in the sum of all.
        y_true: Targets, `[B, ...]` (or nested).
        y_pred: Outputs, `[B, ...]` (or nested).
        weights: Of examples, or positions; `None` if all count once.
    """

    where: str
    loss: Any
    factor: float
    y_true: Any
    y_pred: Any
    weights: Any = None


class SummedLoss:
    """Sum of the losses of a model's outputs, each times a factor.

    The loss of each output is given as `by_output` takes it, one for all too;
    `None` leaves an output out. So are the factors, `loss_weights` of Keras.

    Attributes:
        names: Names of the outputs that count.
        losses: Their losses.
        factors: Their factors.
    """

    def __init__(self, model, outputs, loss, loss_weights=None):
        self._outputs = keras.tree.map_structure(lambda _: None, outputs)
        self._all = names_of(model, outputs)
        losses = by_output("loss", loss, self._all, outputs, one_for_all=True)
        self._places = [n for n, one in enumerate(losses) if one is not None]
        if not self._places:
            raise ValueError(
                "`loss` must have a loss for one of the outputs "
                f"{list(self._all)}. Received: loss={loss!r}"
            )
        self.names = tuple(self._all[place] for place in self._places)
        self.losses = tuple(
            keras.losses.get(losses[place]) for place in self._places
        )
        self.factors = self._factors(loss_weights)

    def __repr__(self):
        terms = (
            f"{name}: {'' if factor == 1.0 else f'{factor:g} * '}{loss!r}"
            for name, loss, factor in zip(
                self.names, self.losses, self.factors, strict=True
            )
        )
        return f"{{{', '.join(terms)}}}"

    def arrange(self, data):
        """Arranges targets, and weights if any, by the outputs that count.

        `data` is `(x, y)` or `(x, y, weights)`, nested as given. Targets and
        weights become tuples; weights that serve all outputs stay as they are.
        """
        x, y, *weights = data
        y = self._given("y", y)
        if weights and keras.tree.is_nested(weights[0]):
            weights = [self._given("sample_weight", weights[0])]
        elif weights and len(weights[0].shape) > 1 and len(self._all) > 1:
            raise ValueError(
                "`sample_weight` of positions must be given for each output, "
                f"{list(self.names)}. Received: one of shape "
                f"{tuple(weights[0].shape)}"
            )
        return (x, y, *weights)

    def parts(self, y_true, y_pred, weights=None):
        """Returns a `Part` for each output that counts.

        Targets and weights are as `arrange` has them, outputs as the model.
        """
        flat = keras.tree.flatten(y_pred)
        if not isinstance(weights, tuple):
            weights = (weights,) * len(self.names)
        return [
            Part(f" of the output '{name}'", loss, factor, y, flat[place], w)
            for name, loss, factor, y, place, w in zip(
                self.names,
                self.losses,
                self.factors,
                y_true,
                self._places,
                weights,
                strict=True,
            )
        ]

    def _given(self, argument, value):
        """Returns the values for the outputs that count, a tuple."""
        try:
            found = by_output(argument, value, self._all, self._outputs)
            found = [found[place] for place in self._places]
        except ValueError:
            if len(self.names) == len(self._all):
                raise
            # For these alone, as Keras takes it too.
            found = by_output(argument, value, self.names)
        for name, one in zip(self.names, found, strict=True):
            if one is None:
                raise ValueError(
                    f"`{argument}` must have a value for each output with a "
                    f"loss, {list(self.names)}. Received: none for '{name}'"
                )
        return tuple(found)

    def _factors(self, loss_weights):
        if loss_weights is None:
            return (1.0,) * len(self.names)
        found = self._given("loss_weights", loss_weights)
        for factor in found:
            if not example_weights.is_weight(factor):
                raise ValueError(
                    "`loss_weights` must be finite numbers of which none is "
                    f"negative. Received: loss_weights={loss_weights!r}"
                )
        return tuple(map(float, found))


def takes_all(loss):
    """Checks whether an argument `loss` is a function of all outputs."""
    return callable(loss) and not isinstance(loss, keras.losses.Loss)


def names_of(model, outputs):
    """Returns names of a model's outputs, in the order of `keras.tree`.

    They are the keys of a dict, the names in a functional model, or "0", "1"
    and so on.
    """
    if isinstance(outputs, dict) and not any(
        map(keras.tree.is_nested, outputs.values())
    ):
        return tuple(sorted(outputs))
    count = len(keras.tree.flatten(outputs))
    functional = getattr(model, "_functional", None) or model  # of Sequential
    known = getattr(functional, "output_names", None) or ()
    if len(known) == len(set(known)) == count:
        return tuple(known)
    return tuple(map(str, range(count)))


def by_output(argument, value, names, outputs=None, one_for_all=False):
    """Returns the value for each output, a list in the order of `names`.

    It is nested as the outputs are, a dict by name (`None` for those left out),
    or a list in the order of `names`. With `one_for_all` it may be a single
    one. Raises a `ValueError` that names the argument otherwise.
    """
    if not keras.tree.is_nested(value):
        if one_for_all or len(names) == 1:
            return [value] * len(names)
    elif _is_nested_as(value, outputs):
        return keras.tree.flatten(value)
    elif isinstance(value, dict):
        if not set(value) - set(names):
            return [value.get(name) for name in names]
    elif len(value) == len(names):
        return list(value)
    received = type(value).__name__
    if isinstance(value, dict):
        received = f"names {sorted(map(str, value))}"
    elif keras.tree.is_nested(value):
        received = f"{len(value)} values"
    raise ValueError(
        f"`{argument}` must have a value for each output of the model: a dict "
        f"by their names, {list(names)}, or a list in this order. Received: "
        f"{received}"
    )


def _is_nested_as(value, outputs):
    try:
        keras.tree.assert_same_structure(value, outputs)
    except (TypeError, ValueError):
        return False
    return True
