import numpy as np
import pytest

from tfp_refine.functional import example_weights

ONES = np.ones((4, 2))


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 2, 1, 2]),
        np.array([[0.0], [2.0], [1.0], [2.0]]),
        np.eye(3)[[0, 2, 1, 2]],
    ],
)
def test_each_example_has_the_weight_of_its_class(y):
    found = example_weights.of_classes(y, {0: 0.0, 2: 2.5, 7: 9.0})
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, [0.0, 2.5, 1.0, 2.5])


@pytest.mark.parametrize(
    ("y", "class_weight", "message"),
    [
        (ONES[:, 0], [1.0, 2.0], r"must be a dict.*\[1.0, 2.0\]"),
        (ONES[:, 0], {}, "must be a dict"),
        (ONES[:, 0], {1: -1.0}, "none is negative.*-1.0 for class 1"),
        (ONES[:, 0], {1: np.inf}, "finite numbers.*inf for class 1"),
        (ONES[:, 0], {1: "a"}, "finite numbers.*'a' for class 1"),
        (ONES[:, 0] * 0.5, {1: 2.0}, "targets that are classes.*0.5 to 0.5"),
        (ONES[:, 0] - 2.0, {1: 2.0}, "targets that are classes.*-1 to -1"),
        (ONES, {1: 2.0}, r"one-hot rows.*shape \(4, 2\)"),
        (np.ones((4, 2, 2)), {1: 2.0}, r"shape \(4, 2, 2\)"),
        ({"a": ONES, "b": ONES}, {1: 2.0}, "one output.*2 targets"),
    ],
)
def test_class_weights_of_other_things_are_refused(y, class_weight, message):
    with pytest.raises(ValueError, match=message):
        example_weights.of_classes(y, class_weight)


def test_weights_of_each_output_are_checked_together():
    found = example_weights.checked({"a": ONES[:, :1], "b": 0.0 * ONES})
    assert found["a"].shape == (4,)
    assert found["b"].shape == (4, 2)
    with pytest.raises(ValueError, match="least value -1, sum 0"):
        example_weights.checked({"a": ONES, "b": -ONES})
