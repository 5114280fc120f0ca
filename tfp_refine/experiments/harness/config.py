"""Configurations of experiments: frozen dataclasses that check themselves.

A field is declared once: its annotation holds its type and its check, the
docstring of the class its help. `program` makes the flags of a command from
that, so a configuration means the same in Python and on the command line.
"""

import dataclasses
import functools
import hashlib
import inspect
import json
import numbers
import os
import re
import sys
import types
import typing
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import NamedTuple

import numpy as np

# In the order of `--help`.
GROUPS = ("data", "model", "training", "method", "evaluation", "output")

Check = Callable[[Any], None]

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
_TITLE = re.compile(r"^(\w+):$", re.MULTILINE)
_ENTRY = re.compile(
    r"^ {4}(\w+)(?: \(([\w, ]+)\))?: (.*(?:\n {8}.*)*)", re.MULTILINE
)


class Spec(NamedTuple):
    """A field of a configuration.

    Attributes:
        name: Name of the field, and of its flag.
        type: Type of a value, or of each entry of a tuple.
        is_optional: Whether it may be `None`.
        is_tuple: Whether it is a tuple.
        checks: Functions of a value other than `None` that raise a `ValueError`
            "must be ...".
        default: Default value.
        help: Meaning of the field: sentences.
        group: One of `GROUPS`.
        marks: Of `"common"`, first in its group in `--help`, and `"neutral"`:
            results do not depend on it.
    """

    name: str
    type: type
    is_optional: bool
    is_tuple: bool
    checks: tuple[Check, ...]
    default: Any
    help: str
    group: str
    marks: tuple[str, ...]

    @property
    def decides(self) -> bool:
        """True if results depend on it."""
        return "neutral" not in self.marks and self.group != "output"

    @property
    def type_name(self) -> str:
        """The annotation without checks as text, such as `"int | None"`."""
        text = self.type.__name__
        text = f"tuple[{text}, ...]" if self.is_tuple else text
        return f"{text} | None" if self.is_optional else text

    def normalize(self, value: Any) -> Any:
        """Returns a value as the plain Python object that is annotated.

        Raises:
            ValueError: If it is not of its type, or a check refuses it.
        """
        if self.is_optional and value is None:
            return None
        try:
            is_list = isinstance(value, Iterable)
            is_list = is_list and not isinstance(value, str | Mapping)
            _require(is_list or not self.is_tuple, self._wanted)
            if self.is_tuple:
                plain = tuple(map(self._plain, value))
            else:
                plain = self._plain(value)
            for check in self.checks:
                check(plain)
            if self.type is float:
                _require(np.all(np.isfinite(plain)), "must be finite")
        except ValueError as error:
            raise self._error(error, value) from None
        return plain

    def parse(self, text: str) -> Any:
        """Returns the value that a flag's text stands for.

        An empty text is an empty tuple, or `None` where that may be.

        Raises:
            ValueError: If the text is of another type.
        """
        if self.is_optional and not self.is_tuple and not text:
            return None
        try:
            if self.is_tuple:
                return tuple(map(self._read, split(text)))
            return self._read(text)
        except ValueError as error:
            raise self._error(error, text) from None

    def _plain(self, value):
        if isinstance(value, bool | np.bool_):
            _require(self.type is bool, self._wanted)
        else:
            _require(isinstance(value, _ACCEPTED[self.type]), self._wanted)
        is_path = isinstance(value, os.PathLike)
        return os.fspath(value) if is_path else self.type(value)

    def _read(self, text):
        try:
            is_bool = self.type is bool
            return _BOOLS[text.lower()] if is_bool else self.type(text)
        except (KeyError, ValueError):
            raise ValueError(self._wanted) from None

    @property
    def _wanted(self):
        noun, plural = _NOUNS[self.type]
        return f"must be {f'a list of {plural}' if self.is_tuple else noun}"

    def _error(self, wrong, value):
        return ValueError(
            f"--{self.name} {wrong}. Received: --{self.name}={to_text(value)}"
        )


@functools.cache
def specs(cls: type["Config"]) -> dict[str, Spec]:
    """Returns the `Spec` of each field of a configuration, in their order.

    Raises:
        RuntimeError: If Python runs without docstrings.
        TypeError: If a field is not documented in a group, or has an
            annotation that no flag can have.
    """
    if sys.flags.optimize >= 2:
        raise RuntimeError(
            "Experiments read their flags from docstrings, which Python leaves "
            "out with -OO and PYTHONOPTIMIZE=2: start it without these."
        )
    hints = typing.get_type_hints(cls, include_extras=True)
    known = {}
    for one in dataclasses.fields(cls):
        documented = {"marks": ()}
        for base in reversed(cls.__mro__):
            documented |= _documented(base).get(one.name, {})
        annotated = _read_annotation(hints[one.name])
        if "help" not in documented or annotated[0] not in _NOUNS:
            raise TypeError(
                "Fields must be texts, numbers, bools or tuples, documented in "
                f"a group. Received: {one.name}: {hints[one.name]}"
            )
        known[one.name] = Spec(one.name, *annotated, one.default, **documented)
    return known


