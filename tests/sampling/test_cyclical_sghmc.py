import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tfp_refine import functional
from tfp_refine import sampling
from tfp_refine.functional import trajectory
from tfp_refine.functional import update_rules

N, NOISE, PRIOR = 50, 0.5, 1.0


@pytest.fixture
def problem(rng):
    """A linear regression, and the moments of its posterior."""
    x = rng.normal(size=(N, 2)).astype(np.float32)
    y = (x @ [[1.0], [-0.5]] + NOISE * rng.normal(size=(N, 1))).astype(
        np.float32
    )
    prior = keras.regularizers.L2(0.5 / (N * PRIOR**2))
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(1, use_bias=False, kernel_regularizer=prior),
        ]
    )
    model.compile("sgd", tfr.losses.GaussianNLL(NOISE))
    precision = x.T @ x / NOISE**2 + np.eye(2) / PRIOR**2
    covariance = np.linalg.inv(precision)
    return model, x, y, covariance @ x.T @ y[:, 0] / NOISE**2, covariance


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_the_tempered_posterior_is_sampled(problem, temperature):
    model, x, y, mean, covariance = problem
    samples = sampling.cyclical_sghmc(
        model, x, y, num_cycles=30, samples_per_cycle=40, steps_per_cycle=2600,
        steps_per_sample=60, batch_size=N, learning_rate=0.02, seed=1,
        temperature=temperature, verbose=0,
    )  # fmt: skip
    assert samples.samples.shape == (1200, 2)
    # Samples within a cycle are not independent: some 300 are.
    theta = samples.samples.reshape(30, 40, 2)
    scale = np.sqrt(temperature * np.diag(covariance))
    np.testing.assert_allclose(
        (theta.mean(axis=(0, 1)) - mean) / scale, 0.0, atol=0.35
    )
    found = np.cov(theta.reshape(-1, 2).T)
    ratios = np.diag(found) / (temperature * np.diag(covariance))
    np.testing.assert_allclose(ratios, 1.0, atol=0.3)


@pytest.mark.slow
def test_without_a_temperature_it_is_the_number_of_examples(problem):
    model, x, y, _, _ = problem
    options = {
        "num_cycles": 2,
        "samples_per_cycle": 2,
        "steps_per_cycle": 30,
        "seed": 3,
        "verbose": 0,
    }
    found = sampling.cyclical_sghmc(model, x, y, **options)
    same = sampling.cyclical_sghmc(model, x, y, temperature=1 / N, **options)
    other = sampling.cyclical_sghmc(model, x, y, temperature=1.0, **options)
    np.testing.assert_array_equal(found.samples, same.samples)
    assert np.any(found.samples != other.samples)
    assert found.predict(x, 4).shape == (4, N, 1)


def test_cold_cycles_are_gradient_descent(problem):
    model, x, y, _, _ = problem
    samples = sampling.cyclical_sghmc(
        model, x, y, num_cycles=2, samples_per_cycle=1, steps_per_cycle=10,
        steps_per_sample=1, batch_size=N, temperature=0.0, seed=1, verbose=0,
    )  # fmt: skip
    theta = model.get_weights()[0][:, 0].astype(np.float64)
    velocity, expected = np.zeros(2), []
    for number in range(20):
        rate = 0.05 * (1.0 + np.cos(np.pi * (number % 10) / 10))
        gradient = x.T @ (x @ theta - y[:, 0]) / NOISE**2 / N
        gradient += theta / PRIOR**2 / N
        velocity = 0.1 * velocity - rate * gradient
        theta = theta + velocity
        if number % 10 == 9:
            expected.append(theta)
    np.testing.assert_allclose(samples.samples, expected, rtol=1e-4)


def test_noise_is_in_the_last_steps_of_each_cycle(problem, monkeypatch):
    model, x, y, _, _ = problem
    made = []
    kind = update_rules.Momentum
    monkeypatch.setattr(
        update_rules,
        "Momentum",
        lambda *args: made.append(args) or kind(*args),
    )
    sampling.cyclical_sghmc(
        model, x, y, num_cycles=2, samples_per_cycle=2, steps_per_cycle=10,
        steps_per_sample=3, momentum=0.7, temperature=0.4, seed=1, verbose=0,
    )  # fmt: skip
    ((momentum, variance, is_noisy),) = made
    noisy = [bool(is_noisy(number)) for number in range(20)]
    assert noisy == 2 * (4 * [False] + 6 * [True])
    assert momentum == 0.7
    np.testing.assert_allclose(variance, 2.0 * 0.3 * 0.4 / N)


