"""Properties of models of one layer: files, copies, training."""

import os
import tempfile
import warnings

import hypothesis
import keras
import numpy as np

from tests.properties import budget
from tests.properties import layer_cases
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import models
from tfp_refine import posteriors

any_layer = hypothesis.given(layer_cases.any_of(layer_cases.ALL))


@budget.cases(4)
@any_layer
def test_a_file_keeps_the_function(case):
    x = case.inputs()
    layer = layer_cases.spread(case.built())
    model = case.functional(layer)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        model.save(path)
        loaded = keras.saving.load_model(path)
    assert loaded.layers[-1].get_config() == layer.get_config()
    for ours, theirs in zip(model.weights, loaded.weights, strict=True):
        np.testing.assert_array_equal(theirs, ours)
    outputs = []
    for each in (model, loaded):
        functional.seeds.reseed(each, 3)
        with layers.mean_weights():
            means = np.asarray(each(x))
        losses = list(map(float, each.losses))
        outputs.append((means, np.asarray(each(x)), losses))
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_array_equal(theirs, ours)


@budget.cases(3)
@any_layer
def test_a_model_trains_and_stays_finite(case):
    x = case.inputs()
    case.arguments |= {"sample": True}
    if case.arguments["dtype"] == "float64":
        # Divergences in float64 cannot be added to a likelihood in float32.
        case.arguments["dtype"] = "float32"
    if case.arguments.get("activity_regularizer"):
        # Nor one of outputs in half precision, which is as in Keras.
        case.arguments["activity_regularizer"] = None
    layer = case.make()
    model = case.functional(layer)
    model.compile(keras.optimizers.SGD(1e-6), "mse", run_eagerly=True)
    y = np.zeros((len(x), *model.output_shape[1:]))
    with warnings.catch_warnings():
        # Of flows whose layer has no prior.
        warnings.filterwarnings("ignore", "Gradients do not exist")
        history = model.fit(x, y, epochs=2, verbose=0)
    assert np.all(np.isfinite(history.history["loss"]))
    for weight in model.weights:
        assert np.all(np.isfinite(weight)), weight.path


@budget.cases(2)
@any_layer
def test_draws_of_predictions_are_finite_and_repeat(case):
    x = case.inputs()
    model = case.functional(case.make())
    draws = posteriors.predict(model, x, num_samples=2, seed=1, batch_size=2)
    assert draws.shape == (2, len(x), *model.output_shape[1:])
    assert np.all(np.isfinite(draws.astype("float64")))
    again = posteriors.predict(model, x, num_samples=2, seed=1, batch_size=2)
    np.testing.assert_array_equal(again, draws)


@budget.cases(4)
@hypothesis.given(
    layer_cases.any_of(
        [kind for kind in layer_cases.ALL if kind not in layer_cases.WITH_FLOWS]
    )
)
def test_a_deterministic_copy_has_the_means(case):
    x = case.inputs()
    layer = layer_cases.spread(case.built(sample=False))
    model = case.functional(layer)
    copy = models.to_deterministic(model)
    assert type(copy.layers[-1]).__module__.startswith("keras.")
    if case.arguments.get("data_format") == "channels_first":
        return  # see `Case.expected`
    found, expected = (
        np.asarray(each(x)).astype("float64") for each in (copy, model)
    )
    rounding = layer_cases.ROUNDING[layer.compute_dtype]
    largest = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=rounding * largest)
