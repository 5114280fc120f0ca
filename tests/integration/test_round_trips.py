"""Every layer and model, saved and loaded: the same outputs at the means.

To the last bit, from a `.keras` file, from a file of weights and from a
SavedModel; at random initial weights, which are moved first. Exports take long:
the quick tests have only those of layers that none of `tests/posteriors` has.
"""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import attention
from tests.support import conv_layers

LAYERS = tfr.layers
OPTIONS = {"num_train_examples": 10}


def layer(kind, *shape, dtype="float32"):
    """Returns a function that makes a model of one layer, and its inputs."""

    def make():
        inputs = keras.Input(shape, dtype=dtype)
        return keras.Model(inputs, kind()(inputs))

    return make, (shape, dtype)


def table(kind, **options):
    return layer(lambda: kind(3, **OPTIONS, **options), 4)


def space(kind, rank, **options):
    options |= OPTIONS
    return layer(lambda: kind(3, 2, **options), *(4,) * rank, 2)


def series(kind, **options):
    return layer(lambda: kind(3, **OPTIONS, **options), 5, 2)


def heads(kind, **options):
    options |= OPTIONS
    return layer(
        lambda: kind("abc,cde->abde", (4, 2, 3), bias_axes="de", **options),
        4,
        2,
    )


def tokens(kind, **options):
    options |= OPTIONS
    return layer(
        lambda: attention.self_attention(
            kind(*attention.SIZES[kind], **options), use_causal_mask=True
        ),
        5,
        4,
    )


LAYER_CASES = {
    "ConcreteDropout": layer(
        lambda: LAYERS.ConcreteDropout(keras.layers.Dense(3), **OPTIONS), 4
    ),
    "Conv1DFlipout": space(LAYERS.Conv1DFlipout, 1, dilation_rate=2),
    "Conv1DLocalReparameterization": space(
        LAYERS.Conv1DLocalReparameterization, 1, groups=1
    ),
    "Conv1DReparameterization": space(
        LAYERS.Conv1DReparameterization, 1, padding="causal"
    ),
    "Conv1DTransposeFlipout": space(
        LAYERS.Conv1DTransposeFlipout, 1, padding="same"
    ),
    "Conv2DFlipout": space(LAYERS.Conv2DFlipout, 2, strides=2),
    "Conv2DLocalReparameterization": space(
        LAYERS.Conv2DLocalReparameterization, 2, activation="relu"
    ),
    "Conv2DMNF": space(LAYERS.Conv2DMNF, 2),
    "Conv2DReparameterization": space(
        LAYERS.Conv2DReparameterization, 2, kernel_posterior="low_rank"
    ),
    "Conv2DTransposeFlipout": space(
        LAYERS.Conv2DTransposeFlipout, 2, strides=2
    ),
    "Conv3DFlipout": space(LAYERS.Conv3DFlipout, 3),
    "Conv3DLocalReparameterization": space(
        LAYERS.Conv3DLocalReparameterization, 3
    ),
    "Conv3DReparameterization": space(
        LAYERS.Conv3DReparameterization, 3, bias_posterior=None
    ),
    "Conv3DTransposeFlipout": space(
        LAYERS.Conv3DTransposeFlipout, 3, strides=2
    ),
    "DenseFlipout": table(
        LAYERS.DenseFlipout, kernel_regularizer="empirical_bayes_kl"
    ),
    "DenseLocalReparameterization": table(
        LAYERS.DenseLocalReparameterization,
        kernel_regularizer="collapsed_mean_kl",
        kernel_posterior="k_tied",
    ),
    "DenseMNF": table(LAYERS.DenseMNF),
    "DenseReparameterization": table(
        LAYERS.DenseReparameterization, kernel_regularizer="scale_mixture_kl"
    ),
    **{
        f"DepthwiseConv{rank}D{name}": layer(
            lambda rank=rank, name=name: getattr(
                LAYERS, f"DepthwiseConv{rank}D{name}"
            )(2, **OPTIONS),
            *(4,) * rank,
            2,
        )
        for rank in (1, 2)
        for name in ("Flipout", "LocalReparameterization", "Reparameterization")
    },
    "EinsumDenseFlipout": heads(LAYERS.EinsumDenseFlipout),
    "EinsumDenseLocalReparameterization": heads(
        LAYERS.EinsumDenseLocalReparameterization, kernel_posterior="k_tied"
    ),
    "EinsumDenseReparameterization": heads(
        LAYERS.EinsumDenseReparameterization, kernel_posterior="low_rank"
    ),
    "EmbeddingReparameterization": layer(
        lambda: LAYERS.EmbeddingReparameterization(7, 3, **OPTIONS),
        5,
        dtype="int32",
    ),
    "GRUReparameterization": series(LAYERS.GRUReparameterization),
    "GroupQueryAttentionFlipout": tokens(
        LAYERS.GroupQueryAttentionFlipout, use_gate=True
    ),
    "GroupQueryAttentionLocalReparameterization": tokens(
        LAYERS.GroupQueryAttentionLocalReparameterization,
        kernel_posterior="k_tied",
    ),
    "GroupQueryAttentionReparameterization": tokens(
        LAYERS.GroupQueryAttentionReparameterization, bias_posterior=None
    ),
    "HomoscedasticNoise": layer(LAYERS.HomoscedasticNoise, 4),
    "LSTMReparameterization": series(
        LAYERS.LSTMReparameterization, return_sequences=True
    ),
    **{
        kind.__name__: space(kind, conv_layers.rank(kind), padding="same")
        for kind in conv_layers.SEPARABLE
    },
    "MCDropout": layer(lambda: LAYERS.MCDropout(0.5), 4),
    "MultiHeadAttentionFlipout": tokens(
        LAYERS.MultiHeadAttentionFlipout,
        kernel_regularizer="empirical_bayes_kl",
    ),
    "MultiHeadAttentionLocalReparameterization": tokens(
        LAYERS.MultiHeadAttentionLocalReparameterization,
        use_gate=True,
        value_dim=2,
    ),
    "MultiHeadAttentionReparameterization": tokens(
        LAYERS.MultiHeadAttentionReparameterization, kernel_posterior="low_rank"
    ),
}
# Bases of these, which are not called themselves.
ABSTRACT = {"RecurrentLayer", "SampledLayer", "VariationalLayer"}


