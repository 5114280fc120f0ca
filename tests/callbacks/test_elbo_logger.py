import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import linear_gaussian

# For one epoch or two, the fastest.
EAGERLY = {"run_eagerly": True}


@pytest.fixture
def problem():
    return linear_gaussian.LinearGaussian()


def compiled(problem, **options):
    """Compiles with the NLL as a metric, and with a rate of 0."""
    model = problem.model()
    loss = model.loss
    model.compile(
        keras.optimizers.SGD(0.0),
        loss,
        metrics=[tfr.metrics.MeanLoss(loss)],
        **EAGERLY,
        **options,
    )
    return model


def fit(model, problem, **options):
    return model.fit(
        problem.x, problem.y, verbose=0, epochs=2,
        callbacks=[tfr.callbacks.ELBOLogger()], **options,
    ).history  # fmt: skip


def kl_of(model):
    return sum(
        float(weight.kl())
        for layer in model._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
    )


def test_the_parts_are_those_of_the_loss(problem):
    model = compiled(problem)
    history = fit(model, problem)
    count = len(problem.x)
    np.testing.assert_allclose(history["kl"], kl_of(model), rtol=1e-5)
    # At a rate of 0 the loss is the bound, over the number of examples.
    np.testing.assert_allclose(
        history["elbo"], -count * np.array(history["loss"]), rtol=1e-5
    )
    np.testing.assert_allclose(
        history["elbo"],
        -count * np.array(history["nll"]) - history["kl"],
        rtol=1e-5,
    )


def test_the_bound_is_a_bound_whatever_the_factor_on_the_kl(problem):
    model = compiled(problem)
    tfr.layers.set_kl_scale(model, 0.1)
    history = fit(model, problem)
    np.testing.assert_allclose(history["kl"], kl_of(model), rtol=1e-5)
    loss = np.array(history["loss"])
    count = len(problem.x)
    np.testing.assert_allclose(
        history["elbo"],
        -count * loss - 0.9 * np.array(history["kl"]),
        rtol=1e-4,
    )


@pytest.mark.slow
def test_it_estimates_what_the_library_computes(problem):
    model = compiled(problem)
    history = fit(model, problem, batch_size=len(problem.x))
    draws = [
        tfr.refinement.elbo(
            model, problem.x, problem.y, num_samples=1, seed=seed
        )
        for seed in range(50)
    ]
    # One draw beyond 5 of its standard deviations: once in 2e6.
    assert abs(history["elbo"][0] - np.mean(draws)) < 5.1 * np.std(draws)


def test_validation_data_have_a_bound_too(problem):
    model = compiled(problem)
    history = fit(model, problem, validation_data=(problem.x, problem.y))
    np.testing.assert_allclose(
        history["val_elbo"],
        -len(problem.x) * np.array(history["val_nll"]) - history["kl"],
        rtol=1e-5,
    )
    assert "val_elbo" not in fit(compiled(problem), problem)


def test_learned_dropout_has_a_divergence():
    layer = tfr.layers.ConcreteDropout(
        keras.layers.Dense(1), num_train_examples=10
    )
    model = keras.Sequential([keras.Input((3,)), layer])
    model.compile(
        "sgd", "mse", metrics=[tfr.metrics.MeanLoss("mse")], **EAGERLY
    )
    x = np.ones((10, 3), np.float32)
    history = model.fit(
        x, x[:, :1], verbose=0, callbacks=[tfr.callbacks.ELBOLogger()]
    ).history  # fmt: skip
    np.testing.assert_allclose(history["kl"], float(layer.kl()), rtol=1e-5)


def _shared():
    """A layer twice, in two models inside."""
    layer = tfr.layers.DenseFlipout(3)
    inner = [keras.Sequential([keras.Input((3,)), layer]) for _ in range(2)]
    return keras.Sequential([keras.Input((3,)), *inner])


def _recurrent():
    layer = tfr.layers.GRUReparameterization(3, return_sequences=True)
    return keras.Sequential([keras.Input((2, 3)), layer])


