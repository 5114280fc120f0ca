import numpy as np
from sklearn import datasets

from tfp_refine.datasets import load_images


def as_rows(images):
    return sorted(map(tuple, images.reshape(len(images), -1).tolist()))


def test_digits_are_those_of_scikit_learn_each_once():
    data = load_images("digits")
    assert data.x_train.shape == (1437, 8, 8, 1)
    assert data.x_test.shape == (360, 8, 8, 1)
    assert data.x_train.dtype == np.uint8
    assert data.num_classes == 10
    assert data.class_names == tuple("0123456789")
    pixels = np.concatenate([data.x_train, data.x_test])
    labels = np.concatenate([data.y_train, data.y_test])
    original = datasets.load_digits()
    restored = np.rint(pixels[..., 0] / 255.0 * 16.0)
    assert as_rows(
        np.concatenate([restored.reshape(-1, 64), labels[:, None]], axis=1)
    ) == as_rows(np.column_stack([original.data, original.target]))
    assert pixels.max() == 255


def test_digits_split_is_fixed_and_stratified():
    first, again = load_images("digits"), load_images("digits")
    np.testing.assert_array_equal(first.x_test, again.x_test)
    np.testing.assert_array_equal(first.y_train, again.y_train)
    total = np.bincount(np.concatenate([first.y_train, first.y_test]))
    np.testing.assert_allclose(
        np.bincount(first.y_test), total * 360 / 1797, atol=1.0
    )
    # Pinned, as results are compared from one machine to another.
    assert first.y_test[:8].tolist() == [7, 6, 3, 7, 7, 3, 2, 8]
