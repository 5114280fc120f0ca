"""Configurations of experiments: frozen dataclasses that check themselves.

A field of a configuration carries what a flag needs: a help text, a group and
a check. `program` makes the flags of a command from it, so a configuration
means the same in Python and on the command line.
"""

import dataclasses
import functools
import hashlib
import json
import numbers
import os
import types
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Self

import numpy as np

# In the order of `--help`.
GROUPS = ("data", "model", "training", "method", "evaluation", "output")

_NOUNS = {
    str: ("a text", "texts"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "true or false"),
}
_ACCEPTED = {
    str: str | os.PathLike,
    int: numbers.Integral,
    float: numbers.Real,
    bool: (),
}
_BOOLS = {"true": True, "1": True, "false": False, "0": False}


class Spec(NamedTuple):
    """What is known of a field of a configuration.

    Attributes:
        name: Name of the field, and of its flag.
        type: Annotation, such as `int | None` or `tuple[int, ...]`.
        default: Default value.
        help: What the field means: sentences.
        group: One of `GROUPS`.
        check: Function of a value other than `None` that raises a `ValueError`
            "must be ...", or `None`.
        common: Whether it comes first in its group in `--help`.
        decides: Whether results depend on it.
    """

    name: str
    type: Any
    default: Any
    help: str
    group: str
    check: Callable[[Any], None] | None
    common: bool
    decides: bool

    @property
    def type_name(self) -> str:
        """The annotation as text, such as `"int | None"`."""
        plain = isinstance(self.type, type)
        return self.type.__name__ if plain else str(self.type)


def field(
    default: Any,
    help: str,
    *,
    group: str,
    check: Callable[[Any], None] | None = None,
    common: bool = False,
    decides: bool = True,
) -> Any:
    """Returns a dataclass field that is a flag, too; arguments as in `Spec`.

    Raises:
        ValueError: If there is no such group.
    """
    if group not in GROUPS:
        raise ValueError(
            f"`group` must be one of {', '.join(GROUPS)}. "
            f"Received: group={group!r}"
        )
    metadata = {"help": help, "group": group, "check": check}
    metadata |= {"common": common, "decides": decides}
    return dataclasses.field(default=default, metadata=metadata)


def override(default: Any, help: str | None = None) -> Any:
    """Returns a field that inherits all but its default, perhaps its help."""
    metadata = {} if help is None else {"help": help}
    return dataclasses.field(default=default, metadata=metadata)


@functools.cache
def specs(cls: type["Config"]) -> dict[str, Spec]:
    """Returns the `Spec` of each field of a configuration, in their order.

    Raises:
        TypeError: If a field was not made by `field`, nor overrides one, or
            has an annotation that no flag can have.
    """
    hints, found = typing.get_type_hints(cls), {}
    for one in dataclasses.fields(cls):
        metadata: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            inherited = vars(base).get("__dataclass_fields__", {})
            metadata |= getattr(inherited.get(one.name), "metadata", {})
        metadata |= one.metadata
        if "group" not in metadata or _kind(hints[one.name])[0] not in _NOUNS:
            raise TypeError(
                "Fields must be made by `config.field`, of a text, a number, a "
                f"bool or a tuple. Received: {one.name}: {hints[one.name]}"
            )
        found[one.name] = Spec(
            one.name, hints[one.name], one.default, **metadata
        )
    return found


def _kind(annotation):
    """Returns the type of one value, whether `None` may be, whether many."""
    arguments = typing.get_args(annotation)
    if arguments[1:] == (...,):
        return arguments[0], False, True
    if types.NoneType in arguments:
        rest = [each for each in arguments if each is not types.NoneType]
        return rest[0] if len(rest) == 1 else None, True, False
    return annotation, False, False


