"""Laplace's approximation, flows and NUTS as systems of a small network."""

import dataclasses

import keras
import numpy as np
import pytest
import scipy.special

from tfp_refine import datasets
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

pytestmark = pytest.mark.filterwarnings("ignore:The chains have not mixed")


def classes():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2)).astype(np.float32)
    y = np.digitize(x[:, 0] + 0.5 * rng.normal(size=120), [-0.5, 0.5])
    y = y.astype(np.int32)
    return dataset.Dataset(
        train=(x[:60], y[:60]),
        validation=(x[60:80], y[60:80]),
        test=(x[80:], y[80:]),
        num_classes=3,
    )


def numbers():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2)).astype(np.float32)
    y = (np.sin(x[:, :1]) + 0.3 * rng.normal(size=(80, 1))).astype(np.float32)
    return dataset.Dataset(
        train=(x[:50], y[:50]),
        validation=(x[:0], y[:0]),
        test=(x[50:], y[50:]),
        scaler=datasets.Standardizer.fit(y),
    )


def configuration(data, **options):
    options = {
        "hidden": (4,), "train_steps": 100, "batch_size": 32, "segments": 1,
        "learning_rate": 0.05, "num_samples": 50, "flow_epochs": 40,
        "nuts_chains": 2, "nuts_warmup": 20, "nuts_samples": 20,
        "progress": False,
    } | options  # fmt: skip
    config = fields.Bench(**options)
    kind = "regression" if data.is_regression else "table"
    return config.with_defaults(
        config.after_data(kind, (2,), len(data.train[0]))
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Returns a function that makes repetitions, all in one folder."""
    path, data = tmp_path_factory.mktemp("systems"), classes()
    config = configuration(data)
    with folder_lib.Folder(path, "systems", config, {}) as folder:
        yield lambda **options: repetition.Repetition(
            dataclasses.replace(config, **options), data, 0, folder
        )


def fitted(of, text):
    return of.fitted(registry.parse(text, fields.Bench))[0]


def reason(of, text):
    return of.why_not(registry.parse(text, fields.Bench))


def test_laplace_draws_logits_around_those_of_the_network(made):
    of = made(num_samples=4000)
    found, trained = fitted(of, "laplace"), fitted(of, "map")
    x = of.data.test[0]
    draws = found.draws(x)
    assert draws.shape == (4000, 40, 3)
    mean, covariance = found.posterior.linearized_outputs(x)
    scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(mean, trained.draws(x)[0], rtol=1e-4, atol=1e-5)
    # Six standard errors.
    assert np.all(np.abs(draws.mean(0) - mean) < 6.0 * scale / 4000**0.5)
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=0.08)
    assert found.num_steps == trained.num_steps == 100
    assert found.diagnostics["prior_precision"] > 0.0


def test_the_prior_is_chosen_or_given(made):
    evidence = fitted(made(), "laplace").posterior
    given = fitted(made(), "laplace(prior_precision=3)").posterior
    searched = fitted(made(), "laplace(prior_precision=grid_search)").posterior
    assert given.prior_precision == 3.0
    for factor in (0.9, 1.1):
        other = evidence.prior_precision * factor
        assert (
            evidence.log_marginal_likelihood(other)
            < evidence.log_marginal_likelihood()
        )
    assert searched.prior_precision != evidence.prior_precision


@pytest.mark.parametrize("text", ["0", "wide", "nan", "inf"])
def test_a_prior_that_is_none_is_refused(made, text):
    expected = f"--prior_precision must be a positive .*: {text}"
    with pytest.raises(ValueError, match=expected):
        reason(made(prior_precision=text), "laplace")


@pytest.mark.parametrize("name", ["laplace", "laplace_all"])
def test_closed_predictives_are_one_draw_of_their_probabilities(made, name):
    of = made(predictive="probit")
    found, x = fitted(of, name), of.data.test[0]
    (logits,) = found.draws(x)
    np.testing.assert_allclose(
        scipy.special.softmax(logits, axis=-1),
        found.posterior.predict_proba(x, method="probit"),
        rtol=1e-5,
    )


def test_all_layers_predict_by_their_linearized_outputs(made):
    of = made(num_samples=4000)
    found = fitted(of, "laplace_all")
    x = of.data.test[0]
    draws = found.draws(x)
    mean, covariance = found.posterior.linearized_outputs(x)
    scale = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert np.all(np.abs(draws.mean(0) - mean) < 6.0 * scale / 4000**0.5)
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=0.08)
    assert found.posterior.view.size == of.num_weights == 2 * 4 + 4 + 4 * 3 + 3


@pytest.mark.slow
def test_flows_raise_the_bound_and_need_laplace(made):
    of = made()
    start = fitted(of, "laplace")
    base, bounds = start.posterior, []
    for text in ("laplace", "flows", "flows(flow_base=standard_normal)"):
        posterior = fitted(of, text).posterior
        posterior.training_data = base.training_data
        bounds.append(posterior.elbo(400, seed=0))
    before, after, scratch = map(np.mean, bounds)
    error = np.std(bounds[1]) / 400**0.5
    assert after > before + 3.0 * error
    assert scratch < after
    refined = fitted(of, "flows")
    assert refined.num_steps == start.num_steps + 40  # of one batch each
    # Five radial flows of 15 weights.
    assert refined.diagnostics == {"num_params": 5 * (15 + 2)}
    assert refined.draws(of.data.test[0]).shape == (50, 40, 3)


@pytest.mark.slow
def test_steps_of_flows_have_a_least_number(made):
    of = made(flow_epochs=None, flow_batch_size=20)
    assert fitted(of, "flows(flow_length=1)").num_steps == 100 + 2001


@pytest.mark.slow
def test_what_was_fitted_is_loaded_and_what_is_damaged_is_named(made):
    x = made().data.test[0]
    first = fitted(made(), "flows(flow_length=2)").draws(x)
    np.testing.assert_array_equal(
        fitted(made(), "flows(flow_length=2)").draws(x), first
    )
    of = made()
    expression = registry.parse("flows(flow_length=2)", fields.Bench)
    path = repetition.Fit(of, expression).directory / "laplace.posterior"
    path.write_bytes(b"cut off")
    with pytest.raises(ValueError, match="Remove the file to compute it anew"):
        fitted(of, "flows(flow_length=2)")
    path.unlink()
    np.testing.assert_array_equal(
        fitted(made(), "flows(flow_length=2)").draws(x), first
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "start",
    ["laplace", pytest.param("laplace_all", marks=pytest.mark.slow)],
)
def test_nuts_samples_the_weights_of_a_laplace_approximation(made, start):
    of = made(max_sampled_weights=27)
    found = fitted(of, f"nuts({start})")
    size = fitted(of, start).posterior.view.size
    assert found.posterior.samples.shape == (20, 2, size)
    assert {"max_r_hat", "num_divergences"} < set(found.diagnostics)
    draws = found.draws(of.data.test[0])
    assert draws.shape == (50, 40, 3)
    probs = scipy.special.softmax(draws, axis=-1).mean(axis=0)
    assert np.mean(probs.argmax(axis=-1) == of.data.test[1]) > 0.5


def test_what_cannot_be_applied_says_why(made):
    large = made(max_laplace_weights=26, max_sampled_weights=26)
    assert reason(large, "laplace") is None
    assert reason(large, "nuts") is None
    assert reason(large, "refined(laplace)") is None
    assert "multiple" in reason(large, "refined(laplace, num_members=3)")
    assert "27 weights, more than --max_laplace_weights=26" in reason(
        large, "laplace_all"
    )
    most = made(max_sampled_weights=26)
    assert "--max_sampled_weights=26" in reason(most, "nuts(laplace_all)")
    assert reason(most, "flows(laplace_all)") is None
    data = dataclasses.replace(classes(), validation=numbers().validation)
    of = repetition.Repetition(
        configuration(data, prior_precision="grid_search"), data
    )
    assert "needs a --validation_fraction" in reason(of, "flows")


@pytest.mark.slow
def test_a_regression_keeps_its_noise(tmp_path):
    data = numbers()
    config = configuration(data)
    wide = dataclasses.replace(config, likelihood="heteroscedastic")
    assert "homoscedastic" in reason(repetition.Repetition(wide, data), "nuts")
    with folder_lib.Folder(tmp_path, "systems", config, {}) as folder:
        of = repetition.Repetition(config, data, 0, folder)
        for text in (
            "laplace", "flows(flow_length=1)", "laplace_all",
            "refined(laplace, num_members=2, refine_steps=5)",
        ):  # fmt: skip
            draws = fitted(of, text).draws(data.test[0])
            assert draws.shape == (50, 30, 2)
            start = "laplace_all" if text == "laplace_all" else "laplace"
            np.testing.assert_allclose(
                np.log1p(np.exp(draws[..., 1])),
                fitted(of, start).posterior.noise_scale,
                rtol=1e-5,
            )
            error = draws[..., 0].mean(axis=0) - data.test[1][:, 0]
            assert np.sqrt(np.mean(error**2)) < 0.6


@pytest.mark.slow
@pytest.mark.parametrize(
    "activation", ["sigmoid", pytest.param("linear", marks=pytest.mark.slow)]
)
def test_a_trained_model_may_have_one_output_for_two_classes(
    tmp_path, activation
):
    data = classes()
    two = dataclasses.replace(
        data,
        num_classes=2,
        **{
            part: (x, np.minimum(y, 1))
            for part in ("train", "validation", "test")
            for x, y in [getattr(data, part)]
        },
    )
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, activation=activation)]
    )
    model.layers[-1].set_weights([np.array([[2.0], [0.1]]), np.array([0.5])])
    model.save(tmp_path / "mine.keras")
    x, y = two.test
    logit = 2.0 * x[:, 0] + 0.1 * x[:, 1] + 0.5
    config = configuration(two, model=str(tmp_path / "mine.keras"))
    with folder_lib.Folder(tmp_path / "out", "x", config, {}) as folder:
        of = repetition.Repetition(config, two, 0, folder)
        for text in (
            "map", "temperature", "laplace", "laplace(predictive=probit)",
            "laplace_all", "flows(flow_length=1)",
        ):  # fmt: skip
            logits = fitted(of, text).draws(x)
            assert logits.shape[1:] == (40, 2)
            probs = scipy.special.softmax(logits, axis=-1).mean(axis=0)
            assert np.mean(probs.argmax(axis=-1) == y) > 0.7
            if text == "map":
                np.testing.assert_allclose(
                    probs[:, 1], scipy.special.expit(logit), rtol=1e-4
                )
