import math

import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import models
from tfp_refine.initializers import mini_batches
from tfp_refine.initializers import patches
from tfp_refine.initializers import traversal

NUM = 2 * 256 + 100


def test_examples_of_several_chunks_keep_their_targets(rng):
    x = bayesian_linear.float32(rng.normal(size=(NUM, 4)))
    y = bayesian_linear.float32(rng.normal(size=(NUM, 2)))
    model = bayesian_linear.dense_model(4, 2)
    initializers.IBLM(
        prior_variance=0.3,
        bias_prior_variance=2.0,
        noise_variance=0.5,
        verbose=False,
    )(model, x, y)
    expected, precision = bayesian_linear.posterior(
        bayesian_linear.with_ones(x), y, 0.5, [0.3] * 4 + [2.0]
    )
    mean, variance = bayesian_linear.read(model.get_layer("linear"))
    np.testing.assert_allclose(mean, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        variance, bayesian_linear.inverse_diagonals(precision), rtol=1e-7
    )


def images():
    """Returns a model that has hidden convolutions, one of them in groups."""
    still = bayesian_linear.still()
    return keras.Sequential(
        [
            keras.Input((5, 5, 2)),
            layers.Conv2DReparameterization(4, 3, activation="tanh", **still),
            layers.Conv2DReparameterization(
                6, 2, activation="tanh", groups=2, **still
            ),
            keras.layers.Flatten(),
            layers.DenseReparameterization(3, **still),
        ]
    )


@pytest.mark.slow
def test_the_sizes_of_blocks_do_not_matter(monkeypatch, rng):
    x = rng.normal(size=(300, 5, 5, 2)).astype("float32")
    labels = rng.integers(3, size=300)

    def means():
        keras.utils.set_random_seed(0)
        model = images()
        initializers.IBLM(patches_per_image=math.inf, seed=0, verbose=False)(
            model, x, labels
        )
        return [
            np.array(layer.kernel)
            for layer in model.layers
            if layer.built and isinstance(layer, layers.VariationalLayer)
        ]

    expected = means()
    monkeypatch.setattr(mini_batches, "_BLOCK_NUMBERS", 1)
    monkeypatch.setattr(patches, "_CHUNK_NUMBERS", 1000)
    found = means()
    assert len(found) == 3
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_blocks_of_units_hold_no_more_than_they_should(monkeypatch, rng):
    sizes = []
    of = initializers.iblm.regression.UnitTargets.of

    def spy(self, batch):
        sizes.append((len(batch.units), np.prod(batch.rows.shape)))
        return of(self, batch)

    monkeypatch.setattr(initializers.iblm.regression.UnitTargets, "of", spy)
    monkeypatch.setattr(mini_batches, "_BLOCK_NUMBERS", 3 * 128 * 4)
    model = models.MLP((4,), 1, hidden=(8,), seed=1)
    x, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    initializers.IBLM(verbose=False)(model, x, y)
    assert [units for units, _ in sizes] == [3, 3, 2, 1]
    assert max(numbers for _, numbers in sizes[:-1]) == 3 * 128 * 4


# Patches that are drawn.


def drawn(patches_per_example, rng, num=40):
    """Draws patches of one pixel, which say where they are from."""
    inputs = keras.Input((3, 3, 1))
    layer = layers.Conv2DFlipout(2, 1)
    model = keras.Model(inputs, layer(inputs))
    x = np.reshape(np.arange(num * 9.0, dtype="float32"), (num, 3, 3, 1))
    call = traversal.Call(layer, 1, 9)
    return np.asarray(patches.draw(model, call, x, patches_per_example, rng))


@pytest.mark.parametrize("patches_per_example", [9, 20, math.inf])
def test_all_patches_come_in_their_order(patches_per_example, rng):
    found = drawn(patches_per_example, rng)
    expected = np.reshape(np.arange(360.0), (40, 9, 1, 1))
    np.testing.assert_array_equal(found, expected)


def test_patches_are_of_their_example_and_differ(rng):
    found = drawn(4, rng)
    assert found.shape == (40, 4, 1, 1)
    found = found[..., 0, 0].astype(int)
    np.testing.assert_array_equal(
        found // 9, np.arange(40)[:, np.newaxis] + np.zeros(4, int)
    )
    positions = found % 9
    assert all(len(set(row)) == 4 for row in positions)
    # 126 sets of positions, 40 examples: one set for all but for 1e-80; each
    # position is left out by all with probability (5 / 9)**40 = 6e-11.
    assert len({tuple(sorted(row)) for row in positions}) > 1
    assert set(positions.ravel()) == set(range(9))


def test_calls_are_in_the_order_of_the_model_and_know_their_positions(rng):
    inputs = keras.Input((4, 4, 2))
    layer = layers.Conv2DFlipout(3, 2, strides=2, name="conv")
    last = layers.DenseFlipout(2, name="last")
    flat = keras.layers.Flatten()(layer(inputs))
    model = keras.Model(inputs, last(flat))
    x = rng.normal(size=(5, 4, 4, 2)).astype("float32")
    calls, outputs = traversal.calls_in_order(model, [last, layer], x)
    assert [(call.layer.name, call.num_positions) for call in calls] == [
        ("conv", 4),
        ("last", 1),
    ]
    assert outputs.shape == (5, 2)


def test_a_layer_that_is_not_called_is_an_error(rng):
    model = models.MLP((4,), 1, hidden=(), seed=1)
    x = rng.normal(size=(5, 4)).astype("float32")
    with pytest.raises(ValueError, match="'stranger' 1 times, and then 0"):
        traversal.layer_inputs(
            model,
            traversal.Call(layers.DenseFlipout(1, name="stranger"), 1, 1),
            x,
        )


def test_few_examples_with_large_outputs_are_propagated_at_once():
    for size, expected in ((8, 256), (512, 2), (4096, 1)):
        inputs = keras.Input((size, size, 1))
        x = keras.layers.Conv2D(64, 3, padding="same")(inputs)
        x = layers.DenseFlipout(2)(keras.layers.GlobalAveragePooling2D()(x))
        assert traversal.chunk_size(keras.Model(inputs, x)) == expected
    unknown = keras.Sequential([layers.DenseFlipout(2)])
    assert traversal.chunk_size(unknown) == 256
