import numpy as np
import pytest

from tfp_refine import datasets


@pytest.fixture
def data():
    labels = np.array([0, 1, 2, 3, 3, 2, 1, 0])
    images = np.arange(8, dtype=np.uint8)[:, None, None, None]
    return datasets.ImageData.from_arrays(
        "four", images, labels, images[::-1], labels[::-1], 4, tuple("abcd")
    )


def test_known_classes_are_numbered_anew_and_others_set_apart(data):
    known, unseen = datasets.split_classes(data, [3, 1])
    assert known.num_classes == 2
    assert known.class_names == ("d", "b")
    # An image is its old number: 1 and 6 are of class 1, 3 and 4 of class 3.
    assert known.x_train.ravel().tolist() == [1, 3, 4, 6]
    assert known.y_train.tolist() == [1, 0, 0, 1]
    assert known.x_test.ravel().tolist() == [6, 4, 3, 1]
    assert known.y_test.tolist() == [1, 0, 0, 1]
    assert unseen.ravel().tolist() == [7, 5, 2, 0]  # test images alone


@pytest.mark.parametrize(
    "classes", [[], [1], [0, 1, 2, 3], [1, 1], [-1, 2], [2, 4]]
)
def test_bad_classes_are_refused(data, classes):
    with pytest.raises(ValueError, match="two or more of the numbers 0 to 3"):
        datasets.split_classes(data, classes)
