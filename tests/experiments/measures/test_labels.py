"""Labels without a meaning."""

import numpy as np
import pytest

from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.measures import labels


@pytest.fixture
def data(rng):
    pairs = {
        name: (rng.normal(size=(size, 3)), np.zeros(size, int))
        for name, size in (("train", 300), ("validation", 0), ("test", 50))
    }
    return dataset.Dataset(num_classes=10, **pairs)


def test_labels_are_drawn_and_inputs_kept(data):
    found = labels.randomize(data, 200, [0, 1])
    np.testing.assert_array_equal(found.train[0], data.train[0][:200])
    np.testing.assert_array_equal(found.test[0], data.test[0])
    assert len(found.train[1]) == 200
    assert len(found.test[1]) == 50
    # One of ten labels is drawn less than 4 times in 200 once in 1e5.
    assert min(np.bincount(found.train[1], minlength=10)) >= 4
    assert found.digest == labels.randomize(data, 200, [0, 1]).digest
    assert found.digest != labels.randomize(data, 200, [0, 2]).digest


def test_more_examples_than_there_are_are_refused(data):
    with pytest.raises(ValueError, match="at most 300, the training images"):
        labels.randomize(data, 301, 0)
