import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

import tfp_refine as tfr
from tests.support import exact_laplace
from tests.support import trained_models
from tfp_refine import functional
from tfp_refine import sampling

NOISE, PRIOR = 0.5, 0.8


@pytest.fixture(scope="module")
def regression():
    """A posterior that is Gaussian, so that Laplace's one is exact."""
    model, x, y = trained_models.ridge_regression(
        np.random.default_rng(0), NOISE, PRIOR
    )
    return exact_laplace.ExactLaplace(model, "regression", x, y, PRIOR, NOISE)


@pytest.fixture(scope="module")
def regression_samples(regression):
    return sampling.nuts_last_layer(
        regression, num_samples=1000, num_warmup=200, seed=0, verbose=0
    )


@pytest.fixture(scope="module")
def logistic_samples(logistic):
    return sample(logistic[0], num_samples=2000)


@pytest.fixture(scope="module")
def few_sampled(logistic):
    return sample_few(logistic[0])


@pytest.fixture(scope="module")
def few(few_sampled):
    return few_sampled.samples


@pytest.fixture(scope="module")
def logistic():
    model, x, y = trained_models.logistic_regression(
        np.random.default_rng(0), PRIOR, separation=0.7
    )
    laplace = exact_laplace.ExactLaplace(model, "classification", x, y, PRIOR)
    return laplace, x, y


def sample(laplace, **options):
    options = {
        "num_chains": 4,
        "num_warmup": 200,
        "num_samples": 1000,
        "seed": 0,
        "verbose": 0,
        **options,
    }
    return sampling.nuts_last_layer(laplace, **options)


