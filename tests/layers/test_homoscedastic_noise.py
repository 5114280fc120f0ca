import keras
import numpy as np
import pytest

from tfp_refine import layers
from tfp_refine import losses


@pytest.mark.parametrize("initial_scale", [1e-4, 0.3, 40.0])
def test_it_appends_raw_scales_to_the_means(rng, initial_scale):
    layer = layers.HomoscedasticNoise(initial_scale)
    means = rng.normal(size=(4, 5, 2)).astype("float32")
    outputs = np.asarray(layer(means))
    assert outputs.shape == layer.compute_output_shape(means.shape)
    np.testing.assert_array_equal(outputs[..., :2], means)
    np.testing.assert_allclose(
        np.logaddexp(0.0, outputs[..., 2:]), initial_scale, rtol=1e-5
    )
    # One scale for each output, whatever the inputs.
    layer.untransformed_scale.assign([1.0, -2.0])
    raw = np.asarray(layer(means))[..., 2:]
    np.testing.assert_array_equal(raw, np.broadcast_to([1.0, -2.0], raw.shape))


def test_it_learns_the_noise(rng):
    model = keras.Sequential(
        [keras.Input((1,)), layers.HomoscedasticNoise(1.0)]
    )
    model.compile(
        keras.optimizers.SGD(0.5), losses.HeteroscedasticGaussianNLL()
    )
    x = np.zeros([64, 1], "float32")
    y = rng.normal(size=(64, 1)).astype("float32") * 0.2
    steps = 60
    model.fit(
        np.tile(x, [steps, 1]),
        np.tile(y, [steps, 1]),
        batch_size=64,
        shuffle=False,
        verbose=0,
    )
    learned = np.logaddexp(0.0, np.asarray(model.layers[-1].weights[0]))
    # The optimum of the likelihood at a mean of zero.
    np.testing.assert_allclose(learned, np.sqrt(np.mean(y**2)), rtol=1e-2)


class Regression(keras.Model):
    """A model that Keras builds when it is first trained, inside a trace."""

    def __init__(self):
        super().__init__()
        self.noise = layers.HomoscedasticNoise()

    def call(self, inputs):
        return self.noise(inputs)


def test_it_can_be_built_inside_a_trace():
    model = Regression()
    model.compile("sgd", losses.HeteroscedasticGaussianNLL())
    model.fit(np.zeros([4, 2]), np.zeros([4, 2]), verbose=0)
    assert len(model.weights) == 1


def test_it_survives_a_round_trip(tmp_path, rng):
    x = rng.normal(size=(4, 3)).astype("float32")
    model = keras.Sequential(
        [keras.Input((3,)), layers.HomoscedasticNoise(0.3)]
    )
    model.layers[-1].untransformed_scale.assign([1.0, 2.0, 3.0])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.layers[-1].initial_scale == 0.3
    np.testing.assert_array_equal(loaded(x), model(x))


def test_it_follows_the_policy_and_passes_masks():
    layer = layers.HomoscedasticNoise(dtype="mixed_float16")
    assert layer(np.ones([2, 3], "float32")).dtype == "float16"
    assert layer.untransformed_scale.dtype == "float32"
    assert layer.supports_masking
    inputs = keras.Input((None, 3))
    assert layer(inputs).shape == (None, None, 6)


@pytest.mark.parametrize(
    "initial_scale", [0.0, -1.0, float("nan"), float("inf")]
)
def test_initial_scale_must_be_positive_and_finite(initial_scale):
    with pytest.raises(ValueError, match="`initial_scale` must be a positive"):
        layers.HomoscedasticNoise(initial_scale)
