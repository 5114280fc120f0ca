"""Test images that are changed more and more."""

import numpy as np
import pytest

from tfp_refine.experiments.data import images
from tfp_refine.experiments.harness import fields


@pytest.fixture
def pixels(rng):
    return rng.integers(0, 256, (6, 8, 8, 1)).astype(np.uint8)


def test_shifts_are_those_of_the_configuration(pixels):
    config = fields.Bench(
        rotations=(30.0,), flipped_pixels=(0.25,), corruptions=("contrast",)
    )  # fmt: skip
    found = list(images.shifted_sets(pixels, config))
    assert [(name, strength) for name, strength, _ in found] == [
        ("rotation", 30.0),
        ("flipped_pixels", 0.25),
        *(("contrast", severity) for severity in range(1, 6)),
    ]
    assert all(x.shape == pixels.shape for _, _, x in found)


def test_strengths_grow_and_draws_repeat(pixels):
    def distances(seed):
        config = fields.Bench(
            flipped_pixels=(0.0, 0.1, 0.5), corruptions=("gaussian_noise",),
            seed=seed,
        )  # fmt: skip
        return [
            np.abs(changed.astype(float) - pixels).mean()
            for _, _, changed in images.shifted_sets(pixels, config)
        ]

    flipped, noisy = np.split(np.asarray(distances(0)), [3])
    assert flipped[0] == 0.0
    assert np.all(np.diff(flipped) > 0.0)
    assert np.all(np.diff(noisy) > 0.0)
    assert distances(0) == distances(0) != distances(1)


@pytest.mark.parametrize(
    "changes",
    [
        {"corruptions": ("rain",)},
        {"corruptions": ("defocus_blur",)},
    ],
    ids=str,
)
def test_wrong_shifts_are_found_on_one_image(pixels, changes):
    config = fields.Bench(**changes)
    with pytest.raises(ValueError, match="Received"):
        list(images.shifted_sets(pixels[:1], config))


def test_no_shifts_need_no_images(pixels):
    assert not [*images.shifted_sets(pixels.astype("f4"), fields.Bench())]
