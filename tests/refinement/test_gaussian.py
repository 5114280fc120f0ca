"""Refinement of Gaussian posteriors of models of any layers."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine.posteriors import covariances

CASE = linear_gaussian.LinearGaussian()


def plain():
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, use_bias=False)]
    )
    model.compile(loss=tfr.losses.GaussianNLL(CASE.noise_scale))
    return model


def gaussian(model=None, covariance=covariances.Diagonal, **arguments):
    """Returns the best mean-field posterior of a linear regression."""
    loc, scale = (np.ravel(v).astype("float32") for v in CASE.mean_field())
    if covariance is covariances.Diagonal:
        covariance = covariance(scale)
    arguments = {"prior_scale": CASE.prior_scale, **arguments}
    return tfr.posteriors.GaussianPosterior(
        functional.WeightView(model or plain()),
        loc,
        covariance,
        [],
        **arguments,
    )


def refine(posterior, **arguments):
    return tfr.refine(
        posterior,
        CASE.x,
        CASE.y,
        **{"seed": 1, "verbose": 0, "learning_rate": 0.01, **arguments},
    )


def assert_bound_rises(ensemble, loc, scale):
    """Checks the bounds of 60 members from a Gaussian against exact ones."""
    exact = CASE.elbo(loc, scale)
    before, after = ensemble.elbo_init, ensemble.elbo_final
    # Four standard errors: a false alarm in 16000 runs.
    error = 4.0 * np.std(before) / np.sqrt(60)
    assert abs(before.mean() - exact) < error
    error = 4.0 * np.std(after) / np.sqrt(60)
    gap = CASE.log_evidence() - exact
    assert exact + 0.3 * gap < after.mean() < CASE.log_evidence() + error


def log_ratios(ensemble, scale, x):
    """Returns logarithms of predictive variances over the exact ones.

    Of the ensemble, and of a Gaussian with the scale.
    """
    draws = ensemble.predict(x, num_samples=6000, seed=2)[..., 0]
    exact = np.einsum("bi,ij,bj->b", x, np.linalg.inv(CASE.precision), x)
    mean_field = np.square(x) @ np.square(scale)[:, 0]
    return np.log(draws.var(axis=0) / exact), np.log(mean_field / exact)


@pytest.mark.slow
def test_bound_and_variances_come_nearer_to_the_exact_ones():
    ensemble = refine(gaussian(), num_members=60, num_eval_samples=100)
    assert_bound_rises(ensemble, *CASE.mean_field())
    x = np.array([[1.0, -1.0], [1.0, 1.0], [1.0, 0.0]], np.float32)
    refined, mean_field = log_ratios(ensemble, CASE.mean_field()[1], x)
    assert np.all(np.abs(refined) < np.abs(mean_field))


@pytest.mark.slow
def test_from_ivon_variances_come_nearer_where_the_mean_field_is_wrong():
    """Somewhere between its largest errors, of both signs, it is right.

    There the mixture is not nearer: it is a little too narrow everywhere.
    """
    steps = 1000
    model = plain()
    rate = keras.optimizers.schedules.CosineDecay(0.05, steps)
    optimizer = tfr.optimizers.IVON(
        rate, len(CASE.x), CASE.prior_scale, 1.0, beta_2=0.995, seed=1
    )
    model.compile(optimizer, model.loss, steps_per_execution=100)
    data = tf.data.Dataset.from_tensors((CASE.x, CASE.y)).repeat()
    model.fit(data, steps_per_epoch=steps, shuffle=False, verbose=0)
    loc, scale = (
        getattr(tfr.posterior(model), part)[:, np.newaxis]
        for part in ("loc", "scale")
    )
    ensemble = refine(model, num_members=60, num_eval_samples=100)
    assert_bound_rises(ensemble, loc, scale)
    directions = [[1.0, -1.0], [1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]
    x = np.concatenate([np.float32(directions), CASE.x])
    refined, mean_field = log_ratios(ensemble, scale, x)
    is_wrong = np.abs(mean_field) > 0.5  # by a factor of 1.6
    assert np.min(mean_field) < -0.5
    assert np.max(mean_field) > 0.5
    assert np.all(np.abs(refined[is_wrong]) < np.abs(mean_field[is_wrong]))
    assert np.all(refined < 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("mapping", ["map", "vmap"])
def test_members_are_those_of_layers_that_draw_once(mapping):
    """In another stream of draws: bounds agree within their noise."""
    layer = tfr.layers.DenseReparameterization
    found, expected = (
        refine(start, num_members=20, num_eval_samples=50, mapping=mapping)
        for start in (gaussian(), CASE.model(layer))
    )
    difference = found.elbo_final.mean() - expected.elbo_final.mean()
    error = np.hypot(
        *(np.std(one.elbo_final) / np.sqrt(20) for one in (found, expected))
    )
    assert abs(difference) < 4.0 * error  # a false alarm in 16000 runs


@pytest.mark.slow
def test_draws_are_of_means_and_scales_in_each_call():
    view = functional.GaussianView(functional.WeightView(plain()))
    params = tf.constant([[1.0, -2.0], [0.5, -1.0]])
    x = tf.eye(2)
    call = tf.function(lambda index: view.call(x, params, [], 3, index)[:, 0])
    numbers = tf.range(1000, dtype=tf.int64)
    draws = np.stack([call(number) for number in numbers])
    scale = np.logaddexp(0.0, params[1])
    # Five standard errors of means and of variances.
    tolerance = 5.0 * scale / np.sqrt(1000)
    assert np.all(np.abs(draws.mean(axis=0) - params[0]) < tolerance)
    ratio = draws.var(axis=0) / scale**2
    assert np.all(np.abs(ratio - 1.0) < 5.0 * np.sqrt(2.0 / 1000))
    again = view.call(x, params, [], 3, 7)[:, 0]
    np.testing.assert_array_equal(again, draws[7])


def trained(epochs=20, callbacks=()):
    model = plain()
    optimizer = tfr.optimizers.IVON(
        0.1, len(CASE.x), CASE.prior_scale, beta_2=0.99, seed=1
    )
    model.compile(optimizer, model.loss)
    model.fit(
        CASE.x, CASE.y, batch_size=20, epochs=epochs, verbose=0,
        callbacks=[*callbacks],
    )  # fmt: skip
    return model


@pytest.mark.slow
def test_a_model_that_ivon_trained_is_refined_as_its_posterior():
    callback = tfr.RefinementCallback(
        CASE.x, CASE.y, num_members=2, steps=10, seed=1, verbose=0
    )
    model = trained(callbacks=[callback])
    options = {"num_members": 2, "steps": 10, "learning_rate": 1e-2}
    for start in (model, tfr.posterior(model)):
        ensemble = refine(start, **options)
        np.testing.assert_array_equal(ensemble.params, callback.ensemble.params)


@pytest.mark.parametrize(
    "wrap", [pytest.param(False, marks=pytest.mark.slow), True]
)
def test_the_callback_waits_for_the_first_step_of_ivon(wrap):
    model = plain()
    optimizer = tfr.optimizers.IVON(0.1, len(CASE.x), seed=1)
    if wrap:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    model.compile(optimizer, model.loss, run_eagerly=True)
    callback = tfr.RefinementCallback(
        CASE.x, CASE.y, num_members=2, steps=1, seed=1, verbose=0
    )
    # Without a graph, the first batch makes no step.
    model.fit(CASE.x, CASE.y, 10, verbose=0, callbacks=[callback])
    assert callback.ensemble.num_members == 2
    again = plain()
    again.compile(tfr.optimizers.IVON(0.1, len(CASE.x)), model.loss)
    again.optimizer.build(again.trainable_variables)
    again.fit(CASE.x, CASE.y, verbose=0, callbacks=[callback])


def test_posteriors_of_another_number_of_examples_are_refused(tmp_path):
    model = trained(epochs=1)
    posterior = tfr.posterior(model)
    posterior.save(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior")
    batches = tf.data.Dataset.from_tensor_slices((CASE.x[:15], CASE.y[:15]))
    message = "num_train_examples=20.*15 examples.*Received: Gauss"
    for start in (model, posterior, loaded, [posterior, loaded]):
        with pytest.raises(ValueError, match=message):
            tfr.refine(start, batches.batch(5))
    for start in (model, posterior, loaded):
        with pytest.raises(ValueError, match=message):
            tfr.elbo(start, CASE.x[:15], CASE.y[:15])
        tfr.elbo(start, CASE.x, CASE.y, sample_weight=np.full(20, 0.5))


@pytest.mark.slow
def test_the_posterior_counts_not_what_its_model_became():
    model = plain()
    posterior = gaussian(model)
    expected = refine(posterior, num_members=2, steps=5).params
    model.set_weights([np.full((2, 1), 7.0)])
    found = refine(posterior, num_members=2, steps=5)
    np.testing.assert_array_equal(found.params, expected)
    member = found.member(1)
    np.testing.assert_array_equal(
        np.ravel(member.get_weights()[0]), found.loc[1]
    )


@pytest.mark.slow
def test_laplace_of_all_layers_is_a_start():
    laplace = tfr.laplace.DiagonalLaplace(
        plain(), "regression", noise_scale=CASE.noise_scale
    ).fit(CASE.x, CASE.y, verbose=0)
    ensemble = refine(laplace, num_members=20, num_eval_samples=100)
    before = ensemble.elbo_init
    expected = CASE.elbo(
        laplace.loc[:, np.newaxis], laplace.scale[:, np.newaxis]
    )
    # Four standard errors: a false alarm in 16000 runs.
    error = 4.0 * np.std(before) / np.sqrt(20)
    assert abs(before.mean() - expected) < error
    assert ensemble.elbo_final.mean() > before.mean()


@pytest.mark.slow
def test_swag_is_a_start_once_it_has_a_prior():
    model = plain()
    model.compile("sgd", model.loss)
    swag = tfr.ensembles.swag(
        model, CASE.x, CASE.y, num_snapshots=3, steps_per_snapshot=2, rank=2,
        seed=1, verbose=0,
    )  # fmt: skip
    with pytest.raises(ValueError, match="set its `prior_scale`"):
        refine(swag)
    swag.prior_scale = CASE.prior_scale
    correlated = refine(swag, num_members=4, steps=50)
    assert correlated.view.num_factors == 1
    swag.covariance = covariances.Diagonal(swag.scale)
    diagonal = refine(swag, num_members=4, steps=50)
    assert diagonal.view.num_factors == 0
    for ensemble in (correlated, diagonal):
        assert ensemble.elbo_final.mean() > ensemble.elbo_init.mean()


def of_some_weights():
    """Returns a posterior of a model that trains fewer weights by now."""
    layers = [keras.layers.Dense(n, use_bias=False) for n in (2, 1)]
    model = keras.Sequential([keras.Input((2,)), *layers])
    posterior = gaussian(model)
    layers[0].trainable = False
    return posterior


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gaussian(prior_scale=None), "needs the prior of the weights"),
        (of_some_weights, "all weights that the model trains.*6 weights"),
        (plain, "no variational layers"),
        (lambda: "model", "keras.Model with variational layers.*Received: str"),
        (
            lambda: tfr.posterior(CASE.model(), sample=False),
            "sample=False does not draw.*Received: VariationalPosterior",
        ),
    ],
)
def test_other_starts_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        refine(make())
