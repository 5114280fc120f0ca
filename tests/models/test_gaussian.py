import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import linear_gaussian
from tfp_refine import posteriors

NUM = 40


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(NUM, 6, 3)).astype("float32"), rng.integers(
        0, 3, NUM
    )


@pytest.fixture(scope="module")
def trained():
    """A model of several kinds of layers, trained with IVON."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((6, 3)),
            keras.layers.Conv1D(4, 2, activation="tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.GRU(3),
            keras.layers.Dense(3),
        ]
    )
    model.compile(
        tfr.optimizers.IVON(0.1, NUM, prior_scale=2.0, seed=1),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(*data(), 10, 2, verbose=0)
    return model


def convert(model, posterior, **options):
    return tfr.models.to_bayesian(
        model, num_train_examples=NUM, posterior=posterior, **options
    )


@pytest.mark.slow
def test_a_posterior_becomes_that_of_variational_layers(trained):
    posterior = tfr.posterior(trained)
    # The posterior counts, not the weights that the model has now.
    model = keras.models.clone_model(trained)
    bayesian = convert(model, posterior)
    for layer, before in zip(bayesian.layers, trained.layers, strict=True):
        for weight in getattr(layer, "variational_weights", ()):
            variable = getattr(getattr(before, "cell", before), weight.name)
            np.testing.assert_array_equal(weight.loc, variable)
            np.testing.assert_allclose(
                weight.scale, trained.optimizer.scale_of(variable), rtol=1e-5
            )
            assert float(np.max(weight.prior.scale)) == 2.0
    normalization = bayesian.layers[1]
    for one, other in zip(
        normalization.weights, trained.layers[1].weights, strict=True
    ):
        np.testing.assert_array_equal(one, other)
    x, _ = data()
    with tfr.layers.mean_weights():
        np.testing.assert_allclose(bayesian(x), trained(x), atol=1e-5)


def test_it_comes_back_as_a_posterior_of_a_plain_model(trained):
    posterior = tfr.posterior(trained)
    bayesian = convert(trained, posterior)
    bayesian.compile(loss=trained.loss)
    back = tfr.models.to_gaussian(bayesian)
    assert type(back) is posteriors.GaussianPosterior
    # Normalization has no posterior any longer.
    begin = posterior.view.size - back.view.size
    assert begin == 8
    kernel = 4 * 2 * 3 + 4
    keep = np.r_[:kernel, kernel + begin : posterior.view.size]
    np.testing.assert_allclose(back.loc, posterior.loc[keep], rtol=1e-6)
    np.testing.assert_allclose(back.scale, posterior.scale[keep], rtol=1e-5)
    np.testing.assert_array_equal(back.prior_scale, 2.0)
    x, y = data()
    np.testing.assert_allclose(back.model(x), trained(x), atol=1e-5)
    assert back.predict_proba(x, 5, seed=1).shape == (NUM, 3)
    assert np.isfinite(tfr.elbo(back, x, y, seed=1))


def test_the_bound_is_that_of_the_layers():
    problem = linear_gaussian.LinearGaussian(prior_scale=1.5)
    posterior = tfr.models.to_gaussian(problem.model())
    estimate = tfr.elbo(
        posterior, problem.x, problem.y, num_samples=1000, seed=1
    )
    assert abs(estimate - problem.elbo(*problem.mean_field())) < 0.2


def test_posteriors_that_layers_cannot_have_are_refused(trained):
    posterior = tfr.posterior(trained)
    other = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="posterior of .*for the model"):
        convert(other, posterior)
    trained.layers[0].trainable = False
    try:
        with pytest.raises(ValueError, match="frozen"):
            convert(trained, posterior)
    finally:
        trained.layers[0].trainable = True
    correlated = posteriors.GaussianPosterior(
        posterior.view,
        posterior.loc,
        posteriors.covariances.LowRank(
            posterior.scale, np.ones((1, posterior.view.size))
        ),
        posterior.fixed,
    )
    with pytest.raises(ValueError, match="independent.*LowRank"):
        convert(trained, correlated)
    several = posteriors.GaussianPosterior(
        posterior.view,
        posterior.loc,
        posterior.covariance,
        posterior.fixed,
        prior_scale=np.linspace(1.0, 2.0, posterior.view.size),
    )
    with pytest.raises(ValueError, match="`regularizer`.*1 to 2"):
        convert(trained, several)
    convert(trained, several, regularizer="empirical_bayes_kl")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_posterior": "low_rank"}, "'low_rank'"),
        ({"kernel_regularizer": "scale_mixture_kl"}, "prior"),
        ({"bias_posterior": None}, "dense.*some of each"),
    ],
)
def test_layers_that_are_no_independent_gaussians_are_refused(options, message):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            tfr.layers.DenseReparameterization(
                2, num_train_examples=NUM, name="dense", **options
            ),
        ]
    )
    with pytest.raises(ValueError, match=message):
        tfr.models.to_gaussian(model)
