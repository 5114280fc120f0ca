import tracemalloc

import numpy as np
import pytest

from tfp_refine.datasets import ImageData
from tfp_refine.datasets import Standardizer
from tfp_refine.datasets import image_split
from tfp_refine.datasets import standardize_pixels
from tfp_refine.datasets import standardized_images


def make_data(num_train=50, dtype=np.uint8):
    """Makes images of which each names its row, and its label too."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 200, (num_train + 7, 6, 5, 3)).astype(dtype)
    x[..., 1] //= 9
    x[:, 0, 0, 0] = np.arange(num_train + 7)
    y = np.arange(num_train + 7) % 4
    return ImageData.from_arrays(
        "toy", x[:num_train], y[:num_train], x[num_train:], y[num_train:], 4
    )


def raw(images, scaler):
    return np.rint(scaler.inverse(images)).astype(np.uint8)


@pytest.fixture(params=[1, 1000, 2**16])
def chunk(request, monkeypatch):
    """Sizes of a chunk: an image, some and a rest, all."""
    monkeypatch.setattr(image_split, "_CHUNK", request.param)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_training_images_have_mean_0_and_deviation_1_by_channel(chunk, dtype):
    split = standardized_images(make_data(dtype=dtype), 0.2)
    assert split.x_train.dtype == np.float32
    x = split.x_train.astype(np.float64)
    np.testing.assert_allclose(x.mean(axis=(0, 1, 2)), 0.0, atol=1e-6)
    np.testing.assert_allclose(x.std(axis=(0, 1, 2)), 1.0, rtol=1e-6)


def test_statistics_are_those_of_the_training_images_in_double(chunk):
    data = make_data()
    split = standardized_images(data, 11)
    pixels = data.x_train[split.train_index].reshape(-1, 3)
    expected = Standardizer.fit(pixels)
    np.testing.assert_allclose(split.scaler.loc, expected.loc, rtol=1e-12)
    np.testing.assert_allclose(split.scaler.scale, expected.scale, rtol=1e-12)
    assert split.scaler.loc.shape == (3,)


def test_statistics_do_not_cancel_far_from_zero():
    x = np.float64(2**26) + np.arange(160.0).reshape(10, 4, 4, 1)
    data = ImageData.from_arrays(
        "far", x, np.zeros(10, int), x, np.zeros(10, int), 2
    )
    scaler = standardized_images(data).scaler
    np.testing.assert_allclose(scaler.scale, np.arange(160).std(), rtol=1e-9)


def test_every_image_comes_back_once_with_its_label(chunk):
    data = make_data()
    split = standardized_images(data, 0.3, seed=5)
    assert len(split.x_validation) == 15
    index = np.concatenate([split.train_index, split.validation_index])
    assert sorted(index) == list(range(50))
    for images, labels, rows in (
        (split.x_train, split.y_train, split.train_index),
        (split.x_validation, split.y_validation, split.validation_index),
    ):
        np.testing.assert_array_equal(
            raw(images, split.scaler), data.x_train[rows]
        )
        np.testing.assert_array_equal(labels, data.y_train[rows])
        assert labels.dtype == np.int32
    np.testing.assert_array_equal(raw(split.x_test, split.scaler), data.x_test)
    np.testing.assert_array_equal(split.y_test, data.y_test)
    assert split.num_classes == 4


def test_scaler_sees_neither_validation_nor_test_images():
    data = make_data()
    split = standardized_images(data, 0.2)
    other = data._replace(
        x_train=data.x_train.copy(), x_test=data.x_test + np.uint8(50)
    )
    other.x_train[split.validation_index] += np.uint8(50)
    again = standardized_images(other, 0.2)
    np.testing.assert_array_equal(again.scaler, split.scaler)
    np.testing.assert_array_equal(again.x_train, split.x_train)
    assert np.all(again.x_validation > split.x_validation)
    assert np.all(again.x_test > split.x_test)


def test_constant_channel_becomes_zeros_and_keeps_unit_scale():
    x = make_data().x_train.astype(np.float64)
    x[..., 1] = 0.1  # whose computed deviation is not 0
    data = ImageData.from_arrays(
        "flat", x, np.zeros(50, int), x, np.zeros(50, int), 2
    )
    split = standardized_images(data)
    assert split.scaler.scale[1] == 1.0
    assert np.all(split.scaler.scale[[0, 2]] > 10.0)
    np.testing.assert_allclose(split.x_train[..., 1], 0.0, atol=1e-6)


def test_seed_fixes_one_order_of_which_validation_is_the_beginning():
    data = make_data()
    small = standardized_images(data, 5, seed=2)
    large = standardized_images(data, 12, seed=2)
    np.testing.assert_array_equal(
        small.validation_index, large.validation_index[:5]
    )
    other = standardized_images(data, 5, seed=3)
    assert set(other.validation_index) != set(small.validation_index)
    assert not np.array_equal(small.train_index, np.sort(small.train_index))


@pytest.mark.parametrize(
    ("validation", "count"),
    [(0, 0), (0.0, 0), (0.1, 5), (0.7, 35), (0.01, 1), (1, 1), (49, 49)],
)
def test_number_of_validation_images(validation, count):
    split = standardized_images(make_data(), validation)
    assert split.x_validation.shape == (count, 6, 5, 3)
    assert split.y_validation.shape == (count,)
    assert split.x_train.shape == (50 - count, 6, 5, 3)


def test_pixels_are_standardized_as_the_test_images():
    data = make_data()
    split = standardized_images(data)
    np.testing.assert_array_equal(
        standardize_pixels(data.x_test, split.scaler), split.x_test
    )


def test_no_copy_in_double_precision_is_made():
    x = np.zeros((2000, 16, 16, 3), np.uint8)
    data = ImageData.from_arrays(
        "large", x, np.zeros(2000, int), x[:1], np.zeros(1, int), 2
    )
    tracemalloc.start()
    standardized_images(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * x.size + 16 * image_split._CHUNK + 2**22


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"validation_fraction": 1.0}, r"in \[0, 1\).*=1.0"),
        ({"validation_fraction": -0.1}, r"in \[0, 1\).*=-0.1"),
        ({"validation_fraction": float("nan")}, "=nan"),
        ({"validation_fraction": 50}, "one of the 50 training images.*=50"),
        ({"validation_fraction": -1}, "validation_fraction=-1"),
        ({"validation_fraction": 0.999}, "leave one of the 50"),
        ({"validation_fraction": True}, "validation_fraction=True"),
        ({"validation_fraction": "0.1"}, "validation_fraction='0.1'"),
        ({"seed": -1}, "`seed` must be an integer, not negative.*seed=-1"),
        ({"seed": 0.5}, "`seed` must be .*seed=0.5"),
    ],
)
def test_rejects_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        standardized_images(make_data(), **arguments)


def test_rejects_data_that_were_not_checked():
    data = make_data()
    with pytest.raises(ValueError, match="'toy': `y_train` must be in"):
        standardized_images(data._replace(y_train=data.y_train - 1))


def test_rejects_images_of_other_channels():
    scaler = standardized_images(make_data()).scaler
    with pytest.raises(ValueError, match=r"\[N, H, W, 3\].*\(2, 6, 5, 1\)"):
        standardize_pixels(np.zeros((2, 6, 5, 1), np.uint8), scaler)
