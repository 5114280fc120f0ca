import numpy as np
import pytest

from tfp_refine.datasets import RegressionData
from tfp_refine.datasets import load_uci
from tfp_refine.datasets import train_test_split


def make_data(num_rows=20, splits=()):
    rng = np.random.default_rng(1)
    return RegressionData(
        name="toy",
        features=rng.normal(5.0, 3.0, size=(num_rows, 2)),
        target=rng.normal(-2.0, 9.0, size=(num_rows, 1)),
        splits=splits,
    )


def pair(train, test):
    return (np.asarray(train, np.int64), np.asarray(test, np.int64))


def test_every_row_is_on_exactly_one_side():
    split = train_test_split(make_data(23), 0)
    rows = np.concatenate([split.train_index, split.test_index])
    assert sorted(rows) == list(range(23))


@pytest.mark.parametrize(
    ("num_rows", "test_fraction", "num_test"),
    [
        (308, 0.2, 62),
        (506, 0.2, 102),  # 404 training rows, as in the literature
        (768, 0.2, 154),
        (10, 0.7, 7),  # 0.7 * 10 is 7.000000000000001
        (2, 0.5, 1),
    ],
)
def test_number_of_test_rows(num_rows, test_fraction, num_test):
    split = train_test_split(
        make_data(num_rows), 0, test_fraction=test_fraction
    )
    assert split.x_test.shape == (num_test, 2)
    assert split.y_test.shape == (num_test, 1)
    assert split.x_train.shape == (num_rows - num_test, 2)
    assert split.y_train.shape == (num_rows - num_test, 1)


def test_random_split_depends_on_seed_and_number_alone():
    data = make_data()
    first = train_test_split(data, 3, seed=7)
    train_test_split(data, 0, seed=7)
    again = train_test_split(data, 3, seed=7)
    np.testing.assert_array_equal(first.test_index, again.test_index)
    order = np.random.default_rng([7, 3]).permutation(20)
    assert set(first.test_index) == set(order[:4])


@pytest.mark.parametrize("other", [{"split": 4, "seed": 7}, {"split": 3}])
def test_another_number_or_seed_gives_another_split(other):
    data = make_data()
    first = train_test_split(data, 3, seed=7)
    assert set(train_test_split(data, **other).test_index) != set(
        first.test_index
    )


def test_seed_and_number_are_not_exchangeable():
    data = make_data()
    a = train_test_split(data, 1, seed=2)
    b = train_test_split(data, 2, seed=1)
    assert set(a.test_index) != set(b.test_index)


def test_scalers_see_the_training_rows_only():
    data = make_data()
    split = train_test_split(data, 0)
    shifted = data._replace(
        features=data.features.copy(), target=data.target.copy()
    )
    shifted.features[split.test_index] += 1e3
    shifted.target[split.test_index] *= -50.0
    other = train_test_split(shifted, 0)
    np.testing.assert_array_equal(other.x_train, split.x_train)
    np.testing.assert_array_equal(other.y_train, split.y_train)
    np.testing.assert_array_equal(other.x_scaler, split.x_scaler)
    np.testing.assert_array_equal(other.y_scaler, split.y_scaler)
    assert np.all(other.x_test > split.x_test)


def test_training_rows_are_standardized_and_test_rows_on_the_same_scale():
    data = make_data()
    split = train_test_split(data, 0)
    for z in (split.x_train, split.y_train):
        assert z.dtype == np.float32
        np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-6)
        np.testing.assert_allclose(z.std(axis=0), 1.0, rtol=1e-5)
    train, test = (
        data.features[split.train_index],
        data.features[split.test_index],
    )
    assert split.x_test.dtype == np.float32
    np.testing.assert_allclose(
        split.x_test, (test - train.mean(0)) / train.std(0), rtol=1e-5
    )


def test_original_targets_are_the_rows_of_the_data_set():
    data = make_data()
    split = train_test_split(data, 2)
    assert split.y_test_original.dtype == np.float64
    np.testing.assert_array_equal(
        split.y_test_original, data.target[split.test_index]
    )
    np.testing.assert_allclose(
        split.y_scaler.inverse(split.y_test), split.y_test_original, rtol=1e-5
    )


