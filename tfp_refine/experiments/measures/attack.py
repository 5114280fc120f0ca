"""Predictions of images that are perturbed by the sign of a gradient."""

import numpy as np

from tfp_refine import posteriors
from tfp_refine.experiments import bench
from tfp_refine.experiments.measures import predictions
from tfp_refine.experiments.systems import registry

METRICS = ("accuracy", "entropy", "nll")


def attack(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures predictions of perturbed test images, of uint8 pixels.

    Names are `attack/EPSILON/METRIC`, epsilon a part of the range of a pixel.
    """
    config, data, found = subject.config, subject.data, {}
    few = slice(config.attack_examples)
    labels, pixels = data.test[1][few], data.pixels[few]
    signs = posteriors.fast_gradient_sign(
        subject.fitted.model,
        data.test[0][few],
        labels,
        config.attack_samples if subject.fit.network.is_random else 1,
        # Not the draws that the attack is judged by.
        seed=subject.fit.seed("measures"),
    )
    for epsilon in config.epsilons:
        changed = np.clip(pixels + 255.0 * epsilon * signs, 0.0, 255.0)
        draws = subject.draws(data.scale(changed))
        values = predictions.of_classes(draws, labels)
        for metric in METRICS:
            found[f"attack/{epsilon:g}/{metric}"] = values[metric]
    return found, {}


ATTACK = bench.Measure(
    "attack",
    attack,
    ("attack_examples", "attack_samples", "epsilons", "num_samples"),
    lambda subject: registry.is_network(subject.expression),
)
