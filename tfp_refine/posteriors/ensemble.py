"""Posteriors that are mixtures of members."""

import math
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.functional import copying
from tfp_refine.functional import files
from tfp_refine.posteriors import posterior_file
from tfp_refine.posteriors import protocol

_GOLDEN_RATIO = (1.0 + math.sqrt(5.0)) / 2.0


class EnsemblePosterior(protocol.Posterior):
    """Mixture of `M` members.

    Members are points, or, in a `MeanFieldView`, Gaussians that the layers
    draw from. Draw `s` is of member `s % M`; where members have weights, draws
    are evenly in proportion to them.

    Args:
        view: View of the weights.
        params: Members' vectors, `[M, ...]`.
        fixed: Values of the view's fixed weights, a list; `[M, ...]` each if
            `stacked`.
        link: `Link` of the outputs to class probabilities, or `None`.
        history: Dict of arrays, with a row for each member where they differ.
        diagnostics: Dict of numbers.
        stacked: Whether each member has fixed weights of its own.
        input_specs: `tf.TensorSpec` of the inputs (or nested), which copies of
            subclassed models need.
        member_weights: Weights of the members in the mixture, `[M]`, not
            negative, with the sum 1. Equal ones if `None`.

    Attributes:
        params: Members' vectors, array `[M, ...]`.
        fixed: Values of the fixed weights.
        member_weights: Weights of the members, or `None`; may be set.

    Example:

    ```python
    ensemble = tfp_refine.ensembles.deep_ensemble(
        model, x_train, y_train, num_members=5, steps=1000
    )
    probs = ensemble.predict_proba(x_test, num_samples=5)  # [N, C]
    ```
    """

    def __init__(
        self,
        view: functional.WeightView,
        params: Any,
        fixed: Any,
        link: functional.links.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
        stacked: bool = True,
        input_specs: Any = None,
        member_weights: npt.ArrayLike | None = None,
    ) -> None:
        super().__init__(view, link, history, diagnostics)
        self.params = np.asarray(params)
        self.fixed = fixed
        self._stacked = stacked
        self._input_specs = input_specs
        self.member_weights = member_weights

    @property
    def num_members(self) -> int:
        """`M`, the number of members."""
        return len(self.params)

    @property
    def member_weights(self) -> np.ndarray | None:
        """Weights of the members, `[M]`; `None` if they are equal."""
        return self._member_weights

    @member_weights.setter
    def member_weights(self, value: npt.ArrayLike | None) -> None:
        if value is not None:
            value = _validation.weights(
                "member_weights", value, self.num_members
            )
        self._member_weights = value

    def _numbers(self, num_samples):
        """Returns the member of each draw, int array `[S]`.

        Those of the first draws do not depend on how many there are. Points
        spread over [0, 1) fall into the members' shares of it: neighbors, too,
        are drawn in proportion to their weights together, however small.
        """
        if self.member_weights is None:
            return np.arange(num_samples) % self.num_members
        points = (0.5 + _GOLDEN_RATIO * np.arange(num_samples)) % 1.0
        bounds = np.cumsum(self.member_weights)
        return np.searchsorted(bounds / bounds[-1], points, side="right")

    def _shown_arguments(self):
        return super()._shown_arguments() | {"num_members": self.num_members}

    def member(self, index: int) -> keras.Model:
        """Returns one member as a Keras model of its own.

        Args:
            index: From 0 to `num_members - 1`.

        Returns:
            model: Built `keras.Model`, a copy, compiled if the ensemble's model
                is.

        Raises:
            IndexError: If there is no such member.
        """
        params, fixed = self.weights_of(index)
        model = copying.copy(self.model, self._input_specs)
        view = posterior_file.same_view(self.view, model)
        view.assign(params, fixed)
        return model

    def weights_of(self, index: int) -> tuple[np.ndarray, list]:
        """Returns the weights of one member.

        Args:
            index: From 0 to `num_members - 1`.

        Returns:
            params: Its vector, `[...]`.
            fixed: Values of its fixed weights, a list.

        Raises:
            IndexError: If there is no such member.
        """
        if (
            not isinstance(index, int | np.integer)
            or isinstance(index, bool)
            or not 0 <= index < self.num_members
        ):
            raise IndexError(
                f"`index` must be an integer in [0, {self.num_members}). "
                f"Received: index={index!r}"
            )
        fixed = self.fixed
        if self._stacked:
            fixed = [value[index] for value in fixed]
        return self.params[index], fixed

    def _draw(self, num_samples, seed, at_once):
        del seed
        if self.member_weights is None:
            check_num_samples(num_samples, self.num_members)
        numbers = self._numbers(num_samples)
        limit = max(1, protocol.MAX_NUMBERS // max(1, self.params[0].size))
        if limit >= self.num_members:
            yield protocol.Draws(
                self.params, numbers, self.fixed, self._stacked
            )
            return
        # Of members whose arrays may be pages of a file, a few at a time.
        at_once = min(at_once, limit)
        for begin in range(0, num_samples, at_once):
            chosen = numbers[begin : begin + at_once]
            fixed = self.fixed
            if self._stacked:
                fixed = [np.asarray(value)[chosen] for value in fixed]
            yield protocol.Draws(
                self.params[chosen],
                np.arange(len(chosen)),
                fixed,
                self._stacked,
            )

    def _contents(self):
        prefix = "own" if self._stacked else "fixed"
        weights = self.member_weights
        return {
            "stacked": self._stacked,
            "input_specs": copying.describe_specs(self._input_specs),
        }, {
            "params": self.params,
            **files.pack(self.fixed, prefix),
            **({} if weights is None else {"member_weights": weights}),
        }

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        stacked = description["stacked"]
        return cls(
            view,
            arrays["params"],
            files.unpack(arrays, "own" if stacked else "fixed"),
            link,
            stacked=stacked,
            input_specs=copying.specs_of(description["input_specs"]),
            member_weights=arrays.get("member_weights"),
        )


def concatenate(ensembles: Iterable[EnsemblePosterior]) -> EnsemblePosterior:
    """Joins ensembles of one model, whose members become those of one ensemble.

    Args:
        ensembles: `EnsemblePosterior`s, such as those of `deep_ensemble`, of
            copies of one model; of classes derived from `EnsemblePosterior`,
            none. Their history, spread, and weights of members are not kept.

    Returns:
        ensemble: `EnsemblePosterior` of all members, in order, in the model of
            the first.

    Raises:
        ValueError: If there are none, they are something else, or weights or
            outputs are of different kinds.

    Example:

    ```python
    options = {"num_members": 3, "seed": 1}
    early, late = (
        tfp_refine.ensembles.deep_ensemble(model, x, y, steps=steps, **options)
        for steps in (100, 1000)
    )
    both = tfp_refine.posteriors.concatenate([early, late])  # 6 members
    ```
    """
    parts = tuple(ensembles) if isinstance(ensembles, Iterable) else ()
    if (
        not parts
        or any(type(part) is not EnsemblePosterior for part in parts)
        or any(_kinds(part) != _kinds(parts[0]) for part in parts)
    ):
        raise ValueError(
            "`ensembles` must be one or more EnsemblePosteriors of one model. "
            f"Received: ensembles={parts or ensembles!r}"
        )
    first = parts[0]
    fixed = [
        part.weights_of(member)[1]
        for part in parts
        for member in range(part.num_members)
    ]
    return EnsemblePosterior(
        first.view,
        np.concatenate([part.params for part in parts]),
        [np.stack(values) for values in zip(*fixed, strict=True)],
        first.link,
        input_specs=first._input_specs,
    )


def _kinds(ensemble):
    """Describes view, weights and outputs, which members share."""
    view = ensemble.view
    return (
        type(view),
        [tuple(variable.shape) for variable in view.variables],
        [np.shape(value) for value in ensemble.weights_of(0)[1]],
        ensemble.link,
    )


class MixturePosterior(protocol.Posterior):
    """Mixture of `M` posteriors with equal weights; draw `s` is of `s % M`.

    Args:
        members: `M` posteriors of the same family and view, `P` weights each,
            without fixed weights of their own in each draw.
        history: Dict of arrays.
        diagnostics: Dict of numbers.

    Attributes:
        members: Tuple of them.

    Example:

    ```python
    ensemble = tfp_refine.ensembles.deep_ensemble(
        model, x_train, y_train, num_members=3, steps=1000
    )
    mixture = tfp_refine.ensembles.swag(ensemble, x_train, y_train)  # MultiSWAG
    draws = mixture.predict(x_test, num_samples=30)  # 10 of each Gaussian
    ```
    """

    def __init__(
        self,
        members: Any,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
    ) -> None:
        first = members[0]
        super().__init__(first.view, first.link, history, diagnostics)
        self.members = tuple(members)

    @property
    def num_members(self) -> int:
        """`M`, the number of members."""
        return len(self.members)

    def _shown_arguments(self):
        return super()._shown_arguments() | {"num_members": self.num_members}

    def _draw(self, num_samples, seed, at_once):
        count = self.num_members
        check_num_samples(num_samples, count)
        limit = max(1, protocol.MAX_NUMBERS // max(1, self.view.size))
        at_once = min(at_once, limit)
        streams = [
            _one_by_one(
                member._draw(
                    len(range(number, num_samples, count)),
                    functional.seeds.key(seed, number),
                    -(-at_once // count),
                )
            )
            for number, member in enumerate(self.members[:num_samples])
        ]
        for begin in range(0, num_samples, at_once):
            numbers = range(begin, min(begin + at_once, num_samples))
            params, fixed = zip(
                *(next(streams[number % count]) for number in numbers),
                strict=True,
            )
            yield protocol.Draws(
                np.stack(params),
                np.arange(len(params)),
                [np.stack(values) for values in zip(*fixed, strict=True)],
                stacked=True,
            )

    def _contents(self):
        descriptions, arrays = [], {}
        for number, member in enumerate(self.members):
            description, own = member._contents()
            descriptions.append(description)
            arrays |= {f"{number}/{k}": value for k, value in own.items()}
        kind = type(self.members[0]).__name__
        return {"kind": kind, "members": descriptions}, arrays

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        kind = cls._families[description["kind"]]
        return cls(
            [
                kind._from_contents(
                    view,
                    link,
                    about,
                    files.below(arrays, f"{number}/"),
                )
                for number, about in enumerate(description["members"])
            ]
        )


def _one_by_one(parts):
    """Yields the vector and the fixed weights of each draw."""
    for draws in parts:
        params = np.asarray(draws.params)
        for member in draws.members:
            fixed = [np.asarray(value) for value in draws.fixed]
            if draws.stacked:
                fixed = [value[member] for value in fixed]
            yield params[member], fixed


def check_num_samples(num_samples, num_members):
    """Warns of draws that leave members out."""
    if num_samples < num_members:
        _validation.warn(
            f"`num_samples` is smaller than the number of members, "
            f"{num_members}: the first {num_samples} are used. Received: "
            f"num_samples={num_samples}"
        )
