"""Predictions of images that are perturbed by the sign of a gradient."""

import types

import keras
import numpy as np
import pytest

from tfp_refine.experiments.measures import attack
from tfp_refine.experiments.measures import predictions


@pytest.fixture
def subject(rng):
    """A linear classifier of images of four pixels."""
    pixels = rng.integers(0, 256, (40, 2, 2, 1)).astype(np.uint8)
    kernel = np.asarray([[1.0, -1.0], [2.0, 0.0], [-1.0, 1.0], [0.0, 3.0]])
    layers = [keras.layers.Flatten(), keras.layers.Dense(2, use_bias=False)]
    model = keras.Sequential([keras.Input((2, 2, 1)), *layers])
    model.set_weights([kernel])
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )

    def scale(values):
        return (np.asarray(values) / 255.0).astype(np.float32)

    def draws(x):
        return np.asarray(model(x))[np.newaxis]

    x = scale(pixels)
    labels = np.argmax(draws(x)[0], axis=-1)
    return types.SimpleNamespace(
        config=types.SimpleNamespace(
            epsilons=(0.0, 0.1, 1.0), attack_samples=3, attack_examples=30
        ),
        data=types.SimpleNamespace(
            test=(x, labels), pixels=pixels, scale=scale
        ),
        fit=types.SimpleNamespace(
            network=types.SimpleNamespace(is_random=False),
            seed=lambda stream: 0,
        ),
        fitted=types.SimpleNamespace(model=model),
        draws=draws,
        kernel=kernel,
    )


def test_images_are_pushed_away_from_their_class(subject):
    found, details = attack.attack(subject)
    assert details == {}
    assert set(found) == {
        f"attack/{epsilon}/{metric}"
        for epsilon in ("0", "0.1", "1")
        for metric in attack.METRICS
    }
    x, labels = (part[:30] for part in subject.data.test)
    clean = predictions.of_classes(subject.draws(x), labels)
    assert found["attack/0/nll"] == pytest.approx(clean["nll"], rel=1e-5)
    assert found["attack/0/accuracy"] == 1.0
    # The gradient of a linear classifier: towards the other class.
    away = subject.kernel @ [1.0, -1.0]
    signs = np.where(labels[:, np.newaxis] == 0, -1.0, 1.0) * np.sign(away)
    moved = np.clip(x + 0.1 * signs.reshape(x.shape), 0.0, 1.0)
    expected = predictions.of_classes(subject.draws(moved), labels)
    for metric in attack.METRICS:
        assert found[f"attack/0.1/{metric}"] == pytest.approx(
            expected[metric], rel=1e-4
        )
    # Each pixel is at an end of its range: all go to the other class.
    assert found["attack/1/accuracy"] < 0.1
