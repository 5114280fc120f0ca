"""Names, dtypes and reductions that Keras would answer without their names."""

import numpy as np
import pytest

import tfp_refine as tfr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("name", 2),
        ("name", np.ones(2)),
        ("dtype", {"a": 1}),
        ("dtype", np.ones(2)),
        ("reduction", ["sum"]),
        ("reduction", np.ones(2)),
    ],
)
def test_a_bad_argument_of_a_loss_or_a_metric_is_named(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must"):
        tfr.losses.CategoricalNLL(**{name: value})
    if name != "reduction":
        with pytest.raises(ValueError, match=f"`{name}` must"):
            tfr.metrics.BrierScore(**{name: value})
        with pytest.raises(ValueError, match=f"`{name}` must"):
            tfr.metrics.MeanLoss("mse", **{name: value})


@pytest.mark.parametrize("reduction", [None, "none", "sum", "mean"])
def test_reductions_of_keras_are_taken(reduction):
    loss = tfr.losses.CategoricalNLL(reduction=reduction, dtype="float64")
    assert np.all(np.isfinite(loss([0, 1], np.zeros((2, 2)))))


@pytest.mark.parametrize("loss", [{0: 1.0}, {"class_name": "Unknown"}, 3])
def test_a_loss_that_is_none_is_named(loss):
    with pytest.raises(ValueError, match="`loss` must"):
        tfr.metrics.MeanLoss(loss)
