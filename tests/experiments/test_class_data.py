"""Classification data, as comparisons take them."""

import numpy as np
import pytest

from tfp_refine import datasets
from tfp_refine.experiments import class_data

FRACTION, SEED = 0.1, 3


def images(shifts=class_data.Shifts(), scaling="none", seed=SEED):  # noqa: B008
    return class_data.images(
        "digits", None, False, FRACTION, seed, shifts, scaling
    )


def table(shifts=class_data.Shifts(), **options):  # noqa: B008
    options = {"seed": SEED} | options
    seed = options.pop("seed")
    return class_data.table("wine", None, FRACTION, seed, shifts, **options)


@pytest.fixture(scope="module")
def raw():
    return datasets.load_images("digits")


def rows(x, labels):
    """Returns examples with their labels, in an order that says nothing."""
    flat = np.column_stack([np.reshape(x, (len(x), -1)), labels])
    return flat[np.lexsort(flat.T)]


def test_validation_images_are_some_of_the_training_set_with_their_labels(raw):
    data = images()
    assert len(data.validation[1]) == 144  # a tenth of 1437, rounded up
    assert len(data.train[1]) == 1437 - 144
    both = [
        np.concatenate(p) for p in zip(data.train, data.validation, strict=True)
    ]
    np.testing.assert_array_equal(
        rows(*both), rows(raw.x_train.astype(np.float32), raw.y_train)
    )
    np.testing.assert_array_equal(data.test[0], raw.x_test)
    np.testing.assert_array_equal(data.test[1], raw.y_test)
    assert data.num_classes == 10
    assert np.any(images(seed=4).validation[0] != data.validation[0])


def test_scalings_of_images(raw):
    for part in ("train", "validation", "test"):
        plain, unit, standard = (
            getattr(images(scaling=scaling), part)[0]
            for scaling in ("none", "unit", "standardized")
        )
        assert plain.dtype == unit.dtype == standard.dtype == np.float32
        np.testing.assert_allclose(unit, plain / 255.0, rtol=1e-6)
        train = images().train[0]
        expected = (plain - train.mean()) / train.std()
        np.testing.assert_allclose(standard, expected, rtol=1e-4, atol=1e-4)


def test_unseen_images_are_turned_and_shuffled_test_images(raw):
    shifts = class_data.Shifts(unseen=("turned", "shuffled"))
    for scaling in ("none", "unit"):
        unit = 255.0 if scaling == "unit" else 1.0
        data = images(shifts, scaling)
        assert list(data.unseen) == ["turned", "shuffled"]
        turned = unit * data.unseen["turned"]
        upside_down = np.rot90(raw.x_test, 2, axes=(1, 2))
        quarters = [np.rot90(raw.x_test, k, axes=(1, 2)) for k in (1, 3)]
        errors = [np.mean(np.abs(turned - q)) for q in quarters]
        assert min(errors) < 0.5  # of 255
        assert np.mean(np.abs(turned - upside_down)) > 10.0
        shuffled = unit * data.unseen["shuffled"]
        np.testing.assert_allclose(
            np.sort(shuffled, axis=0), np.sort(raw.x_test, axis=0), rtol=1e-6
        )


def test_shuffling_takes_each_number_from_an_example_of_its_own():
    x = np.arange(1200.0).reshape(100, 3, 2, 2)
    found = class_data.shuffled(x, 0)
    np.testing.assert_array_equal(np.sort(found, axis=0), x)
    came_from = found.reshape(100, 12) // 12
    # Two columns of one example agree once in a hundred.
    assert np.mean(came_from[:, 0] == came_from[:, 1]) < 0.1
    np.testing.assert_array_equal(class_data.shuffled(x, 0), found)
    assert np.any(class_data.shuffled(x, 1) != found)


