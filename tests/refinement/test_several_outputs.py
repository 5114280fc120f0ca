"""Bounds, refinement and trainings of models with several outputs."""

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

import tfp_refine
from tests.support import two_heads
from tfp_refine import ensembles
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import refinement
from tfp_refine import sampling

FACTORS = {"label": 2.0, "size": 0.25}


@pytest.fixture
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def narrow(rng, form="dict", scale=1e-9, **options):
    """Returns a model whose draws are all the same, and its outputs."""
    model = two_heads.make_model(
        form,
        layers.DenseReparameterization,
        bias_posterior=None,
        bias_regularizer=None,
        num_train_examples=two_heads.NUM,
        seed=1,
    )
    kernels, kl = {}, 0.0
    for name in two_heads.NAMES:
        (weight,) = model.get_layer(name).variational_weights
        kernels[name] = rng.normal(size=weight.loc.shape)
        weight.assign(kernels[name], np.full(weight.loc.shape, scale))
        found = np.asarray(weight.scale)
        kl += np.sum(
            0.5 * (found**2 + kernels[name] ** 2 - 1.0) - np.log(found)
        )
    model.compile("sgd", two_heads.losses_of(), **options)
    return model, kernels, kl


def log_likelihoods(kernels, x, label, size):
    """Computes those of examples in NumPy, `[N]` for each output."""
    logits = x.astype("float64") @ kernels["label"]
    chosen = logits[np.arange(len(x)), label]
    density = scipy.stats.norm(x.astype("float64") @ kernels["size"], 0.5)
    return {
        "label": chosen - scipy.special.logsumexp(logits, axis=1),
        "size": density.logpdf(size).sum(axis=1),
    }


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize(
    "form", ["dict", pytest.param("list", marks=pytest.mark.slow)]
)
def test_the_bound_is_the_weighted_sum(form, rng):
    x, label, size = two_heads.data(rng)
    model, kernels, kl = narrow(rng, form, loss_weights=FACTORS)
    y = two_heads.in_form(form, [label, size])
    terms = log_likelihoods(kernels, x, label, size)
    weights = {name: rng.uniform(size=len(x)) for name in two_heads.NAMES}
    shared = rng.uniform(size=len(x))
    once = dict.fromkeys(two_heads.NAMES, 1.0)
    for sample_weight, by_name in (
        (None, once),
        (weights, weights),
        (shared, dict.fromkeys(two_heads.NAMES, shared)),
    ):
        for loss, factors in ((None, FACTORS), (two_heads.losses_of(), once)):
            expected = sum(
                np.sum(factors[name] * by_name[name] * terms[name])
                for name in two_heads.NAMES
            )
            np.testing.assert_allclose(
                refinement.elbo(
                    model,
                    x,
                    y,
                    sample_weight=sample_weight,
                    loss=loss,
                    num_samples=2,
                ),
                expected - kl,
                rtol=1e-7,
            )
    y = tuple(y) if form == "list" else y
    dataset = tf.data.Dataset.from_tensor_slices((x, y, shared)).batch(5)
    assert refinement.elbo(model, dataset, seed=1) == refinement.elbo(
        model, x, y, sample_weight=shared, seed=1
    )


OPTIONS = {
    "num_members": 2,
    "variance_ratios": (0.5,),
    "steps": 30,
    "batch_size": 8,
    "learning_rate": 0.02,
    "num_eval_samples": 50,
    "seed": 1,
    "verbose": 0,
}


