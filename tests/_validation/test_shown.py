"""Objects are shown with their arguments."""

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import functional


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (
            lambda: tfr.regularizers.GaussianKL(0.5),
            "GaussianKL(prior_scale=0.5)",
        ),
        (tfr.regularizers.LogUniformKL, "LogUniformKL()"),
        (
            lambda: tfr.layers.LowRankPosterior(2),
            "LowRankPosterior(rank=2, initial_scale=0.001, seed=0)",
        ),
        (
            lambda: tfr.initializers.MOPED(np.float32(0.5)),
            "MOPED(delta=0.5, min_scale=0.0001)",
        ),
        (
            lambda: tfr.initializers.LSUV(seed=3),
            "LSUV(batch_size=256, tolerance=0.1, max_iterations=10, seed=3, "
            "verbose=True)",
        ),
        (lambda: tfr.losses.GaussianNLL(0.1), "GaussianNLL(scale=0.1)"),
        (
            lambda: tfr.losses.GaussianNLL(0.1, "mine", reduction=None),
            "GaussianNLL(scale=0.1, name='mine', reduction=None)",
        ),
        (
            lambda: tfr.metrics.MeanLoss(keras.losses.MeanSquaredError()),
            "MeanLoss(loss=MeanSquaredError(name='mean_squared_error', "
            "reduction='sum_over_batch_size'))",
        ),
        (
            lambda: tfr.metrics.ExpectedCalibrationError(5),
            "ExpectedCalibrationError(num_bins=5, from_logits=False)",
        ),
        (tfr.callbacks.ELBOLogger, "ELBOLogger(nll='nll')"),
        (
            lambda: tfr.callbacks.KLAnnealing(np.sqrt),
            "KLAnnealing(schedule=<ufunc 'sqrt'>, frequency='epoch')",
        ),
    ],
)
def test_the_arguments_are_those_of_the_call(make, expected):
    assert repr(make()) == expected


def test_an_optimizer_is_shown_with_its_settings():
    shown = repr(tfr.optimizers.Adam(0.25, clipnorm=2.0))
    assert shown.startswith("Adam(learning_rate=0.25, beta_1=0.9, ")
    assert "clipnorm=2.0, clipvalue=None" in shown


def test_a_layer_is_shown_with_what_is_not_the_default():
    layer = tfr.layers.Conv2DFlipout(
        4,
        3,
        activation="relu",
        kernel_regularizer=tfr.regularizers.EmpiricalBayesKL(),
        bias_posterior=None,
        num_train_examples=5,
        dtype="mixed_float16",
        name="mine",
    )
    shown = repr(layer)
    assert shown.startswith(
        "Conv2DFlipout(filters=4, kernel_size=(3, 3), activation='relu', "
        "kernel_regularizer=EmpiricalBayesKL("
    )
    assert shown.endswith(
        "bias_posterior=None, num_train_examples=5, name='mine', "
        "dtype=DTypePolicy(name='mixed_float16'))"
    )


def test_data_are_shown_by_their_shapes():
    x = np.zeros((7, 2), np.float32)
    shown = repr(tfr.RefinementCallback(x, x[:, :1], num_members=3, seed=1))
    assert shown.startswith(
        "RefinementCallback(x=<float32 [7, 2]>, y=<float32 [7, 1]>, "
        "sample_weight=None, class_weight=None, num_members=3, "
    )


def test_posteriors_are_shown_with_their_model_and_size():
    inputs = keras.Input((2,))
    model = keras.Model(
        inputs, keras.layers.Dense(3, name="last")(inputs), name="mine"
    )
    assert repr(tfr.laplace.LastLayerLaplace(model, "classification")) == (
        "LastLayerLaplace(model='mine', num_weights=9, "
        "layer='last: Dense, 2 features to 3 outputs', "
        "likelihood='classification', hessian='full', prior_precision=1.0, "
        "noise_scale=1.0, is_fitted=False)"
    )
    assert repr(tfr.posterior(model)) == (
        "VariationalPosterior(model='mine', sample=True)"
    )
    view = functional.WeightView(model)
    assert repr(
        tfr.posteriors.EnsemblePosterior(view, np.ones([5, 9]), [])
    ) == ("EnsemblePosterior(model='mine', num_weights=9, num_members=5)")
    assert repr(tfr.posteriors.SamplePosterior(view, np.ones([5, 9]), [])) == (
        "SamplePosterior(model='mine', num_weights=9, samples=<float64 [5, 9]>)"
    )


def test_weights_are_shown_with_their_prior():
    layer = tfr.layers.DenseFlipout(2)
    layer.build((None, 3))
    assert repr(layer.variational_weights) == (
        "[MeanFieldWeight(name='kernel', loc=<float32 [3, 2]>, "
        "prior=GaussianKL(prior_scale=1.0)), "
        "MeanFieldWeight(name='bias', loc=<float32 [2]>, "
        "prior=GaussianKL(prior_scale=1.0))]"
    )
