"""Bad input for every public callable, and the verdict on the outcome.

Callables are found by introspection; `base_calls` has one good call of each.
"""

import copy
import importlib
import inspect
import math
import random
import re
import traceback
import warnings
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import tfp_refine
from tests.properties import base_calls
from tests.properties import junk

_ROOMS = [
    name
    for name in tfp_refine.__all__
    if inspect.ismodule(getattr(tfp_refine, name))
]
# Keras calls these, with arguments that it has checked.
_OF_KERAS = re.compile(
    r"build|call|compute_(output_shape|mask)|get_config|from_config|on_\w+"
    r"|reset_states?|result|update_(state|step)"
)


def callables():
    """Returns `{name: callable}` of all public functions, classes, methods."""
    found = {}
    for room in ["", *_ROOMS, "plotting", "refinement"]:
        module = importlib.import_module(f"tfp_refine.{room}".rstrip("."))
        for name in module.__all__:
            entry = getattr(module, name)
            if inspect.ismodule(entry) or not callable(entry):
                continue
            if any(entry is one for one in found.values()):
                continue  # which the root re-exports
            found[f"{room}.{name}".lstrip(".")] = entry
            if inspect.isclass(entry):
                found |= _methods(room, entry, found)
    return found


def _methods(room, kind, found):
    known = {id(one) for one in found.values()}
    methods = {
        f"{room}.{entry.__qualname__}".lstrip("."): entry
        for name, entry in inspect.getmembers(kind, inspect.isfunction)
        if entry.__module__.startswith("tfp_refine")
        and not name.startswith("_")
        and not _OF_KERAS.fullmatch(name)
        and len(inspect.signature(entry).parameters) > 1
    }
    return {n: entry for n, entry in methods.items() if id(entry) not in known}


_SCALARS = [
    None, True, False, 0, -1, 1, 2, 0.5, -0.5, 1.5, math.nan, math.inf,
    -math.inf, 1e-300, 1e300, -1e300, 1e39, 10**30, -(10**30), 10**400,
    np.float32("nan"), np.int64(-3), np.bool_(True), 1j,
    "", "2", "unknown", "nan", b"x",
]  # fmt: skip
_CONTAINERS = [
    (), [], {}, set(), (1, 2), (-1, 0), [3.0], [[1]], [None], ["a", "b"],
    (math.nan,), (0.0, 1e300), {"a": 1}, {0: math.nan}, {1: -1.0},
    {"class_name": "Unknown", "config": {}}, range(3),
]  # fmt: skip
_OBJECTS = [
    junk.Unknown(), junk.Unknown, len, lambda: None, lambda *_: None,
    np.ones(2), np.ones((0, 3)), np.array(["a"]), np.array(math.nan),
    np.full((2, 3), math.inf), np.ones((2, 2, 2, 2, 2, 2)),
    np.array([None, {}], object), np.zeros(3, "datetime64[D]"), tf.ones((2, 3)),
    tf.constant("a"),
]  # fmt: skip
ANY = [*_SCALARS, *_CONTAINERS, *_OBJECTS]


def _arrays_like(good):
    """Returns bad variants, and a few good ones, of an array."""
    if not good.ndim:
        return [np.array(v) for v in (math.nan, math.inf, 1e300, -1.0, 0.0)]
    numbers = good.dtype.kind in "fiu"
    found = [good[:0], good[:1], good[:-1], good[None], good[..., None]]
    found += [np.concatenate([good, good]), good.tolist(), [good, good]]
    found += [good.astype(object), good.astype(str), good[0], {"a": good}]
    if good.ndim > 1:
        found += [good[:, 0], good[:, :0], np.concatenate([good, good], axis=1)]
    found += [[good[0].tolist(), []]]
    if numbers:
        found += [
            good.astype(k) for k in ("float16", "int8", "bool", "complex")
        ]
        found += [
            good.astype("float64") + 0.5,
            np.ma.masked_array(good, good == good),
        ]
        found += [-good - 1, np.zeros_like(good), tf.constant(good)]
        for value in (math.nan, math.inf, -math.inf, 1e300, -1e300, 1e20, -1.0):
            bad = good.astype("float64")
            bad[(-1,) * bad.ndim] = value
            found.append(bad)
        found += [np.full(good.shape, v) for v in (1e300, 1e-300, 1e30, 1e-42)]
    return found


def bad_values(good):
    """Returns values of an argument that is good as it is."""
    if isinstance(good, bool):  # whatever is true or false
        return [*_SCALARS, *_CONTAINERS]
    if isinstance(good, tf.Tensor):
        good = good.numpy()
    if isinstance(good, np.ndarray):
        return [*ANY, *_arrays_like(good)]
    return ANY


class Case(NamedTuple):
    """A good call with one argument that is perhaps bad."""

    name: str
    argument: str
    value: Any

    def __repr__(self):
        value = self.value
        shown = repr(value)
        if hasattr(value, "dtype") and getattr(value, "shape", None):
            shown = f"<{value.dtype.name} {tuple(value.shape)}> {shown}"
        shown = re.sub(r"\s+", " ", shown)
        return f"{self.name}({self.argument}={shown[:120]})"