def bayesian():
    network = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(3, 3, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )
    return tfr.models.to_bayesian(network, num_train_examples=10)


def dropout():
    inputs = keras.Input((8, 8, 1))
    hidden = keras.layers.Dense(3)(keras.layers.Flatten()(inputs))
    return tfr.models.to_mc_dropout(
        keras.Model(inputs, keras.layers.Dense(2)(hidden)), 0.2, **OPTIONS
    )


IMAGES = ((8, 8, 1), "float32")
LARGE = ((16, 16, 1), "float32")
MODEL_CASES = {
    "LeNet5": (lambda: tfr.models.LeNet5((16, 16, 1), 3, **OPTIONS), LARGE),
    "LeNet5MNF": (
        lambda: tfr.models.LeNet5MNF((16, 16, 1), 3, **OPTIONS),
        LARGE,
    ),
    "MLP": (
        lambda: tfr.models.MLP((4,), noise_scale=1.0, **OPTIONS),
        ((4,), "float32"),
    ),
    "ResNet": (lambda: tfr.models.ResNet((8, 8, 1), 3, **OPTIONS), IMAGES),
    "ResNet20": (lambda: tfr.models.ResNet20((8, 8, 1), 3, **OPTIONS), IMAGES),
    "to_bayesian": (bayesian, IMAGES),
    "to_deterministic": (
        lambda: tfr.models.to_deterministic(bayesian()),
        IMAGES,
    ),
    "to_gaussian": (
        lambda: tfr.models.to_gaussian(bayesian()).model,
        IMAGES,
    ),
    "to_mc_dropout": (dropout, IMAGES),
}
# Their files are tested with all else of them, in tests/models/test_zoo.py.
NETWORKS_OF_PAPERS = {
    "AlexNet",
    "ResNet18",
    "ShuffleNet",
    "TextTransformer",
    "VisionTransformer",
    "WideResNet",
}
CASES = LAYER_CASES | MODEL_CASES


