import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import initializers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("heuristic", initializers.Heuristic),
        ("iblm", initializers.IBLM),
        ("lsuv", initializers.LSUV),
        ("moped", initializers.MOPED),
        ("orthogonal", initializers.Orthogonal),
        ("uninformative", initializers.Uninformative),
        ("xavier_normal", initializers.XavierNormal),
    ],
)
def test_each_has_a_name(name, kind):
    assert type(initializers.get(name)) is kind
    assert type(initializers.get(kind)) is kind


def test_objects_are_themselves():
    given = initializers.MOPED(0.3)
    assert initializers.get(given) is given


@pytest.mark.parametrize("identifier", ["IBLM", None, 1, ["iblm"]])
def test_others_are_refused(identifier):
    with pytest.raises(ValueError, match="must be one of .*'iblm'"):
        initializers.get(identifier)


@pytest.mark.parametrize("name", ["delta", "min_scale"])
def test_moped_has_positive_scales(name):
    with pytest.raises(ValueError, match=name):
        initializers.MOPED(**{name: 0.0})


def test_moped_leaves_frozen_layers_and_has_the_papers_scales():
    layers = [tfr.layers.DenseReparameterization(4) for _ in range(2)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    layers[0].trainable = False
    frozen = [np.array(variable) for variable in layers[0].variables]
    assert initializers.MOPED()(model) is model
    for variable, value in zip(layers[0].variables, frozen, strict=True):
        np.testing.assert_array_equal(variable, value)
    kernel, bias = layers[1].variational_weights
    expected = np.maximum(0.1 * np.abs(np.array(kernel.loc)), 1e-4)
    np.testing.assert_allclose(kernel.scale, expected, rtol=1e-4)
    np.testing.assert_array_equal(bias.loc, 0.0)
    np.testing.assert_allclose(bias.scale, 1e-4, rtol=1e-4)
