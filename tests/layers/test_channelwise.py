import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.layers import channelwise

SHAPES = [
    ((5, 3), (3,)),
    ((5, 4, 3), ()),
    ((5, 4, 40), (40,)),  # not few
    ((5, 4, 1), (1,)),
    ((5, 4, 3), (3,)),
    ((5, 4, 3), (5, 1, 3)),
    ((5, 4, 2, 3), (3,)),
    ((5, 4, 2, 3), (1, 3)),
    ((5, 4, 2, 3), (2, 3)),
    ((5, 4, 2, 3), (5, 1, 1, 3)),
    ((5, 3, 4, 2), (1, 3, 1, 1)),  # channels first
    ((5, 3, 4, 2), (5, 3, 1, 1)),
]


@pytest.mark.parametrize(("shape", "values_shape"), SHAPES)
@pytest.mark.parametrize("unknown", ["none", "but channels", "all"])
@pytest.mark.parametrize(
    ("function", "expected"),
    [(channelwise.add, np.add), (channelwise.multiply, np.multiply)],
)
def test_values_and_gradients_are_those_of_broadcasting(
    function, expected, unknown, shape, values_shape, rng
):
    outputs, values = rng.normal(size=shape), rng.normal(size=values_shape)
    cotangent = rng.normal(size=shape)
    specification = [
        tf.TensorSpec(
            {
                "none": s,
                "but channels": [None] * len(s[:-1]) + [*s[-1:]],
                "all": [None] * len(s),
            }[unknown],
            tf.float64,
        )
        for s in (shape, values_shape)
    ]

    @tf.function(input_signature=specification)
    def gradients(outputs, values):
        with tf.GradientTape() as tape:
            tape.watch([outputs, values])
            found = function(outputs, values)
            total = tf.reduce_sum(found * cotangent)
        return found, *tape.gradient(total, [outputs, values])

    found, *slopes = gradients(outputs, values)
    np.testing.assert_array_equal(found, expected(outputs, values))
    # Linear in each argument: a slope times a change is the change of the sum.
    of_outputs, of_values = (
        rng.normal(size=shape),
        rng.normal(size=values_shape),
    )
    for slope, change, changed in (
        (slopes[0], of_outputs, (outputs + of_outputs, values)),
        (slopes[1], of_values, (outputs, values + of_values)),
    ):
        difference = expected(*changed) - found
        np.testing.assert_allclose(
            np.sum(slope * change), np.sum(difference * cotangent), rtol=1e-9
        )