def test_no_layer_and_no_model_is_forgotten():
    kinds = {
        name
        for name in LAYERS.__all__
        if inspect.isclass(getattr(LAYERS, name))
        and issubclass(getattr(LAYERS, name), keras.layers.Layer)
    }
    assert kinds - ABSTRACT == set(LAYER_CASES)
    assert set(tfr.models.__all__) - NETWORKS_OF_PAPERS == set(MODEL_CASES)


def moved(name):
    """Makes a model whose weights are not the initial ones, and inputs."""
    make, (shape, dtype) = CASES[name]
    model, rng = make(), np.random.default_rng(0)
    for variable in model.weights:
        # Positive, as variances have to be.
        noise = rng.uniform(0.0, 0.02, variable.shape)
        variable.assign(variable + keras.ops.cast(noise, variable.dtype))
    x = rng.integers(0, 7, (3, *shape)) if dtype == "int32" else None
    if x is None:
        x = rng.normal(size=(3, *shape))
    return model, x.astype(dtype)


def at_means(model, x):
    with tfr.layers.mean_weights():
        return np.array(model(x, training=False))


def assert_equal(model, loaded, x):
    np.testing.assert_array_equal(at_means(loaded, x), at_means(model, x))


def cases(quick):
    """Parametrizes a test by all cases, of which only some are quick."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(
                name, marks=() if name in quick else pytest.mark.slow, id=name
            )
            for name in CASES
        ],
    )


# The deepest take long to write and read. Of convolutions and attention, which
# are written by the base of all estimators, those of one estimator are quick.
@pytest.mark.slow
@cases(
    quick=[
        name
        for name in CASES
        if "ResNet" not in name
        and not (
            ("Conv" in name or "Attention" in name)
            and name.endswith("Reparameterization")
        )
    ]
)
def test_files_have_the_same_outputs_to_the_last_bit(name, tmp_path):
    model, x = moved(name)
    assert np.all(np.isfinite(at_means(model, x)))
    model.save(tmp_path / "model.keras")
    assert_equal(model, keras.models.load_model(tmp_path / "model.keras"), x)

    model.save_weights(tmp_path / "model.weights.h5")
    fresh = CASES[name][0]()
    fresh.load_weights(tmp_path / "model.weights.h5")
    assert_equal(model, fresh, x)


@cases(
    quick=(
        "Conv1DTransposeFlipout",
        "HomoscedasticNoise",
        "LSTMReparameterization",
        "to_bayesian",
    )
)
def test_exports_have_the_same_outputs_to_the_last_bit(name, tmp_path):
    model, x = moved(name)
    with tfr.layers.mean_weights():
        model.export(tmp_path / "exported", verbose=False)
        # Eagerly, operations are not fused, which rounds differently.
        graph = tf.function(lambda x: model(x, training=False))
        expected = graph(tf.constant(x))
    served = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_array_equal(served.serve(x), expected)
    np.testing.assert_allclose(expected, at_means(model, x), rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "EmbeddingReparameterization",
        pytest.param("GRUReparameterization", marks=pytest.mark.slow),
    ],
)
def test_layers_that_draw_all_their_weights_are_refined_and_saved(
    name, tmp_path, rng
):
    make, (shape, dtype) = CASES[name]
    model = make()
    outputs = keras.layers.Flatten()(model.output)
    model = keras.Model(model.input, keras.layers.Dense(1)(outputs))
    x = rng.integers(0, 7, (10, *shape)).astype(dtype)
    y = rng.normal(size=(10, 1)).astype(np.float32)
    model.compile("adam", tfr.losses.GaussianNLL(1.0))
    ensemble = tfr.refine(
        model, x, y, num_members=2, steps=20, seed=1, verbose=0
    )
    # Most of 10 independent steps of two members raise the bound.
    assert np.mean(ensemble.history["kept"]) > 0.5
    ensemble.save(tmp_path / "ensemble")
    loaded = tfr.load_posterior(tmp_path / "ensemble")
    ensemble.export(tmp_path / "exported", seed=3)
    expected = ensemble.predict(x, seed=3)
    np.testing.assert_array_equal(loaded.predict(x, seed=3), expected)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_array_equal(served.serve(x), expected)