def test_shifted_images_are_the_first_ones_scaled_as_the_others(raw):
    shifts = class_data.Shifts(
        rotations=(0.0, 40.0), corruptions=("fog",), num_examples=7
    )
    found = list(images(shifts, "unit").shifted())
    names = [(name, strength) for name, strength, _ in found]
    assert names == [
        ("rotation", 0.0),
        ("rotation", 40.0),
        *(("fog", severity) for severity in range(1, 6)),
    ]
    few = raw.x_test[:7]
    expected = [
        few,
        datasets.rotate_images(few, 40.0),
        *(
            datasets.corrupt_images(few, "fog", severity, SEED)
            for severity in range(1, 6)
        ),
    ]
    for (_, _, x), pixels in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, pixels / np.float32(255.0), rtol=1e-6)


def test_shifts_that_fit_no_image_are_refused_before_any_work():
    with pytest.raises(ValueError, match="smoke"):
        images(class_data.Shifts(corruptions=("smoke",)))


def test_a_table_is_split_anew_for_each_repetition():
    raw = datasets.load_class_table("wine")
    first, again, second = (
        table(scaling="none", number=number) for number in (0, 0, 1)
    )
    for data in (first, second):
        each = (data.train, data.validation, data.test)
        assert [len(labels) for _, labels in each] == [127, 15, 36]
        parts = zip(*each, strict=True)
        np.testing.assert_array_equal(
            rows(*map(np.concatenate, parts)),
            rows(raw.features.astype(np.float32), raw.labels),
        )
        assert data.num_classes == 3
        assert not list(data.shifted())
    assert first.digest == again.digest != second.digest


def test_the_seed_fixes_which_examples_are_split_off():
    x = np.arange(50)
    first, again, other = (
        class_data.split_off(x, -x, 0.1, seed) for seed in (1, 1, 2)
    )
    for train, validation in (first, other):
        for part, labels in (train, validation):
            np.testing.assert_array_equal(labels, -part)
        assert sorted([*train[0], *validation[0]]) == x.tolist()
        assert len(validation[0]) == 5
    np.testing.assert_array_equal(first[1], again[1])
    assert np.any(first[1][0] != other[1][0])


def test_a_table_is_standardized_by_what_is_not_test_data():
    plain, scaled = table(scaling="none"), table()
    known = np.concatenate([plain.train[0], plain.validation[0]])
    for part in ("train", "validation", "test"):
        x, labels = getattr(plain, part)
        found, same = getattr(scaled, part)
        np.testing.assert_array_equal(labels, same)
        expected = (x - known.mean(axis=0)) / known.std(axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_unseen_rows_are_shuffled_test_rows():
    data = table(class_data.Shifts(unseen=("shuffled",)))
    found = data.unseen["shuffled"]
    np.testing.assert_array_equal(
        np.sort(found, axis=0), np.sort(data.test[0], axis=0)
    )
    assert np.any(found != data.test[0])


@pytest.mark.parametrize("name", ["digits", "turned"])
def test_unseen_data_are_others(name):
    load = images if name == "digits" else table
    with pytest.raises(ValueError, match=f"--unseen must .*{name}"):
        load(class_data.Shifts(unseen=(name,)))


def test_other_data_sets_may_be_unseen_only_where_they_fit():
    found = class_data.unseen("own", ("other",), lambda n: n * 2, ("known",))
    assert found == {"other": "otherother"}
    with pytest.raises(ValueError, match="known. Received: other"):
        class_data.unseen("own", ("other",), len, ("known",), others=False)


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_no_part_may_be_empty(part):
    empty = (np.zeros((0, 2)), np.zeros(0, int))
    data = table()._replace(**{part: empty})
    with pytest.raises(ValueError, match=f"leaves no {part} examples"):
        class_data.check_parts(data, "wine", FRACTION)


def test_parts_are_told_apart_by_all_their_numbers():
    data = table()
    digests = {data.digest}
    for part in ("train", "validation", "test"):
        for index in range(2):
            values = [v.copy() for v in getattr(data, part)]
            values[index].flat[-1] += 1
            digests.add(data._replace(**{part: tuple(values)}).digest)
    assert len(digests) == 7
