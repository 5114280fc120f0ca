"""Refinement of the weights that have no posterior, and of models with them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import layer_case
from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine import regularizers


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


def _model(problem, l2=0.01, **arguments):
    """A deterministic layer with a penalty, BatchNorm, a random layer."""
    keras.utils.set_random_seed(1)
    inputs = keras.Input((2,))
    x = keras.layers.Dense(
        4,
        activation="tanh",
        kernel_regularizer=keras.regularizers.L2(l2),
        name="first",
    )(inputs)
    x = keras.layers.BatchNormalization(name="norm")(x)
    x = layers.DenseLocalReparameterization(
        1,
        kernel_regularizer=regularizers.EmpiricalBayesKL(),
        bias_posterior=None,
        num_train_examples=20,
        name="random",
        **arguments,
    )(x)
    model = keras.Model(inputs, x)
    model.compile(keras.optimizers.Adam(0.02), loss=losses.GaussianNLL())
    for _ in range(3):
        model(problem.x, training=True)  # which moves the batch statistics
    return model


# kernel [2, 4], bias [4], gamma [4], beta [4], random layer's bias [1].
_NUM_POINTS = 8 + 4 + 4 + 4 + 1
_POINTS = ("first/", "norm/gamma", "norm/beta", "random/bias")


def _is_point(variable):
    return variable.path.startswith(_POINTS)


@pytest.fixture(scope="module")
def model(problem):
    return _model(problem)


@pytest.fixture(scope="module")
def ensemble(problem, model):
    return linear_gaussian.refine(
        model, problem.x, problem.y, refine_deterministic=True, batch_size=8
    )


def _other_weights(model):
    return [
        variable
        for variable in model.weights
        if not _is_point(variable)
        and not variable.path.endswith(
            ("kernel_loc", "kernel_untransformed_scale")
        )
    ]


# Weights that move, and others.


@pytest.mark.slow
def test_every_member_has_deterministic_weights_of_its_own(model, ensemble):
    members = [ensemble.member(index) for index in range(3)]
    found = 0
    for variables in zip(
        model.weights, *(member.weights for member in members), strict=True
    ):
        if _is_point(variables[0]):
            found += int(np.prod(variables[0].shape))
            values = [np.ravel(variable) for variable in variables]
            for index in range(4):
                for other in range(index):
                    assert not np.any(values[index] == values[other])
    assert found == _NUM_POINTS


@pytest.mark.slow
def test_batch_statistics_and_priors_stay(model, ensemble):
    expected = _other_weights(model)
    assert [variable.path for variable in expected] == [
        "norm/moving_mean",
        "norm/moving_variance",
        "random/kernel_prior_untransformed_scale",
    ]
    for index in range(3):
        found = _other_weights(ensemble.member(index))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_the_model_is_not_changed(problem):
    model = _model(problem)
    before = layer_case.values(model.variables)
    linear_gaussian.refine(
        model, problem.x, problem.y, refine_deterministic=True, steps=2
    )
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


@pytest.mark.slow
def test_by_default_every_member_has_the_models_deterministic_weights(
    problem, model
):
    ensemble = linear_gaussian.refine(model, problem.x, problem.y)
    for index in range(3):
        member = ensemble.member(index)
        for old, new in zip(model.weights, member.weights, strict=True):
            is_random = old.path.startswith("random/kernel_") and (
                "prior" not in old.path
            )
            assert np.array_equal(old, new) == (not is_random), old.path


@pytest.mark.slow
def test_frozen_layers_stay_frozen(problem):
    model = _model(problem)
    model.get_layer("first").trainable = False
    member = linear_gaussian.refine(
        model, problem.x, problem.y, refine_deterministic=True, steps=2
    ).member(0)
    for old, new in zip(model.weights, member.weights, strict=True):
        if old.path.startswith("first/"):
            np.testing.assert_array_equal(old, new)
        elif _is_point(old):
            assert not np.any(np.asarray(old) == np.asarray(new))


@pytest.mark.slow
def test_without_deterministic_weights_there_is_no_difference(problem):
    model = problem.model()
    one, other = (
        linear_gaussian.refine(
            model, problem.x, problem.y, refine_deterministic=choice, steps=3
        )
        for choice in (False, True)
    )
    np.testing.assert_array_equal(one.params, other.params)
    np.testing.assert_array_equal(one.elbo_final, other.elbo_final)


@pytest.mark.slow
def test_a_constrained_deterministic_weight_is_refused(problem):
    inputs = keras.Input((2,))
    x = keras.layers.Dense(2, kernel_constraint="non_neg", name="first")(inputs)
    model = keras.Model(inputs, layers.DenseFlipout(1)(x))
    model.compile(loss="mse")
    linear_gaussian.refine(model, problem.x, problem.y, steps=1)
    with pytest.raises(ValueError, match="'first/kernel' is constrained"):
        linear_gaussian.refine(
            model, problem.x, problem.y, refine_deterministic=True
        )


@pytest.mark.slow
def test_a_learned_noise_is_refined_along(problem):
    inputs = keras.Input((2,))
    x = layers.DenseFlipout(1, num_train_examples=20)(inputs)
    model = keras.Model(inputs, layers.HomoscedasticNoise(name="noise")(x))
    model.compile(loss=losses.HeteroscedasticGaussianNLL())
    ensemble = linear_gaussian.refine(
        model, problem.x, problem.y, refine_deterministic=True, steps=5
    )
    raw = ensemble.predict(problem.x, 6, seed=1)[..., 1]
    assert len(np.unique(raw)) == 3


# The objective.


def _one_step(problem, model, refine_deterministic=True):
    """Takes one step on all examples; returns the gradient it followed."""
    work = linear_gaussian.Work(
        model,
        problem.x,
        problem.y,
        num_members=2,
        refine_deterministic=refine_deterministic,
    )
    state = work.state()
    (result,) = work.engine().run(
        state.members, state.moments, [1, 2], 0.01, 0, 1
    )
    # Adam's first moment after one step is a tenth of the gradient.
    return work.objective.view, 10.0 * result.state.slots[0].numpy(), result


@pytest.mark.slow
def test_points_follow_the_gradient_of_likelihood_and_penalty(problem):
    model = _model(problem, l2=0.3)
    weight = model.get_layer("random").variational_weights[0]
    weight.assign(scale=np.full(weight.loc.shape, 1e-6))
    view, gradient, result = _one_step(problem, model)
    with layers.mean_weights(), tf.GradientTape() as tape:
        outputs = model(problem.x, training=False)
        objective = tf.reduce_mean(model.loss(problem.y, outputs))
        kernel = model.get_layer("first").kernel
        objective += 0.3 * tf.reduce_sum(tf.square(kernel))
    expected = tape.gradient(
        objective, [v.value for v in view.deterministic_weights]
    )
    expected = np.concatenate([np.ravel(value) for value in expected])
    assert expected.shape == (_NUM_POINTS,)
    for member in range(2):
        np.testing.assert_allclose(
            gradient[member, 0, view.num_weights :],
            expected,
            rtol=1e-3,
            atol=1e-4,
        )
    # Nothing pulls at weights without effect.
    np.testing.assert_array_equal(gradient[:, 1, view.num_weights :], 0.0)
    np.testing.assert_array_equal(
        result.state.params[:, 1, view.num_weights :], 0.0
    )


@pytest.mark.slow
def test_posterior_follows_the_same_gradient_either_way(problem, model):
    size = functional.MeanFieldView(model).size
    (_, alone, _), (_, along, _) = (
        _one_step(problem, model, choice) for choice in (False, True)
    )
    assert alone.shape == (2, 2, size)
    assert along.shape == (2, 2, size + _NUM_POINTS)
    np.testing.assert_allclose(along[..., :size], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_a_huge_penalty_pulls_a_kernel_to_zero(problem):
    model = _model(problem)
    model.get_layer("first").kernel.regularizer = keras.regularizers.L2(1e4)
    before = np.abs(model.get_layer("first").kernel)
    ensemble = linear_gaussian.refine(
        model, problem.x, problem.y, refine_deterministic=True,
        steps=300, learning_rate=0.02, learning_rate_decay="linear",
        variance_ratios=(0.5,), num_members=2, keep_better=False,
    )  # fmt: skip
    for index in range(2):
        after = np.abs(ensemble.member(index).get_layer("first").kernel)
        assert np.max(after) < 0.05 * np.max(before)


@pytest.mark.slow
def test_an_optimization_that_is_undone_is_undone_for_points_too(problem):
    model = _model(problem)
    ensemble = linear_gaussian.refine(
        model, problem.x, problem.y, refine_deterministic=True,
        learning_rate=50.0, steps=3,
    )  # fmt: skip
    assert not np.any(ensemble.history["kept"])
    for index in range(3):
        for old, new in zip(
            model.weights, ensemble.member(index).weights, strict=True
        ):
            if _is_point(old):
                np.testing.assert_array_equal(old, new)


@pytest.mark.slow
def test_moving_points_raises_the_bound_further(problem):
    model = _model(problem)
    options = {
        "steps": 100,
        "learning_rate": 0.02,
        "variance_ratios": (0.5,),
        "num_eval_samples": 50,
    }
    frozen, moved = (
        linear_gaussian.refine(
            model, problem.x, problem.y, refine_deterministic=choice, **options
        )
        for choice in (False, True)
    )
    np.testing.assert_array_equal(
        frozen.history["elbo_conditioned"], moved.history["elbo_conditioned"]
    )
    assert np.all(moved.elbo_final > frozen.elbo_final + 1.0)


# The ensemble.


@pytest.mark.slow
def test_posterior_and_prior_are_of_the_random_weights(model, ensemble):
    view = functional.MeanFieldView(model)
    for part in (ensemble, ensemble.prior):
        assert part.loc.shape == part.scale.shape == (3, view.num_weights)
    for index in range(3):
        weight = ensemble.member(index).get_layer("random").variational_weights
        np.testing.assert_array_equal(
            np.ravel(weight[0].loc), ensemble.loc[index]
        )
        np.testing.assert_allclose(
            np.ravel(weight[0].scale),
            ensemble.scale[index],
            rtol=1e-6,
        )


@pytest.mark.slow
def test_predictions_are_those_of_the_members(problem, ensemble):
    draws = ensemble.predict(problem.x, num_samples=6000, seed=2)
    by_member = draws.reshape(2000, 3, 20)
    for index in range(3):
        with layers.mean_weights():
            expected = np.ravel(ensemble.member(index)(problem.x))
        mean = by_member[:, index].mean(axis=0)
        error = by_member[:, index].std(axis=0) / np.sqrt(2000)
        assert np.all(np.abs(mean - expected) < 6 * error + 1e-5)
    # With the weights of the others they would be off.
    means = by_member.mean(axis=0)
    assert np.max(np.abs(means[0] - means[1])) > 20 * error.max()


@pytest.mark.slow
def test_saved_ensemble_is_the_same_in_every_way(problem, ensemble, tmp_path):
    ensemble.save(tmp_path / "a.posterior")
    loaded = posteriors.load_posterior(tmp_path / "a.posterior")
    loaded.save(tmp_path / "again")
    again = posteriors.load_posterior(tmp_path / "again")
    for found in (loaded, again):
        np.testing.assert_array_equal(
            found.predict(problem.x, num_samples=6, seed=3),
            ensemble.predict(problem.x, num_samples=6, seed=3),
        )
        np.testing.assert_array_equal(found.params, ensemble.params)
        np.testing.assert_array_equal(found.prior, ensemble.prior)
        for index in range(3):
            for old, new in zip(
                ensemble.member(index).get_weights(),
                found.member(index).get_weights(),
                strict=True,
            ):
                np.testing.assert_array_equal(new, old)


def test_a_draw_of_the_weights_has_the_members_deterministic_ones(ensemble):
    drawn = ensemble.sample(6, seed=1)
    size = ensemble.loc.shape[-1]
    assert drawn.shape == (6, size + _NUM_POINTS)
    for index in range(6):
        np.testing.assert_array_equal(
            drawn[index, size:], ensemble.params[index % 3, 0, size:]
        )
    assert len(np.unique(drawn[:, 0])) == 6


@pytest.mark.slow
def test_checkpoint_of_the_other_choice_is_refused(problem, model, tmp_path):
    options = {
        "checkpoint_dir": tmp_path,
        "steps": 1,
        "variance_ratios": (0.5,),
    }
    linear_gaussian.refine(model, problem.x, problem.y, **options)
    with pytest.raises(ValueError, match="refine_deterministic: False there"):
        linear_gaussian.refine(
            model, problem.x, problem.y, refine_deterministic=True, **options
        )


def test_deterministic_weights_that_are_not_finite_are_refused(problem):
    model = _model(problem)
    model.get_layer("first").bias.assign([np.nan, 0.0, 0.0, 0.0])
    for choice in (False, True):
        with pytest.raises(ValueError, match="must be finite"):
            linear_gaussian.refine(
                model, problem.x, problem.y, refine_deterministic=choice
            )


# Batch normalization.


@pytest.mark.slow
def test_bound_uses_the_statistics_of_inference(problem):
    model = _model(problem)
    norm = model.get_layer("norm")
    norm.moving_mean.assign([1.0, -1.0, 2.0, 0.5])
    norm.moving_variance.assign([0.1, 2.0, 3.0, 0.5])
    weight = model.get_layer("random").variational_weights[0]
    weight.assign(scale=np.full(weight.loc.shape, 1e-6))

    def by_hand(training):
        with layers.mean_weights():
            outputs = model(problem.x, training=training)
        nll = model.loss(problem.y, outputs) * 20.0
        return float(-nll - weight.kl())

    before = layer_case.values(norm.weights)
    training = by_hand(True)
    for variable, value in zip(norm.weights, before, strict=True):
        variable.assign(value)  # which training has moved
    expected = by_hand(False)
    assert abs(training - expected) > 1.0
    bound = refinement.elbo(model, problem.x, problem.y, seed=1)
    np.testing.assert_allclose(bound, expected, rtol=1e-4)
    ensemble = linear_gaussian.refine(
        model, problem.x, problem.y, steps=1, variance_ratios=(0.5,)
    )
    np.testing.assert_allclose(ensemble.elbo_init, expected, rtol=1e-4)