@pytest.mark.slow
def test_refinement_raises_the_bound_of_all_outputs(rng, tmp_path):
    x, label, size = two_heads.data(rng)
    y = {"label": label, "size": size}
    model, *_ = narrow(rng, scale=0.3, loss_weights=FACTORS)
    callback = refinement.RefinementCallback(x, y, **OPTIONS)
    model.optimizer.learning_rate = 0.0
    model.fit(x, y, callbacks=[callback], verbose=0)
    ensemble = refinement.refine(model, x, [label, size], **OPTIONS)
    np.testing.assert_array_equal(ensemble.params, callback.ensemble.params)
    bounds = ensemble.history
    assert np.all(bounds["elbo_final"] > bounds["elbo_init"] + 10.0)
    np.testing.assert_allclose(
        bounds["elbo_init"],
        refinement.elbo(model, x, y, num_samples=500, seed=1),
        rtol=0.1,
    )
    # Probabilities are of the outputs that classify.
    draws = ensemble.predict(x, 20, seed=3)
    assert draws["label"].shape == (20, 12, 3)
    assert draws["size"].shape == (20, 12, 2)
    probs = ensemble.predict_proba(x, 20, seed=3, batch_size=5)
    expected = scipy.special.softmax(draws["label"], axis=-1).mean(axis=0)
    assert list(probs) == ["label"]
    np.testing.assert_allclose(
        ensemble.predict_proba(x, 20, seed=3)["label"], expected, rtol=1e-5
    )
    summary = ensemble.summarize(x, 20, seed=3)
    np.testing.assert_allclose(
        summary.entropy["label"],
        scipy.stats.entropy(expected, axis=-1),
        rtol=1e-4,
    )
    assert summary.mutual_information["label"].min() > 0.0
    assert summary.mean["size"].shape == (12, 2)
    path = tmp_path / "refined.posterior"
    ensemble.save(path)
    loaded = tfp_refine.load_posterior(path)
    assert loaded.link == ensemble.link
    np.testing.assert_array_equal(
        loaded.predict_proba(x, 4, seed=1)["label"],
        ensemble.predict_proba(x, 4, seed=1)["label"],
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "form"),
    [
        ("deep_ensemble", "dict"),
        pytest.param("deep_ensemble", "list", marks=pytest.mark.slow),
        pytest.param("swag", "dict", marks=pytest.mark.slow),
        ("swag", "list"),
        ("sghmc", "dict"),
        pytest.param("sghmc", "list", marks=pytest.mark.slow),
    ],
)
def test_trainings_follow_the_loss_of_fit(method, form, rng):
    x, label, size = two_heads.data(rng)
    y = two_heads.in_form(form, [label, size])
    loss = {
        "label": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "size": losses.GaussianNLL(0.5),
    }

    def make_model(seed=None):
        keras.utils.set_random_seed(1)
        model = two_heads.make_model(form)
        model.compile("sgd", loss, loss_weights=FACTORS)
        return model

    options = {"learning_rate": 1e-6, "seed": 1, "verbose": 0}
    if method == "deep_ensemble":
        posterior = ensembles.deep_ensemble(
            make_model, x, y, num_members=2, steps=1, **options
        )
    elif method == "swag":
        posterior = ensembles.swag(
            make_model(), x, y, num_snapshots=2, rank=2, **options
        )
    else:
        posterior = sampling.cyclical_sghmc(
            make_model(),
            x,
            y,
            num_cycles=1,
            samples_per_cycle=1,
            steps_per_cycle=1,
            **options,
        )
    expected = make_model().evaluate(x, y, batch_size=len(x), verbose=0)[0]
    np.testing.assert_allclose(posterior.history["loss"], expected, rtol=1e-3)
    probs = posterior.predict_proba(x, 2, seed=1)
    np.testing.assert_allclose(probs["label"].sum(axis=-1), 1.0, rtol=1e-5)


@pytest.mark.slow
def test_members_are_vectorized_with_weights_of_each_output(rng):
    x, label, size = two_heads.data(rng)
    y = {"label": label, "size": size}
    model, *_ = narrow(rng, scale=0.3, loss_weights=FACTORS)
    weights = {name: rng.uniform(size=len(x)) for name in two_heads.NAMES}
    mapped, vectorized = (
        refinement.refine(
            model, x, y, sample_weight=weights, mapping=mapping, **OPTIONS
        )
        for mapping in ("map", "vmap")
    )
    np.testing.assert_allclose(mapped.params, vectorized.params, atol=1e-4)


@pytest.mark.slow
def test_options_of_ensembles_go_with_several_outputs(rng):
    x, label, size = two_heads.data(rng)
    model = two_heads.make_model("tuple")
    model.compile("sgd", two_heads.losses_of(), loss_weights=FACTORS)
    ensemble = ensembles.deep_ensemble(
        model,
        x,
        (label, size),
        sample_weight=rng.uniform(size=len(x)),
        num_members=2,
        steps=3,
        batch_size=5,
        bootstrap=True,
        adversarial_epsilon=0.01,
        seed=1,
        verbose=0,
    )
    draws = ensemble.predict(x, 4)
    assert [draw.shape for draw in draws] == [(4, 12, 3), (4, 12, 2)]
