import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import linear_gaussian

_OPTIONS = {
    "num_members": 2, "steps": 3, "variance_ratios": (0.7,), "seed": 4,
    "verbose": 0,
}  # fmt: skip


@pytest.fixture
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.mark.slow
def test_callback_refines_the_trained_model(problem):
    model = problem.model()
    callback = tfr.RefinementCallback(problem.x, problem.y, **_OPTIONS)
    assert callback.ensemble is None
    model.fit(problem.x, problem.y, epochs=2, verbose=0, callbacks=[callback])
    direct = tfr.refine(model, problem.x, problem.y, **_OPTIONS)
    np.testing.assert_array_equal(callback.ensemble.params, direct.params)
    assert callback.history is callback.ensemble.history


@pytest.mark.slow
def test_model_after_fit_is_what_it_is_without_the_callback(problem):
    weights, losses = [], []
    for callbacks in (
        [],
        [tfr.RefinementCallback(problem.x, problem.y, **_OPTIONS)],
    ):
        keras.utils.set_random_seed(1)
        model = problem.model()
        model.fit(
            problem.x, problem.y, epochs=2, verbose=0, shuffle=False,
            callbacks=callbacks,
        )  # fmt: skip
        weights.append([np.array(v) for v in model.variables])
        losses.append(model.evaluate(problem.x, problem.y, verbose=0))
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert losses[0] == losses[1]


@pytest.mark.slow
def test_history_is_there_for_later_fits_too(problem):
    model = problem.model()
    callback = tfr.RefinementCallback(problem.x, problem.y, **_OPTIONS)
    ensembles = []
    for _ in range(2):
        model.fit(problem.x, problem.y, verbose=0, callbacks=[callback])
        ensembles.append(callback.ensemble)
    assert not np.any(ensembles[0].loc == ensembles[1].loc)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.zeros((3, 1))}, "same number of examples"),
        ({"x": np.full((20, 2), np.nan)}, "`x` must be finite"),
        ({"x": np.zeros((20, 5))}, "expects inputs"),
        (
            {"x": np.zeros((9, 2)), "y": np.zeros((9, 1))},
            "num_train_examples=20, but there are 9 examples",
        ),
    ],
)
def test_what_would_stop_it_shows_before_training(problem, change, message):
    arguments = {"x": problem.x, "y": problem.y, **_OPTIONS, **change}
    callback = tfr.RefinementCallback(**arguments)
    model = problem.model()
    before = model.get_weights()
    with pytest.raises(ValueError, match=message):
        model.fit(problem.x, problem.y, verbose=0, callbacks=[callback])
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_model_without_variational_layers_shows_before_training(problem):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(loss="mse")
    callback = tfr.RefinementCallback(problem.x, problem.y, **_OPTIONS)
    with pytest.raises(ValueError, match="no variational layers"):
        model.fit(problem.x, problem.y, verbose=0, callbacks=[callback])


@pytest.mark.parametrize(
    ("option", "error", "message"),
    [
        ({"num_member": 3}, TypeError, "num_member"),
        ({"variance_ratios": (2.0,)}, ValueError, "`variance_ratios`"),
        ({"mapping": "mapped"}, ValueError, "`mapping`"),
        ({"checkpoint_dir": "x", "seed": None}, ValueError, "needs a `seed`"),
    ],
)
def test_bad_options_show_at_once(problem, option, error, message):
    with pytest.raises(error, match=message):
        tfr.RefinementCallback(problem.x, problem.y, **option)


@pytest.mark.slow
def test_kl_of_the_original_prior_is_still_in_the_losses(problem):
    model = problem.model()
    callback = tfr.RefinementCallback(problem.x, problem.y, **_OPTIONS)
    before = float(keras.ops.sum(model.losses))
    callback.set_model(model)
    callback.on_train_end()
    assert float(keras.ops.sum(model.losses)) == before


@pytest.mark.parametrize(
    "built", [pytest.param(True, marks=pytest.mark.slow), False]
)
def test_callback_continues_from_its_checkpoint(problem, tmp_path, built):
    def run():
        keras.utils.set_random_seed(2)
        dense = tfr.layers.DenseFlipout(1, num_train_examples=20, seed=1)
        inputs = [keras.Input((2,))] if built else []
        model = keras.Sequential([*inputs, dense])
        model.compile(loss="mse", run_eagerly=True)
        callback = tfr.RefinementCallback(
            problem.x, problem.y, checkpoint_dir=tmp_path, **_OPTIONS
        )
        model.fit(
            problem.x, problem.y, verbose=0, shuffle=False,
            callbacks=[callback],
        )  # fmt: skip
        return callback.ensemble

    first, again = run(), run()
    np.testing.assert_array_equal(first.params, again.params)


@pytest.mark.slow
def test_last_in_the_list_it_refines_what_early_stopping_restores(problem):
    model = problem.model()
    stopping = keras.callbacks.EarlyStopping(
        "loss", patience=1, restore_best_weights=True
    )
    callback = tfr.RefinementCallback(problem.x, problem.y, **_OPTIONS)
    model.optimizer.learning_rate = 0.5  # the loss rises
    model.fit(
        problem.x, problem.y, epochs=5, verbose=0,
        callbacks=[stopping, callback],
    )  # fmt: skip
    direct = tfr.refine(model, problem.x, problem.y, **_OPTIONS)
    np.testing.assert_array_equal(callback.ensemble.params, direct.params)