@functools.cache
def _documented(cls):
    """Returns help, group and marks of the fields that a docstring has."""
    parts = _TITLE.split(inspect.cleandoc(vars(cls).get("__doc__") or ""))
    found = {}
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title.lower() in GROUPS:
            for name, marks, text in _ENTRY.findall(body):
                found[name] = {"help": " ".join(text.split())}
                found[name]["group"] = title.lower()
                if marks:
                    found[name]["marks"] = tuple(marks.split(", "))
    return found


def _read_annotation(annotation):
    """Returns the type of one value, whether `None` may be, whether many."""
    one, checks = _unwrap(annotation)
    is_optional = types.NoneType in typing.get_args(one)
    if is_optional:
        inner = [a for a in typing.get_args(one) if a is not types.NoneType]
        one, checks = _unwrap(inner[0] if len(inner) == 1 else None)
    is_tuple = typing.get_args(one)[1:] == (...,)
    if is_tuple:
        one, each = _unwrap(typing.get_args(one)[0])
        checks = (*map(_each, each), *checks)
    return one, is_optional, is_tuple, checks


def _unwrap(annotation):
    """Returns an annotation without its checks, and these."""
    checks = ()
    if typing.get_origin(annotation) is Annotated:
        annotation, *checks = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return str, (one_of(*typing.get_args(annotation)), *checks)
    return annotation, tuple(checks)


def _each(check):
    """Returns a check of each entry of a tuple."""

    def check_each(values):
        for value in values:
            try:
                check(value)
            except ValueError as error:
                raise ValueError(f"{error} in each entry") from None

    return check_each


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


def to_text(value: Any) -> str:
    """Returns the text of a flag for a value, as `Spec.parse` reads it."""
    if isinstance(value, tuple):
        return ",".join(map(to_text, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def parse(cls: type["Config"], name: str, text: str) -> Any:
    """Returns the value that the text of a field's flag stands for."""
    return specs(cls)[name].parse(text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config:
    """Base of configurations; subclasses are frozen `kw_only` dataclasses, too.

    Values are normalized (a list becomes a tuple, an integer a float where
    that is annotated, scalars of NumPy and paths plain values) and checked.

    The docstring of a subclass has a section for each group, as `--help` does,
    with entries `name: Help.` or `name (marks): Help.`; see `Spec`. Checks are
    `Annotated`, and names to choose from `Literal`. Of a field of its base, a
    subclass sets another default by `name = value`, and may document it anew.

    Raises:
        ValueError: If a value is not of its type or not accepted by its check:
            "--splits must be at least 1. Received: --splits=0".
    """

    def __init_subclass__(cls) -> None:
        types_of_base = {
            name: one.type
            for base in reversed(cls.__mro__[1:])
            for name, one in vars(base).get("__dataclass_fields__", {}).items()
        }
        own = inspect.get_annotations(cls)
        cls.__annotations__ = own | {
            name: types_of_base[name]
            for name in vars(cls)
            if name in types_of_base and name not in own
        }

    def __post_init__(self) -> None:
        for spec in specs(type(self)).values():
            value = spec.normalize(getattr(self, spec.name))
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

    def decisive(self, groups: Iterable[str] = GROUPS) -> dict[str, Any]:
        """Returns the values, of some groups, that results depend on."""
        values, known = self.to_json(), specs(type(self)).values()
        return {
            spec.name: values[spec.name]
            for spec in known
            if spec.decides and spec.group in groups
        }

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


def at_least(least: float) -> Check:
    """Returns a check that a number is not below another."""
    return lambda value: _require(value >= least, f"must be at least {least}")


def positive(value: float) -> None:
    """Checks that a number is above 0."""
    _require(value > 0, "must be positive")


def not_negative(value: float) -> None:
    """Checks that a number is 0 or above."""
    _require(value >= 0, "must not be negative")


def proportion(zero: bool = False, one: bool = False) -> Check:
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


def one_of(*names: str) -> Check:
    """Returns a check that a text is one of some."""
    wanted = f"must be one of {', '.join(names)}"
    return lambda value: _require(value in names, wanted)


def unique(value: tuple[Any, ...]) -> None:
    """Checks that a tuple has no entry twice."""
    _require(len(set(value)) == len(value), "must not repeat an entry")


def not_empty(value: tuple[Any, ...]) -> None:
    """Checks that a tuple has an entry."""
    _require(value, "must not be empty")
