import keras
import numpy as np
import pytest
import tensorflow_probability as tfp

import tfp_refine as tfr
from tfp_refine import functional
from tfp_refine import posteriors

NUM = 40


def covariances(rng, size):
    """Returns one covariance of each kind."""
    kinds = posteriors.covariances
    scale = np.exp(rng.normal(size=size))

    def basis(size):
        return np.linalg.qr(rng.normal(size=(size, size)))[0]

    return [
        kinds.Diagonal(scale),
        kinds.Full(basis(size), scale),
        kinds.Kronecker(basis(2), basis(size // 2), scale),
        kinds.LowRank(scale, rng.normal(size=(3, size))),
    ]


def test_the_kl_divergence_is_that_of_tfp(rng):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    view = functional.WeightView(model)
    normal = tfp.distributions.MultivariateNormalFullCovariance
    loc = rng.normal(size=view.size)
    for covariance in covariances(rng, view.size):
        for prior in (0.7, np.exp(rng.normal(size=view.size))):
            posterior = posteriors.GaussianPosterior(
                view, loc, covariance, [], prior_scale=prior
            )
            variance = np.square(prior) * np.ones(view.size)
            expected = tfp.distributions.kl_divergence(
                normal(loc, covariance.matrix()),
                normal(np.zeros(view.size), np.diag(variance)),
            )
            np.testing.assert_allclose(
                posterior.kl_divergence(), expected, rtol=1e-9
            )


# Of an optimizer.


def trained(fit=True, **options):
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, "tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = tfr.optimizers.IVON(0.1, NUM, seed=1, **options)
    model.compile(optimizer, loss)
    if fit:
        model.fit(*data(), 10, 2, verbose=0)
    return model


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM, 3)).astype("float32")
    return x, rng.integers(0, 3, NUM)


def test_the_posterior_is_what_ivon_has_trained(tmp_path):
    model = trained(prior_scale=2.0)
    posterior = tfr.posterior(model)
    assert type(posterior) is posteriors.GaussianPosterior
    weights = np.concatenate([np.ravel(w) for w in model.trainable_weights])
    np.testing.assert_array_equal(posterior.loc, weights)
    scales = [model.optimizer.scale_of(w) for w in model.trainable_weights]
    np.testing.assert_allclose(
        posterior.scale, np.concatenate([np.ravel(s) for s in scales])
    )
    assert posterior.prior_scale == 2.0
    assert posterior.link.function == "softmax"
    x, y = data()
    draws = posterior.predict(x, 5, seed=1)
    np.testing.assert_array_equal(tfr.predict(model, x, 5, seed=1), draws)
    np.testing.assert_allclose(
        tfr.predict(model, x, 1, sample=False)[0], model(x), atol=1e-6
    )
    posterior.save(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(loaded.predict(x, 5, seed=1), draws)
    assert loaded.kl_divergence() == posterior.kl_divergence()
    model.fit(x, y, verbose=0)  # the posterior is a copy
    np.testing.assert_array_equal(posterior.predict(x, 5, seed=1), draws)
    assert not np.array_equal(tfr.posterior(model).loc, weights)


@pytest.mark.slow
def test_mixed_precision_has_the_posterior_of_the_optimizer_inside():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        posterior = tfr.posterior(trained())
    finally:
        keras.config.set_dtype_policy(before)
    assert posterior.prior_scale == 1.0
    assert posterior.loc.dtype == "float32"


def test_a_posterior_without_a_prior_has_no_divergence_from_it():
    posterior = tfr.posterior(trained(prior_scale=None))
    with pytest.raises(ValueError, match="prior_scale=None"):
        posterior.kl_divergence()
    with pytest.raises(ValueError, match="prior_scale=None"):
        tfr.elbo(posterior, *data())


def test_weights_that_ivon_has_not_trained_are_an_error():
    with pytest.raises(ValueError, match="dense.*kernel.*fit"):
        tfr.posterior(trained(fit=False))
    model = trained(fit=False)
    model.optimizer.build(model.trainable_weights)
    with pytest.raises(ValueError, match="dense.*kernel.*fit"):
        tfr.posterior(model)
    model = trained(fit=False)
    model.layers[0].trainable = False
    model.compile(model.optimizer, model.loss)
    model.fit(*data(), verbose=0)
    assert tfr.posterior(model).view.size == 8 + 15
    model.layers[0].trainable = True
    with pytest.raises(ValueError, match="not trained: .*kernel"):
        tfr.posterior(model)


@pytest.mark.filterwarnings("ignore:The model does not have any trainable")
def test_a_model_without_trainable_weights_has_no_posterior():
    """Keras warns, and never calls the optimizer."""
    model = trained(fit=False)
    model.trainable = False
    model.compile(model.optimizer, model.loss)
    model.fit(*data(), verbose=0)
    with pytest.raises(ValueError, match="no trainable weights"):
        tfr.posterior(model)