def split(text: str) -> list[str]:
    """Splits a text at its commas outside parentheses; of "" nothing is left.

    Raises:
        ValueError: If parentheses do not match or an entry is empty.
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if depth < 0:
            break
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    _require(not depth, "must have matching parentheses")
    if not text.strip():
        return []
    _require(all(map(str.strip, parts)), "must not have an empty entry")
    return [part.strip() for part in parts]


def parse(cls: type["Config"], name: str, text: str) -> Any:
    """Returns the value that a flag's text stands for.

    Args:
        cls: Class of the configuration.
        name: Name of the field.
        text: As in `--name=text`. An empty text is `None` where that may be.

    Raises:
        ValueError: If the text is of another type.
    """
    one, optional, many = _kind(specs(cls)[name].type)
    if optional and not text:
        return None
    try:
        parts = split(text) if many else [text]
        values = tuple(_read(one, part, _wanted(one, many)) for part in parts)
    except ValueError as error:
        raise ValueError(_message(name, error, text)) from None
    return values if many else values[0]


def _read(one, text, wanted):
    try:
        return _BOOLS[text.lower()] if one is bool else one(text)
    except (KeyError, ValueError):
        raise ValueError(wanted) from None


def to_text(value: Any) -> str:
    """Returns the text that a flag has for a value: what `parse` reads."""
    if isinstance(value, tuple):
        return ",".join(map(to_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _wanted(one, many):
    noun, plural = _NOUNS[one]
    return f"must be a list of {plural}" if many else f"must be {noun}"


def _message(name, wrong, value):
    return f"--{name} {wrong}. Received: --{name}={to_text(value)}"


def _normalize(annotation, value):
    """Returns a value as the plain Python object that is annotated."""
    one, optional, many = _kind(annotation)
    if optional and value is None:
        return None
    if not many:
        return _plain(one, value, _wanted(one, many))
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise ValueError(_wanted(one, many))
    return tuple(_plain(one, each, _wanted(one, many)) for each in value)


def _plain(one, value, wanted):
    if isinstance(value, bool | np.bool_):
        _require(one is bool, wanted)
    else:
        _require(isinstance(value, _ACCEPTED[one]), wanted)
    return os.fspath(value) if isinstance(value, os.PathLike) else one(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base of configurations; subclasses are frozen `kw_only` dataclasses, too.

    Values are normalized (a list becomes a tuple, an integer a float where
    that is annotated, scalars of NumPy and paths plain values) and checked.

    Raises:
        ValueError: If a value is not of its type or not accepted by its check:
            "--splits must be at least 1. Received: --splits=0".
    """

    def __post_init__(self) -> None:
        for spec in specs(type(self)).values():
            value = getattr(self, spec.name)
            try:
                value = _normalize(spec.type, value)
                if spec.check is not None and value is not None:
                    spec.check(value)
            except ValueError as error:
                raise ValueError(_message(spec.name, error, value)) from None
            object.__setattr__(self, spec.name, value)
        self.check()

    def check(self) -> None:
        """Checks fields against each other; subclasses extend it.

        Raises:
            ValueError: If they do not go together.
        """

    def to_json(self) -> dict[str, Any]:
        """Returns the values by name, as JSON has them."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name in specs(type(self))
            for value in [getattr(self, name)]
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Returns the configuration of which `to_json` gave values.

        Raises:
            ValueError: If a name is no field.
        """
        unknown = set(values) - set(specs(cls))
        if unknown:
            raise ValueError(
                f"A configuration must have fields of {cls.__module__} only. "
                f"Received: {', '.join(sorted(unknown))}"
            )
        return cls(**values)

    def flags(self) -> list[str]:
        """Returns the flags that make this configuration, defaults left out."""
        ordered = sorted(
            specs(type(self)).values(), key=lambda s: GROUPS.index(s.group)
        )
        return [
            f"--{spec.name}={to_text(getattr(self, spec.name))}"
            for spec in ordered
            if getattr(self, spec.name) != spec.default
        ]

    def digest(self, names: Iterable[str]) -> str:
        """Returns a short digest of the values of some fields."""
        values = self.to_json()
        text = json.dumps({name: values[name] for name in sorted(names)})
        return hashlib.sha256(text.encode()).hexdigest()[:12]


# Checks. Comparisons are written so that NaN fails them.


def _require(is_so, wanted):
    if not is_so:
        raise ValueError(wanted)


def at_least(least: float) -> Callable[[Any], None]:
    """Returns a check that a number is not below another."""
    return lambda value: _require(value >= least, f"must be at least {least}")


def positive(value: float) -> None:
    """Checks that a number is above 0."""
    _require(value > 0, "must be positive")


def not_negative(value: float) -> None:
    """Checks that a number is 0 or above."""
    _require(value >= 0, "must not be negative")


def proportion(zero: bool = False, one: bool = False) -> Callable[[Any], None]:
    """Returns a check that a number is between 0 and 1.

    Args:
        zero: Whether 0 is accepted.
        one: Whether 1 is accepted.
    """
    low, high = "at least" if zero else "above", "at most" if one else "below"
    return lambda value: _require(
        0 < value < 1 or (zero and value == 0) or (one and value == 1),
        f"must be {low} 0 and {high} 1",
    )


def one_of(*names: Any) -> Callable[[Any], None]:
    """Returns a check that a value is one of some."""
    known = ", ".join(map(to_text, names))
    return lambda value: _require(value in names, f"must be one of {known}")


def each(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Returns a check of each entry of a tuple."""

    def check_each(values):
        for value in values:
            try:
                check(value)
            except ValueError as error:
                raise ValueError(f"{error} in each entry") from None

    return check_each


def unique(
    check: Callable[[Any], None] | None = None,
) -> Callable[[Any], None]:
    """Returns a check that a tuple has no entry twice, after another check."""
    return _after(
        check,
        lambda value: len(set(value)) == len(value),
        "must not repeat an entry",
    )


def not_empty(
    check: Callable[[Any], None] | None = None,
) -> Callable[[Any], None]:
    """Returns a check that a tuple has an entry, after another check."""
    return _after(check, len, "must not be empty")


def _after(first, is_so, wanted):
    def check_both(value):
        if first is not None:
            first(value)
        _require(is_so(value), wanted)

    return check_both
