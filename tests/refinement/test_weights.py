"""Examples that count more or less than once."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine import refinement

CLASS_WEIGHT = {0: 2.0, 2: 0.5}


@pytest.fixture
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def narrow(rng, loss, num_outputs=3, scale=1e-9):
    """Returns a model whose draws are all the same, and its outputs."""
    layer = layers.DenseReparameterization(
        num_outputs, bias_posterior=None, bias_regularizer=None, seed=1
    )
    model = keras.Sequential([keras.Input((2,)), layer])
    kernel = rng.normal(size=(2, num_outputs))
    (weight,) = layer.variational_weights
    weight.assign(kernel, np.full_like(kernel, scale))
    model.compile("sgd", loss)
    scale = np.asarray(weight.scale)
    kl = np.sum(0.5 * (scale**2 + kernel**2 - 1.0) - np.log(scale))
    return model, kernel, kl


def classes(rng, count=30):
    return rng.normal(size=(count, 2)), np.arange(count) % 3


@pytest.mark.slow
@pytest.mark.usefixtures("_double")
def test_the_bound_is_the_weighted_sum(rng):
    x, y = classes(rng)
    model, kernel, kl = narrow(rng, losses.CategoricalNLL())
    logits = x @ kernel
    log_probs = logits[np.arange(30), y] - scipy.special.logsumexp(logits, 1)
    weight = rng.uniform(size=30)
    weight[:3] = 0.0
    for given, weights in (
        ({"sample_weight": weight}, weight),
        ({"class_weight": CLASS_WEIGHT}, np.array([2.0, 1.0, 0.5])[y]),
    ):
        np.testing.assert_allclose(
            refinement.elbo(model, x, y, **given, num_samples=2),
            np.sum(weights * log_probs) - kl,
            rtol=1e-7,
        )
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weight)).batch(7)
    assert refinement.elbo(model, dataset, seed=1) == refinement.elbo(
        model, x, y, sample_weight=weight, seed=1
    )


OPTIONS = {
    "num_members": 2,
    "variance_ratios": (0.5,),
    "steps": 20,
    "learning_rate": 0.01,
    "seed": 1,
    "verbose": 0,
}


def refine(model, *data, **options):
    return refinement.refine(model, *data, **(OPTIONS | options))


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize(
    "mapping", ["map", pytest.param("vmap", marks=pytest.mark.slow)]
)
def test_whole_weights_are_repeated_examples(mapping, rng):
    x, y = classes(rng, 8)
    weight = rng.integers(0, 4, 8)
    repeated = np.repeat(np.arange(8), weight)
    model, *_ = narrow(rng, losses.CategoricalNLL(), scale=0.3)
    again = x[repeated], y[repeated]
    np.testing.assert_allclose(
        refinement.elbo(model, x, y, sample_weight=weight, seed=2),
        refinement.elbo(model, *again, seed=2),
        rtol=1e-12,
    )
    # All examples in each step: the same draws, and gradients but for a factor.
    weighted, plain = (
        refine(model, *data, mapping=mapping, **given)
        for data, given in (((x, y), {"sample_weight": weight}), (again, {}))
    )
    for name, rtol in (("elbo_init", 1e-12), ("elbo_final", 1e-5)):
        np.testing.assert_allclose(
            weighted.history[name], plain.history[name], rtol=rtol
        )
    np.testing.assert_allclose(weighted.params, plain.params, atol=1e-4)
    assert np.all(weighted.elbo_final != refine(model, x, y).elbo_final)


@pytest.mark.slow
def test_weights_of_one_change_nothing_bit_for_bit(rng):
    x, y = classes(rng)
    model, *_ = narrow(rng, losses.CategoricalNLL(), scale=0.3)
    ones, plain = (
        refine(model, x, y, batch_size=8, **given)
        for given in ({"sample_weight": np.ones(30)}, {})
    )
    np.testing.assert_array_equal(ones.params, plain.params)
    for name, values in plain.history.items():
        np.testing.assert_array_equal(ones.history[name], values)


@pytest.mark.slow
def test_the_callback_refines_with_the_weights_that_it_got(rng):
    x, y = classes(rng)
    model, *_ = narrow(rng, losses.CategoricalNLL(), scale=0.3)
    layers.set_num_train_examples(model, 30)
    callback = refinement.RefinementCallback(
        x, y, class_weight=CLASS_WEIGHT, **OPTIONS
    )
    assert "class_weight={0: 2.0, 2: 0.5}" in repr(callback)
    model.compile(keras.optimizers.SGD(0.0), losses.CategoricalNLL())
    model.fit(x, y, class_weight=CLASS_WEIGHT, callbacks=[callback], verbose=0)
    expected = refine(model, x, y, sample_weight=np.array([2.0, 1.0, 0.5])[y])
    np.testing.assert_array_equal(callback.ensemble.params, expected.params)


@pytest.mark.slow
def test_a_checkpoint_is_of_its_weights(rng, tmp_path):
    x, y = classes(rng)
    model, *_ = narrow(rng, losses.CategoricalNLL(), scale=0.3)
    given = {"checkpoint_dir": tmp_path, "sample_weight": np.arange(30)}
    first = refine(model, x, y, **given)
    np.testing.assert_array_equal(
        refine(model, x, y, **given).params, first.params
    )
    with pytest.raises(ValueError, match="sample_weight: .* nothing now"):
        refine(model, x, y, checkpoint_dir=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sample_weight": np.ones(29)}, r"\[29\] in sample_weight"),
        ({"sample_weight": -np.ones(30)}, "none is negative"),
        ({"class_weight": {0: -1.0}}, "-1.0 for class 0"),
        (
            {"sample_weight": np.ones(30), "class_weight": {0: 1.0}},
            "`sample_weight` or `class_weight`, not both",
        ),
    ],
)
def test_bad_weights_are_refused_before_training(rng, given, message):
    x, y = classes(rng)
    model, *_ = narrow(rng, losses.CategoricalNLL())
    layers.set_num_train_examples(model, 30)
    for function in (refinement.elbo, refinement.refine):
        with pytest.raises(ValueError, match=message):
            function(model, x, y, **given)
    callback = refinement.RefinementCallback(x, y, **given)
    with pytest.raises(ValueError, match=message):
        model.fit(x, y, callbacks=[callback], verbose=0)


@pytest.mark.slow
@pytest.mark.usefixtures("_double")
def test_the_bound_of_a_gaussian_is_weighted_too(rng):
    x, y = classes(rng)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile("sgd", losses.CategoricalNLL())
    view = functional.WeightView(model)
    posterior = posteriors.GaussianPosterior(
        view,
        np.asarray(view.params()),
        posteriors.covariances.Diagonal(np.full(9, 0.3)),
        view.fixed(),
        prior_scale=1.0,
    )
    weight = rng.integers(0, 4, 30)
    rows = np.repeat(np.arange(30), weight)
    bounds = [
        refinement.elbo(posterior, *data, seed=1, **given)
        for data, given in (
            ((x, y), {"sample_weight": weight}),
            ((x[rows], y[rows]), {}),
            ((x, y), {"class_weight": CLASS_WEIGHT}),
            ((x, y), {"sample_weight": np.array([2.0, 1.0, 0.5])[y]}),
            ((x, y), {}),
        )
    ]
    np.testing.assert_allclose(bounds[0], bounds[1], rtol=1e-12)
    assert bounds[2] == bounds[3] != bounds[4] != bounds[0]


def weighing(rng, *, fit=None, callback=None, **compiled):
    """Fits a model whose callback may have other weights than `fit`."""
    x, y = classes(rng)
    model, *_ = narrow(rng, losses.CategoricalNLL(), scale=0.3)
    layers.set_num_train_examples(model, 30)
    model.compile("sgd", losses.CategoricalNLL(), **compiled)
    # Which has been traced, with weights or without them.
    model.fit(x, y, **(fit or {}), verbose=0)
    refine = refinement.RefinementCallback(x, y, **(callback or {}), **OPTIONS)
    return model, lambda: model.fit(
        x, y, **(fit or {}), callbacks=[refine], verbose=0
    )


@pytest.mark.parametrize(
    "given", [{"sample_weight": np.ones(30)}, {"class_weight": CLASS_WEIGHT}]
)
@pytest.mark.parametrize("eagerly", [False, True])
def test_weights_that_only_fit_has_are_an_error(eagerly, given, rng):
    model, fit = weighing(rng, fit=given, run_eagerly=eagerly)
    with pytest.raises(ValueError, match="`fit` weighs examples, but"):
        fit()
    assert "compute_loss" not in vars(model)


@pytest.mark.slow
def test_weights_that_only_the_callback_has_are_a_warning(rng):
    model, fit = weighing(rng, callback={"class_weight": CLASS_WEIGHT})
    with pytest.warns(UserWarning, match="RefinementCallback weighs examples"):
        fit()
    assert "compute_loss" not in vars(model)


@pytest.mark.slow
def test_a_model_keeps_its_own_loss_after_a_step_that_failed(rng):
    x, y = classes(rng)
    model, fit = weighing(rng)
    callback = refinement.RefinementCallback(x, y, **OPTIONS)
    with pytest.raises(ValueError, match="incompatible|expected"):
        model.fit(x[:, :1], y, callbacks=[callback], verbose=0)
    fit()
    assert "compute_loss" not in vars(model)
    calls = []

    def compute_loss(x, y, y_pred, sample_weight, training=True):
        calls.append(sample_weight)
        return model.loss(y, y_pred) + sum(model.losses)

    model.compute_loss = compute_loss
    fit()
    assert calls == [None]
    assert model.compute_loss is compute_loss
