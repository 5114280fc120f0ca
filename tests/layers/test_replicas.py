"""Two replicas of a `MirroredStrategy`, in a process with two CPU devices."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.support import replicas

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def facts():
    done = subprocess.run(
        [sys.executable, replicas.__file__],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=replicas.environment(ROOT),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


OURS = sorted(set(replicas.cases()) - {"keras"})


@pytest.mark.parametrize("name", OURS)
def test_replicas_draw_different_noise_and_repeat_it_with_the_seed(facts, name):
    first, second = facts["2"]["draws"][name]
    assert first[0] != first[1]
    assert second[0] != second[1]
    assert first != second
    assert facts["repeated"]["draws"][name] == facts["2"]["draws"][name]


def test_layers_of_keras_draw_the_same_noise_on_all_replicas(facts):
    # Should this ever fail, ours may do without `random_layer.SeedGenerator`.
    for same in facts["2"]["draws"]["keras"]:
        assert same[0] == same[1]


def test_loss_kl_and_gradients_are_those_of_one_replica(facts):
    one, two = facts["1"]["means"], facts["2"]["means"]
    np.testing.assert_allclose(one["loss"], two["loss"], rtol=1e-5)
    np.testing.assert_allclose(one["evaluated"], two["evaluated"], rtol=1e-5)
    for weight, other in zip(one["weights"], two["weights"], strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-6)


def test_our_adam_updates_all_replicas_as_that_of_keras(facts):
    for number in ("1", "2"):
        keras, ours = (facts[number]["adam"][key] for key in ("keras", "ours"))
        np.testing.assert_allclose(keras["loss"], ours["loss"], rtol=1e-4)
        for weight, other in zip(
            keras["weights"], ours["weights"], strict=True
        ):
            np.testing.assert_allclose(weight, other, rtol=1e-4, atol=1e-5)


def test_what_was_trained_on_replicas_is_refined(facts):
    draws = np.array(facts["2"]["sampled"]["refined"])
    assert draws.shape == (2, replicas.NUM_EXAMPLES, 1)
    assert np.all(np.isfinite(draws))


@pytest.mark.parametrize("number", ["1", "2"])
def test_ivon_averages_over_the_draws_of_all_replicas(facts, number):
    found = {
        key: np.array(value) for key, value in facts[number]["ivon"].items()
    }
    draws, mean = found["draws"], found["before"]
    assert len(draws) == int(number)
    if number == "2":
        assert not np.any(draws[0] == draws[1])
    num, h0, d = replicas.NUM_EXAMPLES, 0.5, 1.0 / replicas.NUM_EXAMPLES
    scale = (num * (h0 + d)) ** -0.5
    gradients = [
        x.T @ (x @ draw - y) / len(x)
        for draw, x, y in zip(
            draws,
            np.split(found["x"], len(draws)),
            np.split(found["y"], len(draws)),
            strict=True,
        )
    ]
    hessian = np.mean(
        [g * (w - mean) for g, w in zip(gradients, draws, strict=True)], axis=0
    )
    hessian /= scale**2
    h = 0.9 * h0 + 0.1 * hessian + 0.005 * (h0 - hessian) ** 2 / (h0 + d)
    np.testing.assert_allclose(
        found["scales"], (num * (h + d)) ** -0.5, rtol=1e-4
    )
    gradient = np.mean(gradients, axis=0)
    expected = mean - 0.1 * (h0 + d) * (gradient + d * mean) / (h + d)
    for after in found["after"]:
        np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-6)
