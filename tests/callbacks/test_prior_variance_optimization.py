import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import tfp_refine as tfr
from tests.support import layer_case
from tfp_refine import callbacks
from tfp_refine import losses
from tfp_refine import regularizers

_N = 20


def fixed(**arguments):
    """Makes a prior that training leaves alone."""
    return regularizers.EmpiricalBayesKL(trainable=False, **arguments)


def model(prior=None, loss=None):
    prior = fixed() if prior is None else prior
    built = tfr.models.MLP(
        (2,),
        3,
        hidden=(4,),
        kernel_regularizer=prior,
        bias_regularizer=prior,
        num_train_examples=_N,
        seed=1,
    )
    for layer in built.layers[1:]:
        layer_case.spread(layer)
    built.compile(keras.optimizers.SGD(0.1), loss or losses.CategoricalNLL())
    return built


def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(_N, 2)).astype("float32"), np.arange(_N) % 3


def fit(built, found, **options):
    options = {"epochs": 4, "batch_size": 5, "verbose": 0} | options
    return built.fit(*data(), callbacks=found, **options)


def weights(built):
    return [w for v in built.layers[1:] for w in v.variational_weights]


def total_kl(built):
    return sum(float(weight.kl()) for weight in weights(built))


def prior_scales(built):
    return np.array([float(weight.prior.scale) for weight in weights(built)])


def drive(found, built, *, begin=0, epochs=1, batches=(0, 1, 2, 3)):
    """Calls a callback as `fit` does, with noise for each step of training.

    Returns the numbers of the epochs and of the steps at whose ends the priors
    were set, or 0 for the start.
    """
    rng = np.random.default_rng(begin)
    counts = {"epoch": [], "batch": []}
    step = 0

    def call(name, kind, count, *arguments):
        before = prior_scales(built)
        getattr(found, name)(*arguments)
        if not np.array_equal(before, prior_scales(built)):
            counts[kind].append(count)

    found.set_model(built)
    call("on_train_begin", "batch", 0)
    for epoch in range(begin, epochs):
        call("on_epoch_begin", "epoch", epoch, epoch)
        for batch in batches:
            for weight in weights(built):
                weight.loc.assign_add(rng.normal(size=weight.loc.shape))
            call("on_train_batch_end", "batch", step + batch + 1, batch)
        step += batches[-1] + 1
        call("on_epoch_end", "epoch", epoch + 1, epoch)
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("learn_mean", [False, True])
@pytest.mark.parametrize("inverse_gamma", [None, (2.01, 0.101)])
def test_the_prior_is_the_one_with_the_least_divergence(
    learn_mean, inverse_gamma
):
    prior = fixed(learn_mean=learn_mean, inverse_gamma=inverse_gamma)
    keras.config.set_dtype_policy("float64")
    try:
        built = model(prior)
    finally:
        keras.config.set_dtype_policy("float32")
    before = total_kl(built)
    at_once = callbacks.PriorVarianceOptimization(1, 0, "batch")
    assert drive(at_once, built, epochs=0)["batch"] == [0]
    for weight in weights(built):
        loc, scale = np.asarray(weight.loc), np.asarray(weight.scale)
        assert loc.dtype == scale.dtype == np.float64

        def cost(values, loc=loc, scale=scale):
            mean = values[1] if learn_mean else 0.0
            ratio = scale**2 / np.exp(values[0])
            squares = ratio + (loc - mean) ** 2 / np.exp(values[0])
            kl = 0.5 * np.sum(squares - 1.0 - np.log(ratio))
            if inverse_gamma is None:
                return kl
            shape, rate = inverse_gamma
            variance = scipy.stats.invgamma(shape, scale=rate)
            return kl - variance.logpdf(np.exp(values[0]))

        start = [0.0, 0.0] if learn_mean else [0.0]
        best = scipy.optimize.minimize(cost, start, tol=1e-12)
        np.testing.assert_allclose(
            2.0 * np.log(weight.prior.scale), best.x[0], atol=1e-5
        )
        if learn_mean:
            np.testing.assert_allclose(weight.prior.loc, best.x[1], atol=1e-5)
        np.testing.assert_allclose(weight.kl(), best.fun, rtol=1e-9)
        if not learn_mean and inverse_gamma is None:
            np.testing.assert_allclose(
                weight.prior.scale**2, np.mean(loc**2 + scale**2), rtol=1e-12
            )
    assert total_kl(built) < before


