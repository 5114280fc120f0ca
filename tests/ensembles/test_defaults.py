"""What baselines do unless they are told otherwise."""

import inspect

import keras
import numpy as np
import pytest

from tfp_refine import ensembles
from tfp_refine.ensembles import trajectory

N = 640  # 5 batches of 128


class Stopped(Exception):
    """Raised in place of a training."""


@pytest.fixture
def schedule(monkeypatch):
    """Returns how a baseline would train, from its defaults."""

    def stop(name, model, loss, start, data, schedule, settings, **options):
        raise Stopped(schedule, settings)

    monkeypatch.setattr(trajectory, "train", stop)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    def find(baseline):
        with pytest.raises(Stopped) as stopped:
            baseline(model, np.zeros((N, 2)), np.zeros((N, 1)))
        return stopped.value.args

    return find


def test_a_deep_ensemble(schedule):
    found, settings = schedule(ensembles.deep_ensemble)
    assert settings == {
        "steps": 10000,
        "batch_size": 128,
        "learning_rate": 1e-3,
        "learning_rate_decay": "constant",
        "adversarial_epsilon": None,
        "bootstrap": False,
    }
    assert (found.steps, found.batch_size) == (10000, 128)
    parameters = inspect.signature(ensembles.deep_ensemble).parameters
    assert parameters["num_members"].default == 10


def test_swag(schedule):
    found, settings = schedule(ensembles.swag)
    assert settings == {
        "num_snapshots": 40,
        "steps_per_snapshot": 5,
        "batch_size": 128,
        "learning_rate": 0.01,
        "momentum": 0.9,
    }
    assert (found.steps, found.batch_size) == (200, 128)
    assert inspect.signature(ensembles.swag).parameters["rank"].default == 20


def test_cyclical_sghmc(schedule):
    found, settings = schedule(ensembles.cyclical_sghmc)
    assert settings == {
        "num_cycles": 4,
        "samples_per_cycle": 3,
        "steps_per_cycle": 250,
        "steps_per_sample": 5,
        "batch_size": 128,
        "learning_rate": 0.1,
        "momentum": 0.1,
        "temperature": 1 / N,
    }
    assert (found.steps, found.batch_size) == (1000, 128)