@pytest.mark.slow
def test_samples_come_from_the_ends_of_cycles_in_order(problem):
    model, x, y, _, _ = problem
    samples = sampling.cyclical_sghmc(
        model, x, y, num_cycles=2, samples_per_cycle=3, steps_per_cycle=20,
        steps_per_sample=4, temperature=0.0, seed=1, verbose=0,
    )  # fmt: skip
    steps = set(samples.history["step"].tolist())
    assert {12, 16, 20, 32, 36, 40} <= steps
    assert samples.history["loss"].shape == (len(steps),)
    each = sampling.cyclical_sghmc(
        model, x, y, num_cycles=40, samples_per_cycle=1, steps_per_cycle=1,
        steps_per_sample=1, temperature=0.0, seed=1, verbose=0,
    )  # fmt: skip
    assert each.samples.shape == (40, 2)
    others = sampling.cyclical_sghmc(
        model, x, y, num_cycles=2, samples_per_cycle=10, steps_per_cycle=20,
        steps_per_sample=2, temperature=0.0, seed=1, verbose=0,
    )  # fmt: skip
    rows = [5, 7, 9, 15, 17, 19]  # every second step
    np.testing.assert_allclose(samples.samples, others.samples[rows], rtol=1e-6)


def test_other_weights_are_those_of_the_sample(rng):
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.BatchNormalization(momentum=0.5),
            keras.layers.Dense(1),
        ]
    )
    x = rng.normal(3.0, 2.0, size=(N, 2)).astype(np.float32)
    samples = sampling.cyclical_sghmc(
        model, x, x[:, :1], num_cycles=2, samples_per_cycle=1, batch_size=N,
        steps_per_cycle=2, steps_per_sample=1, seed=1, loss="mse", verbose=0,
    )  # fmt: skip
    for row, steps in ((0, 2), (1, 4)):
        expected = (1.0 - 0.5**steps) * x.mean(axis=0)
        np.testing.assert_allclose(samples.fixed[0][row], expected, rtol=1e-4)


@pytest.mark.slow
def test_an_interrupted_sampling_ends_with_the_same_samples(
    problem, tmp_path, monkeypatch
):
    model, x, y, _, _ = problem
    options = {
        "num_cycles": 2, "samples_per_cycle": 2, "steps_per_cycle": 20,
        "steps_per_sample": 3, "batch_size": 16, "seed": 3, "verbose": 0,
        "temperature": 0.5,
    }  # fmt: skip
    expected = sampling.cyclical_sghmc(model, x, y, **options)
    options["checkpoint_dir"] = tmp_path
    update = functional.progress.Progress.update

    def interrupt(bar, current, **values):
        update(bar, current, **values)
        if current == 20:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(functional.progress.Progress, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sampling.cyclical_sghmc(model, x, y, **options)
    found = sampling.cyclical_sghmc(model, x, y, **options)
    np.testing.assert_array_equal(found.samples, expected.samples)
    for change in (
        {"temperature": 0.25}, {"momentum": 0.8}, {"learning_rate": 0.05},
        {"batch_size": 8}, {"steps_per_sample": 2}, {"seed": 4},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="a different cyclical sghmc"):
            sampling.cyclical_sghmc(model, x, y, **(options | change))


def test_saved_samples_are_the_same(problem, tmp_path):
    model, x, y, _, _ = problem
    samples = sampling.cyclical_sghmc(
        model, x, y, num_cycles=2, steps_per_cycle=6, steps_per_sample=1,
        seed=1, verbose=0,
    )  # fmt: skip
    samples.save(tmp_path / "samples.posterior")
    loaded = tfr.load_posterior(tmp_path / "samples.posterior")
    np.testing.assert_array_equal(
        loaded.predict(x, 6, seed=0), samples.predict(x, 6, seed=0)
    )
    np.testing.assert_array_equal(
        loaded.history["loss"], samples.history["loss"]
    )


def test_defaults(monkeypatch):
    seen = {}

    class Stopped(Exception):
        pass

    def stop(name, objective, start, rule, batches, **options):
        seen.update(options, rule=rule, batches=batches)
        raise Stopped

    monkeypatch.setattr(trajectory, "train", stop)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    count = 640  # 5 batches of 128
    with pytest.raises(Stopped):
        sampling.cyclical_sghmc(model, np.zeros((count, 2)), np.zeros(count))
    assert seen["settings"] == {
        "num_cycles": 4,
        "samples_per_cycle": 3,
        "steps_per_cycle": 250,
        "steps_per_sample": 5,
        "momentum": 0.1,
        "temperature": 1 / count,
    }
    assert (seen["steps"], seen["learning_rate"]) == (1000, 0.1)
    assert seen["batches"].batch_size == 128


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_cycles": 0}, "num_cycles"),
        ({"samples_per_cycle": 51}, "room for its samples"),
        ({"temperature": -1.0}, "temperature"),
        ({"momentum": 1.0}, "momentum"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"steps_per_cycle": 0}, "steps_per_cycle"),
        ({"batch_size": 0}, "batch_size"),
        ({"loss": "no_such_loss"}, "no_such_loss"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_arguments_are_refused(problem, options, message):
    model, x, y, _, _ = problem
    with pytest.raises(ValueError, match=message):
        sampling.cyclical_sghmc(model, x, y, verbose=0, **options)
    with pytest.raises(ValueError, match="must be a keras.Model"):
        sampling.cyclical_sghmc("model", x, y, verbose=0)


def test_a_mean_over_outputs_is_no_log_likelihood(rng):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(loss="mse")
    x, y = rng.normal(size=(9, 3)), rng.normal(size=(9, 2))
    with pytest.raises(ValueError, match="is a mean over the 2 outputs"):
        tfr.sampling.cyclical_sghmc(model, x, y, verbose=0)
