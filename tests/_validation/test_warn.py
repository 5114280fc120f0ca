import keras
import numpy as np
import pytest

import tfp_refine
from tests.support import linear_gaussian
from tfp_refine import ensembles
from tfp_refine import layers
from tfp_refine import refinement


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


def test_another_number_of_examples_is_reported_at_the_line_of_the_caller():
    linear = linear_gaussian.LinearGaussian()
    model = linear.model()
    layers.set_num_train_examples(model, 7)
    data = (linear.x, linear.y)
    options = {
        "num_members": 1,
        "steps": 1,
        "variance_ratios": [0.5],
        "seed": 0,
        "verbose": 0,
    }
    callback = refinement.RefinementCallback(*data, **options)
    for call in (
        lambda: refinement.elbo(model, *data, num_samples=1),
        lambda: refinement.refine(model, *data, **options),
        lambda: model.fit(*data, callbacks=[callback], verbose=0),
    ):
        with pytest.warns(UserWarning, match="num_train_examples") as found:
            call()
        assert {warning.filename for warning in found} == {__file__}