def sample_few(laplace, **options):
    """Samples too few to be mixed, and says nothing of it."""
    # XLA takes longer to compile than so few take.
    options = {
        "num_warmup": 25,
        "num_samples": 25,
        "jit_compile": False,
        **options,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return sample(laplace, **options)


def limit(num_tests, fpr=1e-6):
    """Standard errors that a correct sampler passes with probability `fpr`.

    In any of so many tests. Student's t with 100 degrees of freedom takes the
    place of the normal: the numbers of effective samples are estimates.
    """
    return stats.t.isf(fpr / (2 * num_tests), df=100)


def assert_moment(values, expected):
    """Asserts that functions of samples, `[T, chains, K]`, have these means."""
    size = sampling.effective_sample_size(values)
    assert (size > 400).all()
    error = values.std(axis=(0, 1)) / np.sqrt(size)
    z = (values.mean(axis=(0, 1)) - expected) / error
    assert np.abs(z).max() < limit(len(size)), z


def test_mean_of_a_gaussian_posterior_is_exact(regression, regression_samples):
    assert_moment(regression_samples.samples, regression.loc)


def test_covariance_of_a_gaussian_posterior_is_exact(
    regression, regression_samples
):
    centered = regression_samples.samples - regression.loc
    products = np.einsum("tci,tcj->tcij", centered, centered)
    rows, columns = np.triu_indices(centered.shape[-1])
    assert_moment(
        products[:, :, rows, columns],
        regression.posterior_covariance[rows, columns],
    )


def test_a_gaussian_posterior_is_sampled_well(regression_samples):
    samples, found = regression_samples.samples, regression_samples.diagnostics
    assert samples.shape == (1000, 4, 8)
    assert found["num_divergences"] == 0
    assert found["max_r_hat"] < 1.01
    assert found["min_effective_sample_size"] > 400
    # A standard normal of 8 dimensions: trajectories of 3 or 7 steps.
    assert 1 <= found["mean_leapfrogs"] <= 15
    history = regression_samples.history
    np.testing.assert_array_equal(history["r_hat"], sampling.r_hat(samples))
    np.testing.assert_array_equal(
        history["effective_sample_size"],
        sampling.effective_sample_size(samples),
    )
    assert found["max_r_hat"] == history["r_hat"].max()


@pytest.mark.slow
def test_logistic_posterior_matches_a_grid(logistic, logistic_samples):
    laplace, x, y = logistic
    samples = logistic_samples.samples
    grid = trained_models.LogisticGrid(
        x, y, PRIOR, low=-2.0, high=8.0, size=501
    )
    mean = grid.weights @ grid.points
    stddev = np.sqrt(grid.weights @ (grid.points - mean) ** 2)
    # The approximation is visibly another distribution.
    assert np.abs(laplace.loc - mean).max() > 0.1 * stddev.min()
    assert_moment(samples, mean)
    assert_moment(((samples - mean) / stddev) ** 2, 1.0)


@pytest.mark.slow
def test_probabilities_are_those_of_the_grid(logistic, logistic_samples):
    _, x, y = logistic
    grid = trained_models.LogisticGrid(
        x, y, PRIOR, low=-2.0, high=8.0, size=501
    )
    new = np.array([[0.5, 0.0], [0.0, -1.0], [2.0, -2.0]], np.float32)
    probs = 1 / (1 + np.exp(-grid.points @ new.T))
    expected = grid.weights @ probs
    found = logistic_samples.predict_proba(new, num_samples=8000)
    assert found.shape == (3, 2)
    # 1000 effective samples or more (of 8000).
    error = np.sqrt(grid.weights @ (probs - expected) ** 2 / 1000)
    z = (found[:, 1] - expected) / error
    assert np.abs(z).max() < limit(3)


@pytest.mark.slow
def test_seeds_fix_samples_whatever_global_generators_do(logistic, few, capsys):
    keras.utils.set_random_seed(9)
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    same = sample_few(logistic[0]).samples
    after = np.random.get_state()[1]  # noqa: NPY002
    np.testing.assert_array_equal(same, few)
    np.testing.assert_array_equal(after, before)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_fresh_seeds_give_other_samples(logistic, few):
    fresh = sample_few(logistic[0], seed=None).samples
    assert (fresh != few).any(axis=(1, 2)).all()


@pytest.mark.slow
def test_chains_differ(few):
    for one in range(4):
        for other in range(one):
            assert (few[:, one] != few[:, other]).any(axis=1).all()


@pytest.mark.slow
def test_prior_precision_takes_the_place_of_that_of_laplace(regression):
    tight = 400.0
    before = regression.prior_precision
    samples = sample(regression, prior_precision=tight)
    assert regression.prior_precision == before
    # The Hessian of the likelihood, and its gradient at any weights.
    identity = np.eye(regression.view.size)
    hessian = regression.posterior_precision - before * identity
    precision = hessian + tight * identity
    pulled = regression.posterior_precision @ regression.loc
    mean = np.linalg.solve(precision, pulled)
    assert np.abs(mean - regression.loc).max() > 0.05
    assert_moment(samples.samples, mean)
    variance = np.diag(np.linalg.inv(precision))
    assert_moment((samples.samples - mean) ** 2, variance)


@pytest.mark.slow
def test_all_layers_are_sampled(regression, rng):
    """The same Gaussian, as all layers of a model with one layer."""
    model = regression.model
    x = rng.normal(size=(30, 3)).astype(np.float32)
    y = keras.ops.convert_to_numpy(model(x))
    y = y + NOISE * rng.normal(size=y.shape)
    design = np.concatenate([x, np.ones((30, 1))], axis=1)
    laplace = exact_laplace.ExactLaplace(
        model, "regression", x, y, PRIOR, NOISE, functional.AllLayersView
    )
    with pytest.raises(ValueError, match="of a last layer"):
        sampling.nuts_last_layer(laplace)
    samples = sampling.nuts(
        laplace, num_warmup=200, num_samples=500, seed=0, verbose=0
    )
    precision = design.T @ design / NOISE**2 + PRIOR * np.eye(4)
    mean = np.linalg.solve(precision, design.T @ y / NOISE**2)
    # Kernel, then bias, each row-major, is the order of `design`.
    assert_moment(samples.samples, mean.reshape(-1))


@pytest.mark.slow
def test_without_xla_the_distribution_is_the_same(logistic):
    laplace, x, y = logistic
    grid = trained_models.LogisticGrid(
        x, y, PRIOR, low=-2.0, high=8.0, size=501
    )
    samples = sample(laplace, num_samples=400, jit_compile=False)
    assert_moment(samples.samples, grid.weights @ grid.points)


@pytest.mark.slow
@pytest.mark.parametrize(
    "num_samples", [4, pytest.param(26, marks=pytest.mark.slow)]
)
def test_as_many_samples_are_kept_as_asked_for(logistic, num_samples):
    samples = sample_few(
        logistic[0], num_warmup=7, num_samples=num_samples, num_chains=2
    )
    assert samples.samples.shape == (num_samples, 2, 2)
    assert np.isfinite(samples.samples).all()


@pytest.mark.parametrize("num_samples", [1, 2, 3])
def test_too_few_samples_for_r_hat_are_named(logistic, num_samples):
    with pytest.raises(ValueError, match="`num_samples`"):
        sample_few(
            logistic[0], num_warmup=1, num_samples=num_samples, num_chains=2
        )


@pytest.mark.slow
def test_a_single_chain_is_sampled(logistic):
    samples = sample_few(logistic[0], num_chains=1)
    assert samples.samples.shape == (25, 1, 2)
    for name in ("r_hat", "effective_sample_size"):
        assert np.isfinite(samples.history[name]).all()
        assert samples.history[name].shape == (2,)


@pytest.mark.slow
def test_chains_that_have_not_mixed_are_warned_of(logistic):
    with pytest.warns(UserWarning, match="R-hat"):
        sample(logistic[0], num_warmup=1, num_samples=8, jit_compile=False)


@pytest.mark.slow
def test_laplace_is_not_changed_by_another_prior(logistic, few, capsys):
    laplace, _, _ = logistic
    before = (laplace.loc.copy(), laplace.covariance.matrix())
    found = sample_few(laplace, prior_precision=1e4, verbose=1).samples
    # The prior alone has standard deviations of 0.01.
    assert np.abs(found).max() < 0.2 < np.abs(few.mean(axis=(0, 1))).max()
    assert "50 transitions" in capsys.readouterr().err
    np.testing.assert_array_equal(laplace.loc, before[0])
    np.testing.assert_array_equal(laplace.covariance.matrix(), before[1])
    assert laplace.prior_precision == PRIOR


@pytest.mark.parametrize(
    "bad",
    [
        {"prior_precision": 0.0},
        {"prior_precision": np.nan},
        {"num_chains": 0},
        {"num_chains": 2.5},
        {"num_warmup": 0},
        {"num_samples": 0},
        {"num_samples": -5},
        {"max_tree_depth": 0},
        {"target_accept_prob": 0.0},
        {"target_accept_prob": 1.0},
        {"target_accept_prob": np.nan},
        {"seed": -1},
        {"seed": 0.5},
    ],
    ids=str,
)
def test_bad_arguments_are_named(logistic, bad):
    (name,) = bad
    with pytest.raises(ValueError, match=f"`{name}`"):
        sampling.nuts_last_layer(logistic[0], **{"verbose": 0, **bad})


def test_what_is_no_laplace_is_refused(regression, regression_samples):
    for other in (None, regression.model):
        with pytest.raises(ValueError, match="of a last layer"):
            sampling.nuts_last_layer(other)
    for other in (None, regression_samples):
        with pytest.raises(ValueError, match="must be a Laplace approx"):
            sampling.nuts(other)


def test_laplace_without_data_is_refused(logistic, monkeypatch):
    monkeypatch.setattr(logistic[0], "training_data", None)
    with pytest.raises(ValueError, match="Training data are not saved"):
        sampling.nuts_last_layer(logistic[0])


@pytest.mark.slow
def test_saved_samples_are_loaded(logistic, few_sampled, tmp_path):
    laplace, x, _ = logistic
    samples = few_sampled
    samples.save(tmp_path / "samples.posterior")
    for model in (None, laplace.model):
        loaded = tfr.load_posterior(tmp_path / "samples.posterior", model)
        np.testing.assert_array_equal(loaded.samples, samples.samples)
        assert loaded.diagnostics == samples.diagnostics
        for name in ("r_hat", "effective_sample_size"):
            np.testing.assert_array_equal(
                loaded.history[name], samples.history[name]
            )
        np.testing.assert_array_equal(
            loaded.predict_proba(x, 6, seed=0),
            samples.predict_proba(x, 6, seed=0),
        )


@pytest.mark.slow
def test_samples_of_other_seeds_are_independent(regression):
    one, other = (
        sample_few(
            regression,
            num_chains=40,
            num_warmup=10,
            num_samples=15,
            max_tree_depth=2,
            seed=seed,
        ).samples
        for seed in (0, 4)
    )
    correlations = [
        np.corrcoef(one[..., i].ravel(), other[..., i].ravel())[0, 1]
        for i in range(one.shape[-1])
    ]
    # The standard error is 0.04, of 600 draws each.
    assert np.abs(correlations).max() < 0.25


@pytest.mark.slow
def test_transitions_that_diverge_are_counted_and_warned_of(regression):
    """Steps are far too long for a posterior so much narrower."""
    with (
        pytest.warns(UserWarning, match="R-hat"),
        pytest.warns(UserWarning, match="16 transitions diverged"),
    ):
        samples = sample(
            regression,
            prior_precision=1e8,
            num_warmup=1,
            num_samples=4,
            jit_compile=False,
        )
    assert samples.diagnostics["num_divergences"] == 16


@pytest.mark.slow
def test_a_chain_that_never_moves_is_warned_of(regression):
    with (
        pytest.warns(UserWarning, match="R-hat is nan"),
        pytest.warns(UserWarning, match="4 transitions diverged"),
    ):
        samples = sample(
            regression,
            prior_precision=1e8,
            num_chains=1,
            num_warmup=1,
            num_samples=4,
            jit_compile=False,
        )
    assert samples.diagnostics["num_divergences"] == 4


def test_the_sampler_gets_its_settings(regression, monkeypatch):
    class Made(Exception):
        """Has the arguments; nothing is run."""

    def sample_chains(kernel, *_, **__):
        raise Made(kernel)

    monkeypatch.setattr(sampling.chains, "sample", sample_chains)
    with pytest.raises(Made) as made:
        sample(regression, target_accept_prob=0.99, max_tree_depth=3)
    adaptation = made.value.args[0].parameters
    assert adaptation["num_adaptation_steps"] == 160
    np.testing.assert_allclose(adaptation["target_accept_prob"], 0.99)
    inner = adaptation["inner_kernel"].parameters
    assert inner["max_tree_depth"] == 3
    np.testing.assert_allclose(inner["step_size"], 8**-0.25)


@pytest.mark.slow
def test_more_acceptance_takes_more_steps(regression):
    samples = sample_few(regression, target_accept_prob=0.99, num_samples=10)
    # 3 or 7, of the default.
    assert samples.diagnostics["mean_leapfrogs"] > 10


@pytest.mark.slow
def test_trees_are_no_deeper_than_asked_for(regression):
    samples = sample_few(regression, max_tree_depth=1)
    assert samples.diagnostics["mean_leapfrogs"] == 1.0


def test_a_density_that_is_not_finite_is_an_error():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    x, y = np.ones((3, 1)), np.full(3, 1e25)
    laplace = exact_laplace.ExactLaplace(model, "regression", x, y)
    with pytest.raises(FloatingPointError, match="not finite"):
        sample_few(laplace)


@pytest.mark.slow
def test_sums_of_many_examples_keep_their_digits(rng, monkeypatch):
    """In single precision, of log likelihoods that sum to some 14000."""
    x, y = rng.normal(size=(20000, 2)), rng.integers(0, 2, 20000)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    laplace = exact_laplace.ExactLaplace(model, "classification", x, y)
    densities = []
    make = tfp.mcmc.NoUTurnSampler

    def observed(density, **options):
        densities.append(density)
        return make(density, **options)

    monkeypatch.setattr(tfp.mcmc, "NoUTurnSampler", observed)
    sample_few(laplace, num_chains=1, num_warmup=1, num_samples=4)
    z = tf.constant(rng.normal(size=(20, 3)), tf.float32)
    theta = laplace.transform(z).numpy().astype(np.float64)
    logits = theta @ np.float64(laplace.inputs).T
    expected = -np.logaddexp(0.0, np.where(y == 1, -logits, logits)).sum(axis=1)
    expected -= 0.5 * np.square(theta).sum(axis=1)
    error = np.float64(densities[0](z)) - expected
    np.testing.assert_allclose(error - np.mean(error), 0.0, atol=3e-4)
