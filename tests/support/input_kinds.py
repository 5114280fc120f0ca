"""Kinds of input and functions that take data: the table of `docs/inputs.md`.

A kind joins the table by a line in `KINDS`, a function by one in `FUNCTIONS`.
"""

import functools
import warnings
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import pandas as pd
import tensorflow as tf

import tfp_refine as tfr
from tfp_refine.functional import copying

_N = 8
_RNG = np.random.default_rng(0)
Y = np.arange(_N) % 2
_NUMBERS = _RNG.normal(size=(_N, 2)).astype("float32")
_TEXT = np.array(["a b", "b", "c a", "b b", "a", "c", "a c", "b c"])
WEIGHTS = 1.0 + np.arange(_N) % 3
# As the models take them.
X = {
    "numbers": _NUMBERS,
    "one": _NUMBERS[:, :1],
    "named": {"first": _NUMBERS, "second": _NUMBERS[:, :1]},
    "text": tf.constant(_TEXT),
}


class Batched(keras.utils.PyDataset):
    """Batches of 3 examples of some parts, each of which may be nested."""

    def __init__(self, *parts):
        super().__init__()
        self._parts = parts

    def __len__(self):
        return -(-_N // 3)

    def __getitem__(self, index):
        rows = slice(3 * index, 3 * index + 3)
        return keras.tree.map_structure(lambda leaf: leaf[rows], self._parts)


def _dataset(*parts):
    return tf.data.Dataset.from_tensor_slices(parts).batch(3)


def _generator(*parts):
    batched = Batched(*parts)
    return (batched[index] for index in range(len(batched)))


class Kind(NamedTuple):
    """A kind of input.

    Attributes:
        shown: Its name in the table.
        model: Name of the model that takes it, a key of `X`.
        data: Function of `(x,)` or `(x, y)`, with `x` as the model takes it,
            that returns the arguments of a function.
    """

    shown: str
    model: str
    data: Callable[..., tuple]


KINDS = {
    "numpy": Kind("NumPy arrays", "numbers", lambda *data: data),
    "tensors": Kind(
        "tensors", "numbers", lambda *data: [*map(tf.constant, data)]
    ),
    "pandas": Kind(
        "pandas' `DataFrame`, `Series`",
        "numbers",
        lambda x, *y: (
            pd.DataFrame(x, columns=["b", "a"], index=range(5, 5 + _N)),
            *map(pd.Series, y),
        ),
    ),
    "dataset": Kind(
        "`tf.data.Dataset`", "numbers", lambda *data: (_dataset(*data),)
    ),
    "py_dataset": Kind(
        "`keras.utils.PyDataset`", "numbers", lambda *data: (Batched(*data),)
    ),
    "generator": Kind(
        "generator of batches", "numbers", lambda *data: (_generator(*data),)
    ),
    "weights": Kind(
        "`tf.data.Dataset` of `(x, y, sample_weight)`",
        "numbers",
        lambda x, *y: (_dataset(x, Y, WEIGHTS),),
    ),
    "vector": Kind(
        "`[N]` for `Input((1,))`",
        "one",
        lambda x, *y: (x[:, 0], *y),
    ),
    "names": Kind(
        "dict by input name, in any order",
        "named",
        lambda x, *y: (
            {"second": x["second"][:, 0], "first": x["first"]},
            *y,
        ),
    ),
    "text": Kind(
        "strings, into a text layer",
        "text",
        lambda x, *y: (_TEXT, *y),
    ),
    "text_dataset": Kind(
        "`tf.data.Dataset` of strings",
        "text",
        lambda x, *y: (_dataset(_TEXT, *y),),
    ),
}


@functools.cache
def model(name, bayesian):
    """Returns a small classifier of two classes, untrained."""
    keras.utils.set_random_seed(1)
    if name == "text":
        text = keras.layers.TextVectorization(8, output_sequence_length=2)
        text.adapt(_TEXT)
        inputs = keras.Input((), dtype="string")
        hidden = keras.layers.Embedding(8, 2)(text(inputs))
        hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    elif name == "named":
        # The model takes a list; `X` is by name.
        inputs = [
            keras.Input((2,), name="first"),
            keras.Input((1,), name="second"),
        ]
        hidden = keras.layers.Concatenate()(inputs)
    else:
        inputs = hidden = keras.Input(X[name].shape[1:])
    if bayesian:
        layer = tfr.layers.DenseReparameterization(
            2, num_train_examples=_N, seed=1
        )
    else:
        layer = keras.layers.Dense(2)
    made = keras.Model(inputs, layer(hidden))
    made.compile(loss=keras.losses.SparseCategoricalCrossentropy(True))
    return made


def _with(part, value, name="numbers"):
    """Returns data of which one part is another value."""
    data = {"x": X[name], "y": Y, **{part: value}}
    return lambda takes_targets: tuple(data.values())[: 1 + takes_targets]


def _endless(takes_targets):
    data = (_NUMBERS, Y)[: 1 + takes_targets]
    return (tf.data.Dataset.from_tensors(data).repeat(),)


def _short(takes_targets):
    made = Batched(*(_NUMBERS, Y)[: 1 + takes_targets])
    made.__class__ = type("Short", (Batched,), {"__len__": lambda self: 4})
    return (made,)


# Bad input: the model, data of `takes_targets`, and the text of the error.
BAD = {
    "unknown name": (
        "named",
        _with("x", {"first": _NUMBERS, "other": _NUMBERS[:, :1]}, "named"),
        r"of which \['other'\] are unknown, without \['second'\]",
    ),
    "name left over": (
        "named",
        _with("x", {**X["named"], "third": _NUMBERS}, "named"),
        r"of which \['third'\] are unknown",
    ),
    "lengths of inputs": (
        "named",
        _with("x", {**X["named"], "first": _NUMBERS[:3]}, "named"),
        "same number of examples",
    ),
    "text without a text layer": (
        "numbers",
        _with("x", np.full([_N, 2], "a")),
        "expects numbers as its input",
    ),
    "numbers for a text layer": (
        "text",
        _with("x", np.ones(_N), "text"),
        "expects text as its input",
    ),
    "masked array": (
        "numbers",
        _with("x", np.ma.masked_less(_NUMBERS, 0.0)),
        "`x` must not be a masked array",
    ),
    "beyond float32": (
        "numbers",
        _with("x", np.where(_NUMBERS < 0.0, 1e300, _NUMBERS.astype(float))),
        "finite in float64 and infinite in float32",
    ),
    "not a number": (
        "numbers",
        _with("x", np.where(_NUMBERS < 0.0, np.nan, _NUMBERS)),
        "`x` must be finite",
    ),
    "dataset without end": ("numbers", _endless, "`x` must end"),
    "dataset that ends early": (
        "numbers",
        _short,
        "Short, must have as many|must not be empty|same number of examples",
    ),
}
BAD_TARGETS = {
    "lengths of x and y": (
        "numbers",
        _with("y", Y[:3]),
        r"\[8\] in x, \[3\] in y",
    ),
    "fractional labels": ("numbers", _with("y", Y + 0.5), "whole|integers"),
    "masked labels": (
        "numbers",
        _with("y", np.ma.masked_less(Y, 1)),
        "`y` must not be a masked array",
    ),
    "text labels": (
        "numbers",
        _with("y", Y.astype(str)),
        "`y` must hold numbers",
    ),
    "targets missing": (
        "numbers",
        lambda takes_targets: (Batched(_NUMBERS),),
        r"must yield \(x, y\)",
    ),
}


class Function(NamedTuple):
    """A function that takes data.

    Attributes:
        shown: Its name in the table.
        takes_targets: Whether it takes `(x, y)`, rather than `x`.
        call: Function of the name of a model and data that returns an array.
        refused: Kinds that it refuses, with the text of the error.
    """

    shown: str
    takes_targets: bool
    call: Callable[..., Any]
    refused: dict[str, str] = {}


def _refined(name, *data, **weights):
    return tfr.refine(
        model(name, True),
        *data,
        **weights,
        num_members=1,
        variance_ratios=(0.5,),
        steps=2,
        seed=1,
        verbose=0,
    ).params


def _called_back(name, *data, **weights):
    callback = tfr.RefinementCallback(
        *data,
        **weights,
        num_members=1,
        variance_ratios=(0.5,),
        steps=2,
        seed=1,
        verbose=0,
    )
    callback.set_model(model(name, True))
    callback.on_train_begin()
    callback.on_train_end()
    return callback.ensemble.params


def _laplace(name, *data, **weights):
    laplace = tfr.laplace.LastLayerLaplace(model(name, False), "classification")
    return laplace.fit(*(data or (X[name], Y)), **weights, verbose=0)


def _initialized(name, *data, **weights):
    changed = copying.copy(model(name, True))
    changed.compile(loss=model(name, True).loss)
    changed.set_weights(model(name, True).get_weights())
    initializer = tfr.initializers.IBLM(seed=1, verbose=False)
    initializer(changed, *data, **weights)
    return np.concatenate([np.ravel(w) for w in changed.weights[-4:]])


def _nuts(name, *data, **weights):
    laplace = _laplace(name, *data, **weights)
    with warnings.catch_warnings():
        # The chain is far too short.
        warnings.simplefilter("ignore", UserWarning)
        return tfr.sampling.nuts_last_layer(
            laplace,
            num_chains=1,
            num_warmup=2,
            num_samples=4,
            jit_compile=False,
            seed=1,
            verbose=0,
        ).sample(2)


_STEPS = {"batch_size": 4, "seed": 1, "verbose": 0}
_NO_DIRECTION = {
    "names": "`x` must be one tensor",
    "text": "`x` must be floating",
    "text_dataset": "`x` must be floating",
}
FUNCTIONS = {
    "predict": Function(
        "`predict`",
        False,
        lambda name, x: tfr.predict(
            model(name, True), x, 3, seed=1, batch_size=3
        ),
    ),
    "predict_proba": Function(
        "`predict_proba`",
        False,
        lambda name, x: tfr.predict_proba(
            model(name, True), x, 3, seed=1, batch_size=3
        ),
    ),
    "summarize": Function(
        "`summarize`",
        False,
        lambda name, x: (
            tfr.summarize(model(name, True), x, 3, seed=1, batch_size=3).mean
        ),
    ),
    "refine": Function("`refine`", True, _refined),
    "callback": Function("`RefinementCallback`", True, _called_back),
    "elbo": Function(
        "`elbo`",
        True,
        lambda name, *data, **weights: np.array(
            tfr.elbo(model(name, True), *data, **weights, num_samples=2, seed=1)
        ),
    ),
    "laplace_fit": Function(
        "Laplace `fit`",
        True,
        lambda name, *data, **weights: _laplace(name, *data, **weights).sample(
            2, seed=1
        ),
    ),
    "laplace_predict": Function(
        "Laplace `predict`",
        False,
        lambda name, x: _laplace(name).predict(x, 3, seed=1, batch_size=3),
    ),
    "laplace_proba": Function(
        "Laplace `predict_proba`",
        False,
        lambda name, x: _laplace(name).predict_proba(
            x, method="probit", batch_size=3
        ),
    ),
    "deep_ensemble": Function(
        "`deep_ensemble`",
        True,
        lambda name, *data, **weights: (
            tfr.ensembles.deep_ensemble(
                model(name, False),
                *data,
                **weights,
                num_members=2,
                steps=3,
                **_STEPS,
            ).params
        ),
    ),
    "swag": Function(
        "`swag`",
        True,
        lambda name, *data, **weights: (
            tfr.ensembles.swag(
                model(name, False),
                *data,
                **weights,
                num_snapshots=3,
                rank=2,
                **_STEPS,
            ).loc
        ),
    ),
    "temperature": Function(
        "`TemperatureScaling`",
        True,
        lambda name, *data, **weights: np.array(
            tfr.ensembles.TemperatureScaling(model(name, False))
            .fit(*data, **weights)
            .temperature
        ),
    ),
    "sghmc": Function(
        "`cyclical_sghmc`",
        True,
        lambda name, *data, **weights: tfr.sampling.cyclical_sghmc(
            model(name, False),
            *data,
            **weights,
            num_cycles=1,
            samples_per_cycle=2,
            steps_per_cycle=4,
            steps_per_sample=1,
            **_STEPS,
        ).sample(2, seed=1),
    ),
    "nuts": Function("`nuts` (of a Laplace `fit`)", True, _nuts),
    "initializers": Function("initializers", True, _initialized),
    "attack": Function(
        "`fast_gradient_sign`",
        True,
        # Its weights, none of which is 0 here, change nothing.
        lambda name, *data, sample_weight=None: (
            tfr.posteriors.fast_gradient_sign(
                model(name, True), *data, num_samples=2, seed=1
            ).reshape(_N, -1)
        ),
        _NO_DIRECTION,
    ),
}


def call(function, kind):
    """Calls a function with a kind of input."""
    chosen, made = FUNCTIONS[function], KINDS[kind]
    data = (X[made.model], Y) if chosen.takes_targets else (X[made.model],)
    return chosen.call(made.model, *made.data(*data))


@functools.cache
def expected(function, model_name, has_weights):
    """Calls a function with arrays as the model takes them."""
    x = X[model_name]
    if model_name == "named":
        x = [*x.values()]
    if not FUNCTIONS[function].takes_targets:
        return FUNCTIONS[function].call(model_name, x)
    weights = {"sample_weight": WEIGHTS} if has_weights else {}
    return FUNCTIONS[function].call(model_name, x, Y, **weights)


def table():
    """Returns the table of the page, Markdown."""
    lines = ["| kind of input | taken by |", "|---|---|"]
    for name, kind in KINDS.items():
        refusing = [f.shown for f in FUNCTIONS.values() if name in f.refused]
        takers = " but ".join(["all", *refusing])
        lines.append(f"| {kind.shown} | {takers} |")
    return "\n".join(lines)
