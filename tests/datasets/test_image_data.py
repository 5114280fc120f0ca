import numpy as np
import pytest

from tfp_refine.datasets import ImageData


def arrays(**changes):
    made = {
        "name": "toy",
        "x_train": np.zeros((4, 6, 5, 3), np.uint8),
        "y_train": np.array([0, 1, 2, 1]),
        "x_test": np.zeros((2, 6, 5, 3), np.uint8),
        "y_test": np.array([2, 0]),
        "num_classes": 3,
    }
    return made | changes


def test_images_are_kept_and_labels_become_int32():
    given = arrays(class_names=["a", "b", "c"])
    data = ImageData.from_arrays(**given)
    assert data.x_train is given["x_train"]
    assert data.x_test is given["x_test"]
    assert data.y_train.dtype == data.y_test.dtype == np.int32
    assert data.y_train.tolist() == [0, 1, 2, 1]
    assert data.y_test.tolist() == [2, 0]
    assert data.num_classes == 3
    assert data.class_names == ("a", "b", "c")


def test_gray_images_get_a_channel_axis():
    gray = np.arange(4 * 30, dtype=np.uint8).reshape(4, 6, 5)
    data = ImageData.from_arrays(**arrays(x_train=gray, x_test=gray[:2]))
    np.testing.assert_array_equal(data.x_train, gray[..., None])
    assert data.x_test.shape == (2, 6, 5, 1)


def test_unsigned_labels_and_floating_images_will_do():
    data = ImageData.from_arrays(
        **arrays(
            x_train=np.full((4, 6, 5, 3), 0.5, np.float32),
            x_test=np.full((2, 6, 5, 3), 0.5, np.float32),
            y_train=np.array([0, 1, 2, 1], np.uint8),
        )
    )
    assert data.x_train.dtype == np.float32
    assert data.y_train.dtype == np.int32


def with_nan(rows):
    images = np.zeros((rows, 6, 5, 3), np.float32)
    images[1, 2, 3, 0] = np.nan
    return images


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.zeros((4, 30))}, r"`x_train`.*shape \(4, 30\)"),
        ({"x_test": np.zeros((0, 6, 5, 3))}, "`x_test`.*not empty"),
        ({"x_test": np.zeros((2, 6, 0, 3))}, "`x_test`.*not empty"),
        ({"x_train": np.zeros((4, 6, 5, 3), int)}, "uint8.*Received: int64"),
        ({"x_train": np.zeros((4, 6, 5, 3), bool)}, "uint8.*Received: bool"),
        ({"x_train": with_nan(4)}, "`x_train` must be finite.*image 1"),
        (
            {"x_test": np.zeros((2, 5, 6, 3), np.uint8)},
            r"one shape and type. Received: \(6, 5, 3\) uint8 and \(5, 6, 3\)",
        ),
        ({"x_test": np.zeros((2, 6, 5, 3))}, "uint8 and .* float64"),
        ({"y_train": np.array([0, 1, 2])}, r"`y_train`.*\(4,\).*\(3,\)"),
        ({"y_test": np.array([[1], [2]])}, r"`y_test`.*\(2,\).*\(2, 1\)"),
        ({"y_test": np.array([1.0, 2.0])}, "`y_test` must be integers.*float"),
        ({"y_test": np.array([True, False])}, "must be integers.*bool"),
        ({"y_train": np.array([0, 1, 3, 1])}, r"in \[0, 3\). Received: 3"),
        ({"y_test": np.array([-1, 0])}, r"`y_test`.*\[0, 3\). Received: -1"),
        ({"num_classes": 1}, "2 classes or more. Received: num_classes=1"),
        ({"num_classes": None}, "2 classes or more.*None"),
        ({"class_names": ("a", "b")}, "3 `class_names`, or none. Received: 2"),
    ],
)
def test_rejects(changes, message):
    with pytest.raises(ValueError, match="'toy'.*" + message):
        ImageData.from_arrays(**arrays(**changes))