def test_inputs_and_targets_stay_paired():
    features = np.arange(20.0)[:, None]
    data = RegressionData("line", features, 3.0 * features - 1.0)
    split = train_test_split(data, 0)
    np.testing.assert_allclose(split.y_train, split.x_train, atol=1e-6)
    np.testing.assert_allclose(split.y_test, split.x_test, atol=1e-6)


def test_given_split_takes_the_rows_in_the_given_order():
    data = make_data(splits=(pair([0], [1]), pair([5, 3, 9], [2, 0])))
    split = train_test_split(data, 1, kind="given")
    assert split.train_index.tolist() == [5, 3, 9]
    np.testing.assert_array_equal(split.y_test_original, data.target[[2, 0]])


def test_constant_training_column_stays_finite():
    data = make_data()
    data.features[:, 1] = 0.1
    split = train_test_split(data, 0)
    np.testing.assert_allclose(split.x_train[:, 1], 0.0, atol=1e-6)
    np.testing.assert_allclose(split.x_test[:, 1], 0.0, atol=1e-6)


def test_embedded_data_split():
    split = train_test_split(load_uci("yacht"), 19)
    assert split.x_train.shape == (246, 6)
    assert np.all(np.isfinite(split.x_test))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": -1}, "`split` must be an integer, not negative.*split=-1"),
        ({"split": 0.5}, "`split` must be an integer, not negative"),
        ({"split": True}, "`split` must be an integer, not negative"),
        ({"split": 0, "seed": -3}, "`seed` must be .*seed=-3"),
        ({"split": 0, "kind": "fold"}, "'random', 'given'.*'fold'"),
        ({"split": 0, "test_fraction": 0.0}, r"in \(0, 1\).*=0.0"),
        ({"split": 0, "test_fraction": 1.0}, r"in \(0, 1\).*=1.0"),
        ({"split": 0, "test_fraction": float("nan")}, r"in \(0, 1\)"),
        ({"split": 0, "test_fraction": 0.99}, "a row on either side.*20 of 20"),
        ({"split": 0, "test_fraction": 1e-9}, "a row on either side.*0 of 20"),
        ({"split": 0, "kind": "given"}, "'toy', 0. Received: split=0"),
    ],
)
def test_rejects_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        train_test_split(make_data(), **arguments)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (0, r"split 0 of data set 'toy': training .* in \[0, 20\).*: 20"),
        (1, r"split 1 .* test row numbers must be in \[0, 20\).*: -1"),
        (2, "must not overlap.*2 rows on both sides, such as 3"),
        (3, "list of test row numbers"),
        (4, "list of training row numbers.*float64"),
        (5, "number of given splits .*5. Received: split=5"),
    ],
)
def test_rejects_given_splits(number, message):
    splits = (
        pair([0, 20], [1]),
        pair([0], [1, -1]),
        pair([0, 3, 4], [4, 3]),
        pair([0], []),
        (np.array([0.0]), np.array([1])),
    )
    with pytest.raises(ValueError, match=message):
        train_test_split(make_data(splits=splits), number, kind="given")


@pytest.mark.parametrize(
    ("features", "target", "message"),
    [
        (np.zeros((1, 2)), np.zeros((1, 1)), "at least 2 rows. Received: 1"),
        (np.zeros((3, 2)), np.zeros(3), r"target \[N, 1\].*\(3,\)"),
        (np.zeros((3, 2)), np.zeros((4, 1)), r"\(3, 2\) and \(4, 1\)"),
        (np.zeros(3), np.zeros((3, 1)), r"features \[N, P\]"),
        (np.full((3, 2), np.nan), np.zeros((3, 1)), "finite"),
        (np.zeros((3, 2)), np.full((3, 1), np.inf), "finite"),
    ],
)
def test_rejects_data(features, target, message):
    with pytest.raises(ValueError, match=message):
        train_test_split(RegressionData("toy", features, target), 0)
