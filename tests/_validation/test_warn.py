import keras
import numpy as np
import pytest

import tfp_refine
from tfp_refine import _validation
from tfp_refine import ensembles


@pytest.fixture(scope="module")
def ensemble():
    """A deep ensemble of two members."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return ensembles.deep_ensemble(
        model, np.ones((4, 2)), np.ones((4, 1)), num_members=2, steps=1,
        seed=0, verbose=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    "call",
    [
        lambda posterior: posterior.predict(np.ones((1, 2)), 1),
        lambda posterior: posterior.sample(1),
        lambda posterior: posterior.summarize(np.ones((1, 2)), 1),
        lambda posterior: tfp_refine.predict(posterior, np.ones((1, 2)), 1),
    ],
)
def test_left_out_members_are_reported_at_the_line_of_the_caller(
    ensemble, call
):
    with pytest.warns(UserWarning, match="number of members") as found:
        call(ensemble)
    (warning,) = found
    assert warning.filename == __file__
    assert warning.lineno == call.__code__.co_firstlineno


def test_inside_fit_it_is_the_line_that_calls_fit():
    library = {"__name__": "tfp_refine.callbacks", "warn": _validation.warn}
    exec("def begin(logs=None):\n    warn('told')", library)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    callback = keras.callbacks.LambdaCallback(on_train_begin=library["begin"])
    with pytest.warns(UserWarning, match="told") as found:
        model.fit(
            np.ones((2, 2)), np.ones((2, 1)), callbacks=[callback], verbose=0
        )
    assert [warning.filename for warning in found] == [__file__]
