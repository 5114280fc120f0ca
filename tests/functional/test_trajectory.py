"""The choice of how members are trained together."""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tfp_refine import ensembles
from tfp_refine import layers
from tfp_refine import recipes
from tfp_refine.functional import program
from tfp_refine.functional import trajectory

ENVIRONMENT = ("TF_NUM_INTEROP_THREADS", "TF_NUM_INTRAOP_THREADS")


def _model(*middle):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh"),
            *middle,
            keras.layers.Dense(1),
        ]
    )
    model.compile(loss="mse")
    return model


@pytest.mark.parametrize(
    ("middle", "cores", "pays"),
    [
        ((), 1, True),
        ((), 2, False),
        ((keras.layers.Flatten(),), 1, True),
        ((keras.Sequential([keras.layers.Dense(2)]),), 1, True),
        ((keras.layers.BatchNormalization(),), 1, False),
        ((layers.DenseFlipout(2),), 1, False),
        ((keras.layers.Dropout(0.5),), 1, False),
    ],
)
def test_dense_networks_are_vectorized_on_one_core(
    monkeypatch, middle, cores, pays
):
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: [])
    assert trajectory.pays_to_vectorize(_model(*middle)) == pays


@pytest.mark.parametrize(
    ("inter_op", "intra_op", "environment", "pays"),
    [
        (1, 1, "2", True),
        (1, 0, "", False),
        (0, 1, "", False),
        (0, 0, "", False),
        (0, 0, "1", True),
        (1, 0, "1", True),
        (0, 0, "2", False),
        (2, 2, "1", False),
    ],
)
def test_the_threads_of_tensorflow_count(
    monkeypatch, inter_op, intra_op, environment, pays
):
    for name, number in (("inter", inter_op), ("intra", intra_op)):
        monkeypatch.setattr(
            tf.config.threading,
            f"get_{name}_op_parallelism_threads",
            lambda number=number: number,
        )
    for name in ENVIRONMENT:
        monkeypatch.setenv(name, environment)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda _: [])
    assert trajectory.pays_to_vectorize(_model()) == pays


@pytest.mark.parametrize("jit_compile", [False, True])
def test_xla_compiles_steps_as_those_of_fit(rng, monkeypatch, jit_compile):
    taken = []
    under_xla = program.under_xla
    monkeypatch.setattr(
        program, "under_xla", lambda step: taken.append(step) or under_xla(step)
    )
    x = rng.normal(size=(12, 3)).astype("float32")
    model = _model()
    model.compile(loss="mse", jit_compile=jit_compile)
    networks = ensembles.deep_ensemble(
        model, x, x[:, :1], num_members=2, steps=2, seed=1, verbose=0
    )
    assert bool(taken) == jit_compile
    assert np.all(np.isfinite(networks.params))
    narrow = recipes.narrow_posteriors(
        networks, [1.0, 1.0], num_train_examples=12
    )
    assert networks.model.jit_compile == narrow.model.jit_compile == jit_compile


@pytest.mark.parametrize(
    "batch_size", [5, pytest.param(20, marks=pytest.mark.slow)]
)
def test_the_choice_makes_no_difference_but_rounding(
    rng, monkeypatch, batch_size
):
    x = rng.normal(size=(12, 3)).astype("float32")
    model, found = _model(), []
    for pays in (False, True):
        monkeypatch.setattr(
            trajectory,
            "pays_to_vectorize",
            lambda model: pays,  # noqa: B023
        )
        found.append(
            ensembles.deep_ensemble(
                model, x, x[:, :1], num_members=3, steps=9, seed=1, verbose=0,
                batch_size=batch_size, bootstrap=True,
            )
        )  # fmt: skip
    mapped, vectorized = found
    np.testing.assert_allclose(
        vectorized.params, mapped.params, rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(
        vectorized.history["loss"], mapped.history["loss"], rtol=1e-4
    )
    assert layer_case.differ(mapped.params[0], mapped.params[1])
