"""Images as experiments take them."""

import dataclasses

import numpy as np
import pytest

from tfp_refine import datasets
from tfp_refine.experiments.data import images
from tfp_refine.experiments.data import load
from tfp_refine.experiments.harness import fields


def _made(name, size=8, dtype=np.uint8, channels=1):
    rng = np.random.default_rng(len(name))
    pixels = rng.integers(0, 256, (50, size, size, channels)).astype(dtype)
    labels = np.tile(np.arange(5), 10)
    return datasets.ImageData.from_arrays(
        name, pixels[:30], labels[:30], pixels[30:], labels[30:], num_classes=5
    )


@pytest.fixture(autouse=True)
def sets(monkeypatch):
    """Replaces data sets by small random ones."""
    made = {
        "own": _made("own"),
        "other": _made("other", size=12, channels=3),
        "floats": _made("floats", dtype=np.float32),
    }
    monkeypatch.setattr(datasets, "load_images", lambda name, *rest: made[name])
    return made


def load_images(**changes):
    return load.load(fields.Bench(dataset="own", kind="images", **changes))


def test_pixels_are_standardized_by_training_images(sets):
    data = load_images(validation_fraction=0.2)
    assert len(data.train[1]) == 24
    assert len(data.validation[1]) == 6
    assert data.num_classes == 5
    np.testing.assert_array_equal(data.pixels, sets["own"].x_test)
    np.testing.assert_allclose(data.scale(data.pixels), data.test[0])
    assert abs(data.train[0].mean()) < 0.1
    assert data.train[0].std() == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(("scaling", "divisor"), [("unit", 255), ("none", 1)])
def test_pixels_can_be_otherwise(sets, scaling, divisor):
    data = load_images(scaling=scaling)
    expected = sets["own"].x_test.astype(np.float32) / divisor
    np.testing.assert_array_equal(data.test[0], expected)
    assert data.test[0].dtype == np.float32


def test_classes_that_are_left_out_become_unseen():
    data = load_images(classes=(3, 1))
    assert data.num_classes == 2
    assert set(data.train[1]) == set(data.test[1]) == {0, 1}
    assert list(data.unseen) == [images.OTHER_CLASSES]
    assert len(data.test[1]) == 8
    assert len(data.unseen[images.OTHER_CLASSES]) == 12


def test_unseen_inputs_are_made_or_of_another_set(sets):
    data = load_images(unseen=("turned", "shuffled", "other"))
    turned, shuffled, other = data.unseen.values()
    back = np.rot90(turned, axes=(1, 2))
    candidates = [back, np.rot90(back, 2, axes=(1, 2))]
    assert any(np.allclose(one, data.test[0], atol=1e-5) for one in candidates)
    assert not np.array_equal(shuffled, data.test[0])
    np.testing.assert_allclose(
        np.sort(shuffled, axis=0), np.sort(data.test[0], axis=0)
    )
    assert other.shape == (20, 8, 8, 1)
    again = load_images(unseen=("shuffled",)).unseen["shuffled"]
    np.testing.assert_array_equal(again, shuffled)
    another = load_images(unseen=("shuffled",), seed=1).unseen["shuffled"]
    assert not np.array_equal(another, shuffled)


def test_shifts_are_those_of_the_first_test_images(sets):
    data = load_images(
        rotations=(0.0, 90.0), flipped_pixels=(1.0,), shift_examples=4,
        corruptions=("gaussian_noise",),
    )  # fmt: skip
    found = list(data.shifted())
    assert [name for name, _, _ in found] == [
        *2 * ["rotation"], "flipped_pixels", *5 * ["gaussian_noise"],
    ]  # fmt: skip
    assert [strength for _, strength, _ in found] == [
        0.0, 90.0, 1.0, 1, 2, 3, 4, 5,
    ]  # fmt: skip
    assert {x.shape for _, _, x in found} == {(4, 8, 8, 1)}
    np.testing.assert_allclose(found[0][2], data.test[0][:4], atol=1e-5)
    inverted = data.scale(255 - data.pixels[:4])
    np.testing.assert_allclose(found[2][2], inverted, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": (1,)}, "--classes: `classes` must be two or more"),
        ({"classes": (1, 9)}, "--classes: .*Received: .1, 9"),
        ({"unseen": ("own",)}, "--unseen must name some of turned, shuffled"),
        ({"corruptions": ("rain",)}, "--corruptions must be one of"),
        ({"split_kind": "given"}, "--split_kind has no meaning"),
        ({"dataset": "floats", "unseen": ("other",)}, "uint8 pixels"),
    ],
)
def test_errors_come_before_any_work(changes, message):
    config = fields.Bench(dataset="own", kind="images")
    with pytest.raises(ValueError, match=message):
        load.load(dataclasses.replace(config, **changes))


def test_pixels_of_unknown_range_are_not_kept():
    assert load_images(seed=0).pixels is not None
    config = fields.Bench(dataset="floats", kind="images")
    assert load.load(config).pixels is None
