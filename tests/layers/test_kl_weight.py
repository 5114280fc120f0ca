import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine.layers import kl_weight


@pytest.fixture
def weight():
    weight = kl_weight.KLWeight()
    weight.num_train_examples = 8
    weight.build("float32")
    return weight


def test_the_kl_is_scaled_and_divided(weight):
    assert float(weight.apply(keras.ops.array(12.0), "dense")) == 1.5
    weight.kl_scale.assign(0.5)
    assert float(weight.apply(keras.ops.array(12.0), "dense")) == 0.75
    weight.num_train_examples = np.int64(16)
    assert float(weight.apply(keras.ops.array(12.0), "dense")) == 0.375
    assert weight.num_train_examples == 16
    assert type(weight.num_train_examples) is int


def test_building_twice_keeps_the_scale(weight):
    weight.kl_scale.assign(0.5)
    weight.build("float32")
    assert float(weight.kl_scale) == 0.5


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_number_may_come_before_or_after_the_variables(when):
    weight = kl_weight.KLWeight()
    if when == "before":
        weight.num_train_examples = 4
    weight.build("float64")
    weight.num_train_examples = 4
    kl = weight.apply(keras.ops.array(1.0), "dense")
    assert float(kl) == 0.25
    assert kl.dtype == "float64"


def test_a_missing_number_is_named_with_its_layer():
    weight = kl_weight.KLWeight()
    weight.build("float32")
    message = r"Layer 'dense_7' does not know .*`num_train_examples=\.\.\.`"
    with pytest.raises(ValueError, match=message):
        weight.apply(1.0, "dense_7")
    weight.num_train_examples = 3
    weight.num_train_examples = None  # forgotten again
    with pytest.raises(ValueError, match=message):
        weight.apply(1.0, "dense_7")


@pytest.mark.parametrize("number", [0, -5, 2.0, True, "10", float("nan")])
def test_the_number_must_be_a_positive_integer(weight, number):
    message = "`num_train_examples` must be a positive integer"
    with pytest.raises(ValueError, match=message):
        weight.num_train_examples = number
    with pytest.raises(ValueError, match=message):
        layers.DenseFlipout(2, num_train_examples=number)
    assert weight.num_train_examples == 8