@pytest.mark.slow
def test_divergences_fall_and_the_bound_rises_at_each_update():
    class Recorder(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.found = []

        def on_epoch_end(self, epoch, logs=None):
            bound = tfr.elbo(self.model, *data(), num_samples=2, seed=3)
            self.found.append((total_kl(self.model), bound))

    before, after = Recorder(), Recorder()
    fit(model(), [before, callbacks.PriorVarianceOptimization(), after])
    assert len(before.found) == 4
    for (kl, bound), (new_kl, new_bound) in zip(
        before.found, after.found, strict=True
    ):
        assert new_kl < kl
        np.testing.assert_allclose(new_bound - bound, kl - new_kl, rtol=1e-3)
    assert before.found[0][0] - after.found[0][0] > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [1, 2, 3, 4, 5]),
        ({"every": 2}, [1, 3, 5]),
        ({"every": 2, "warmup": 2}, [2, 4]),
        ({"every": 2, "warmup": 0}, [0, 2, 4]),
        ({"warmup": 6}, []),
    ],
)
def test_priors_change_every_few_epochs_after_a_warm_up(arguments, expected):
    found = callbacks.PriorVarianceOptimization(**arguments)
    counts = drive(found, model(), epochs=5)
    assert counts == {"epoch": expected, "batch": []}
    # Again, by the same callback.
    assert drive(found, model(), epochs=5)["epoch"] == expected


@pytest.mark.parametrize(
    ("arguments", "batches", "expected"),
    [
        ({"every": 3, "warmup": 2}, (0, 1, 2, 3), [2, 5, 8]),
        ({"every": 3, "warmup": 0}, (0, 1, 2, 3), [0, 3, 6]),
        # Two steps in an execution.
        ({"every": 3, "warmup": 2}, (1, 3), [2, 6, 8]),
    ],
)
def test_priors_change_every_few_steps(arguments, batches, expected):
    found = callbacks.PriorVarianceOptimization(frequency="batch", **arguments)
    counts = drive(found, model(), epochs=2, batches=batches)
    assert counts == {"epoch": [], "batch": expected}


def test_a_second_fit_goes_on_with_the_number_of_the_epoch():
    built = model()
    found = callbacks.PriorVarianceOptimization(every=2)
    assert drive(found, built, epochs=2)["epoch"] == [1]
    counts = drive(found, built, begin=2, epochs=6)
    assert counts["epoch"] == [3, 5]


@pytest.mark.slow
def test_an_update_needs_no_new_trace_and_is_saved(tmp_path):
    traces = []

    def loss(y, outputs):
        traces.append(1)
        return losses.CategoricalNLL()(y, outputs)

    plain, optimized = model(loss=loss), model(loss=loss)
    start = prior_scales(plain)
    fit(plain, [])
    np.testing.assert_array_equal(prior_scales(plain), start)
    assert not any("prior" in v.path for v in plain.trainable_variables)
    expected, traces[:] = len(traces), []
    fit(optimized, [callbacks.PriorVarianceOptimization()])
    assert len(traces) == expected
    # And the steps have the new prior, not a constant.
    for one, other in zip(weights(plain), weights(optimized), strict=True):
        assert not np.array_equal(one.loc, other.loc)
    path = tmp_path / "model.keras"
    optimized.save(path)
    loaded = keras.saving.load_model(path, compile=False)
    np.testing.assert_array_equal(prior_scales(loaded), prior_scales(optimized))
    assert not np.isclose(prior_scales(loaded), start).any()


def test_a_trained_prior_goes_on_from_the_best_one():
    built = model(regularizers.EmpiricalBayesKL())
    drive(callbacks.PriorVarianceOptimization(), built)
    for weight in weights(built):
        np.testing.assert_allclose(
            weight.prior.scale**2,
            np.mean(weight.loc**2 + weight.scale**2),
            rtol=1e-5,
        )


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("gaussian_kl", "GaussianKL has no prior scale.*weight 'hidden_0/"),
        ("collapsed_mean_kl", "CollapsedMeanKL has no prior scale to set"),
        (
            regularizers.EmpiricalBayesKL(closed_form=True),
            "`closed_form=True` has no prior scale",
        ),
    ],
)
def test_priors_without_a_scale_are_refused(prior, message):
    with pytest.raises(ValueError, match=message):
        drive(callbacks.PriorVarianceOptimization(), model(prior))


def test_models_without_gaussian_posteriors_are_refused():
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    with pytest.raises(ValueError, match="no weights with a prior"):
        drive(callbacks.PriorVarianceOptimization(), plain)
    layer = tfr.layers.DenseMNF(
        3, kernel_regularizer=fixed(), num_train_examples=_N
    )
    flows = keras.Sequential([keras.Input((2,)), layer])
    with pytest.raises(ValueError, match="Gaussian posteriors.*kernel"):
        drive(callbacks.PriorVarianceOptimization(), flows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"every": 0}, "`every` must be a positive integer.*0"),
        ({"warmup": -1}, "`warmup` must be an integer, not negative.*-1"),
        ({"frequency": "step"}, "`frequency` must be one of.*'step'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        callbacks.PriorVarianceOptimization(**arguments)


def test_a_prior_without_variables_cannot_be_fixed():
    with pytest.raises(ValueError, match="`trainable=False` is for a prior"):
        fixed(closed_form=True)