def cases(name, entry):
    """Returns all cases of one callable."""
    base = base_calls.BASES[name]
    good = base.arguments()
    parameters = inspect.signature(entry).parameters
    found = []
    for argument in dict.fromkeys([*parameters, *good]):
        if base_calls.LEFT_OUT.fullmatch(argument):
            continue
        default = getattr(parameters.get(argument), "default", None)
        template = base.templates.get(argument, good.get(argument, default))
        if argument == "verbose":
            template = True
        values = bad_values(template)
        if base.in_graph and isinstance(template, np.ndarray):
            values = [v for v in values if _is_like(v, template)]
        found += [Case(name, argument, bad) for bad in values]
    return found


def _is_like(value, good):
    """Says whether Keras would pass a value on: a tensor of the right shape."""
    kind = getattr(value, "dtype", None)
    return (
        np.dtype(getattr(kind, "as_numpy_dtype", kind or object)).kind == "f"
        and not isinstance(value, np.ma.MaskedArray)
        and np.shape(value) == good.shape
    )


def sample(seed, per_argument=None, names=None):
    """Returns cases of all callables, some at random of each argument."""
    rng = random.Random(seed)
    found = []
    for name, entry in sorted(callables().items()):
        if name not in base_calls.BASES or (names and name not in names):
            continue
        of_argument = {}
        for case in cases(name, entry):
            of_argument.setdefault(case.argument, []).append(case)
        for some in of_argument.values():
            count = len(some) if per_argument is None else per_argument
            found += rng.sample(some, min(count, len(some)))
    return found


def failure(case):
    """Returns the fault of the outcome of a case, or an empty string.

    Right are a finite result, one that is not but with a warning, and an error
    that names the argument. Formulas that are part of a graph give back NaN for
    NaN, as Keras' do, and infinity for values beyond their largest float.
    """
    base = base_calls.BASES[case.name]
    arguments = base.arguments()
    try:
        arguments[case.argument] = copy.copy(case.value)
    except TypeError:
        arguments[case.argument] = case.value
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = base.call(**arguments)
        except base_calls.REFUSALS as error:
            if is_named(case.argument, arguments, error):
                return ""
            return f"unnamed {_described(error)}"
        except Exception as error:
            return f"foreign {_described(error)}"
    if warned or all_numbers(np.isfinite, found):
        return ""
    if base.in_graph and (
        not all_numbers(lambda v: np.abs(v) < 1e15, case.value)
        or all_numbers(lambda v: ~np.isnan(v), found)
    ):
        return ""
    return "silent NaN"


# Of which messages speak instead of the arguments.
_SYNONYMS = {
    "inputs": ("input", "x", "shape"),
    "query": ("input", "inputs"),
    "value": ("input", "inputs"),
    "model_or_posterior": ("model", "posterior"),
    "x": ("input", "examples", "outputs", "points", "Points"),
    "identifier": ("regularizer", "initializer"),
    "y": ("targets", "labels", "y_true"),
    "y_pred": ("output", "outputs", "logits"),
    "y_true": ("target", "targets"),
}


def is_named(argument, arguments, error):
    """Says whether an error names an argument.

    One of this package may name another of the call that does not fit to it;
    one of Keras the kind, "initializer" of `kernel_initializer`.
    """
    names = [argument, argument.rpartition("_")[2]]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    if callable(arguments[argument]) and isinstance(error, TypeError):
        return True  # of the function itself
    if isinstance(error, FloatingPointError):  # divergence
        return "tfp_refine/" in frame.filename
    if "/matplotlib/" in frame.filename:  # its refusals of data
        return True
    if "tfp_refine/" in frame.filename and frame.line.startswith("raise"):
        names += arguments
    names += [word for name in names for word in _SYNONYMS.get(name, ())]
    return any(
        # A letter may be anywhere.
        re.search(rf"[`']{name}\b|\b{name}(?:=|\[| of )", str(error))
        if len(name) < 3
        else re.search(rf"(?<![a-zA-Z0-9]){name}", str(error))
        for name in names
    )


def all_numbers(check, value):
    """Says whether a check holds for all numbers in a structure, in float32."""
    if isinstance(value, Mapping):
        return all(all_numbers(check, one) for one in value.values())
    if isinstance(value, list | tuple):
        return all(all_numbers(check, one) for one in value)
    if isinstance(value, tf.Tensor):
        value = value.numpy()
    if isinstance(value, int | float | complex | np.ndarray | np.generic):
        try:
            return bool(np.all(check(np.asarray(value).astype("complex128"))))
        except (TypeError, ValueError, OverflowError):
            return True
    return True


def _described(error):
    places = [
        f"{frame.filename.rpartition('site-packages/')[2]}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    ours = [place for place in places if "tfp_refine/" in place]
    text = re.sub(r"\s+", " ", str(error))[:160]
    return (
        f"{type(error).__name__} at {places[-1]} "
        f"(ours: {ours[-1] if ours else '-'}): {text}"
    )