def _parts(model):
    """Returns the divergence that is logged, and that in the loss."""
    tfr.layers.set_num_train_examples(model, 10)
    loss = tfr.losses.GaussianNLL()
    model.compile(
        keras.optimizers.SGD(0.0),
        loss,
        metrics=[tfr.metrics.MeanLoss(loss)],
        **EAGERLY,
    )
    x = np.ones((10, *model.input_shape[1:]), np.float32)
    history = model.fit(
        x, x, verbose=0, callbacks=[tfr.callbacks.ELBOLogger()]
    ).history
    return history["kl"][0], 10.0 * (history["loss"][0] - history["nll"][0])


@pytest.mark.parametrize("make", [_shared, _recurrent])
def test_the_divergence_is_that_of_the_loss(make):
    logged, in_loss = _parts(make())
    np.testing.assert_allclose(logged, in_loss, rtol=1e-4)


def test_the_bound_is_that_of_draws_with_limited_scales():
    # The loss has the scales without their limit, as gradients need.
    layer = tfr.layers.DenseMNF(3, max_std=1e-4)
    model = keras.Sequential([keras.Input((3,)), layer])
    logged, in_loss = _parts(model)
    # Estimates; their standard deviation is about one.
    assert logged > in_loss + 20.0


def test_what_is_missing_is_said(problem):
    model = problem.model()
    with pytest.raises(ValueError, match="finds no 'nll' in the logs"):
        fit(model, problem)
    plain = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    plain.compile("sgd", "mse", metrics=[tfr.metrics.MeanLoss("mse")])
    with pytest.raises(ValueError, match=r"variational|no such layers"):
        plain.fit(
            np.ones((4, 2)), np.ones((4, 1)), verbose=0,
            callbacks=[tfr.callbacks.ELBOLogger()],
        )  # fmt: skip


def test_layers_must_agree_on_the_number_of_examples(problem):
    model = keras.Sequential(
        [
            keras.Input((2,)),
            tfr.layers.DenseFlipout(2, num_train_examples=10),
            tfr.layers.DenseFlipout(1, num_train_examples=20),
        ]
    )
    model.compile(
        "sgd", "mse", metrics=[tfr.metrics.MeanLoss("mse")], **EAGERLY
    )
    with pytest.raises(ValueError, match="same number of training examples"):
        model.fit(
            np.ones((4, 2)), np.ones((4, 1)), verbose=0,
            callbacks=[tfr.callbacks.ELBOLogger()],
        )  # fmt: skip


def test_the_mean_over_outputs_is_no_log_likelihood():
    model = keras.Sequential(
        [keras.Input((2,)), tfr.layers.DenseFlipout(3, num_train_examples=4)]
    )
    loss = "binary_crossentropy"
    model.compile("sgd", loss, metrics=[tfr.metrics.MeanLoss(loss)], **EAGERLY)
    data = np.ones((4, 2)), np.ones((4, 3))
    with pytest.raises(ValueError, match=r"mean over the 3.*BernoulliNLL\(\)"):
        model.fit(*data, verbose=0, callbacks=[tfr.callbacks.ELBOLogger()])
    # Another metric may have the sum.
    nll = tfr.metrics.MeanLoss(tfr.losses.BernoulliNLL())
    model.compile("sgd", loss, metrics=[nll], **EAGERLY)
    model.fit(*data, verbose=0, callbacks=[tfr.callbacks.ELBOLogger()])


@pytest.mark.parametrize("several", [True, False])
def test_the_loss_of_one_output_is_not_that_of_all(several):
    inputs = keras.Input((2,))
    head = tfr.layers.DenseFlipout(1, num_train_examples=4)(inputs)
    loss, y = tfr.losses.GaussianNLL(), np.ones((4, 1))
    metric = tfr.metrics.MeanLoss(loss)
    if several:
        model = keras.Model(inputs, {"a": head, "b": head})
        model.compile(
            "sgd",
            {"a": loss, "b": loss},
            metrics={"a": metric, "b": None},
            **EAGERLY,
        )
        y = {"a": y, "b": y}
    else:
        model = keras.Model(inputs, head)
        model.compile(
            "sgd", loss, loss_weights=0.5, metrics=[metric], **EAGERLY
        )
    logger = tfr.callbacks.ELBOLogger("a_nll" if several else "nll")
    with pytest.raises(ValueError, match="one output, of weight 1.*elbo"):
        model.fit(np.ones((4, 2)), y, verbose=0, callbacks=[logger])
