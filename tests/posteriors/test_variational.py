import gc
import weakref

import keras
import numpy as np
import pytest

import tfp_refine
from tests.support import layer_case
from tests.support import statistics
from tfp_refine import functional
from tfp_refine import layers


def make_model(make_layer=layers.DenseReparameterization):
    """Returns a model whose outputs vary by about one."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.DenseFlipout(4, activation="tanh", num_train_examples=5),
            keras.layers.BatchNormalization(),
            make_layer(2, num_train_examples=5),
        ]
    )
    for layer in model.layers:
        if hasattr(layer, "variational_weights"):
            layer_case.spread(layer)
    return model


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture
def x(rng):
    return rng.normal(size=(7, 3)).astype("float32")


def test_draws_have_a_sample_axis_and_vary(model, x):
    draws = tfp_refine.predict(model, x, num_samples=4, seed=1)
    assert isinstance(draws, np.ndarray)
    assert draws.shape == (4, 7, 2)
    assert draws.dtype == "float32"
    for sample in range(1, 4):
        assert layer_case.differ(draws[sample], draws[0])
    assert tfp_refine.predict(model, x[:1]).shape == (100, 1, 2)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_draws_have_the_type_of_the_outputs(dtype):
    layer = layers.DenseFlipout(2, dtype=dtype)
    model = keras.Sequential([keras.Input((3,)), layer])
    assert tfp_refine.predict(model, ONES, 2).dtype == dtype


def test_a_seed_fixes_the_draws_and_none_does_not(model, x):
    def draw(seed):
        return tfp_refine.predict(model, x, num_samples=2, seed=seed)

    expected = draw(3)
    model(x)  # the model's own generators go on
    np.testing.assert_array_equal(draw(3), expected)
    assert layer_case.differ(draw(4), expected)
    assert layer_case.differ(draw(None), draw(None))


def test_a_draw_depends_on_its_number_not_on_how_many_there_are(model, x):
    many = tfp_refine.predict(model, x, 5, seed=3)
    np.testing.assert_array_equal(
        tfp_refine.predict(model, x, 2, seed=3), many[:2]
    )


def test_blocks_have_draws_of_their_own():
    layer = layers.DenseReparameterization(2)
    model = keras.Sequential([keras.Input((3,)), layer])
    layer_case.spread(layer)
    ones = np.ones([4, 3], "float32")
    draws = tfp_refine.predict(model, ones, 3, seed=0, batch_size=2)
    # One draw of the weights for each block, another for the next.
    np.testing.assert_array_equal(draws[:, 0], draws[:, 1])
    np.testing.assert_array_equal(draws[:, 2], draws[:, 3])
    assert layer_case.differ(draws[:, 0], draws[:, 2])


def test_structures_with_the_same_leaves_are_told_apart():
    inputs = [keras.Input((3,)), keras.Input((3,))]
    outputs = layers.DenseFlipout(1)(keras.layers.Subtract()(inputs))
    model = keras.Model(inputs, outputs)
    x = [np.ones([2, 3], "float32"), np.zeros([2, 3], "float32")]
    np.testing.assert_array_equal(
        tfp_refine.predict(model, x, 2, seed=1),
        tfp_refine.predict(model, tuple(x), 2, seed=1),
    )


def test_draws_have_the_moments_of_the_posterior():
    num = 2000
    layer = layers.DenseFlipout(1, use_bias=False)
    model = keras.Sequential([keras.Input((1,)), layer])
    (weight,) = layer.variational_weights
    weight.assign(loc=[[2.0]], scale=[[0.5]])
    draws = tfp_refine.predict(model, np.array([[1.0]]), num, seed=0)
    statistics.assert_mean(draws, 2.0, 0.5, resolves=0.3 * 0.5)
    statistics.assert_variance(draws, 0.25, resolves_ratio=1.5)


@pytest.mark.parametrize("batch_size", [1, 3, 7, 1000])
def test_means_do_not_depend_on_the_batch_size(model, x, batch_size):
    draws = tfp_refine.predict(model, x, 2, sample=False, batch_size=batch_size)
    with layers.mean_weights():
        expected = np.asarray(model(x))
    np.testing.assert_allclose(draws, np.stack([expected] * 2), rtol=1e-5)
    sampled = tfp_refine.predict(model, x, 2, batch_size=batch_size)
    assert sampled.shape == draws.shape
    assert np.all(np.isfinite(sampled))
    assert layer_case.differ(sampled, draws)


def test_nested_inputs_and_outputs(x):
    inputs = {
        "a": keras.Input((3,), name="a"),
        "b": keras.Input((3,), name="b"),
    }
    y = layers.DenseFlipout(2)(inputs["a"])
    model = keras.Model(inputs, {"y": y, "rest": [inputs["b"]]})
    draws = tfp_refine.predict(model, {"a": x, "b": 2 * x}, 3, batch_size=4)
    assert draws["y"].shape == (3, 7, 2)
    np.testing.assert_array_equal(draws["rest"][0], [2 * x] * 3)


def test_the_scope_of_a_call_does_not_decide_for_later_calls(x):
    model = make_model()
    with layers.mean_weights():
        inside = tfp_refine.predict(model, x, 2, seed=1)
    outside = tfp_refine.predict(model, x, 2, seed=1)
    np.testing.assert_array_equal(inside, outside)
    assert layer_case.differ(outside[0], outside[1])


def test_it_does_not_change_the_model(model, x):
    before = layer_case.values(model.variables)
    tfp_refine.predict(model, x, 2)
    tfp_refine.predict(model, x, 2, sample=False)
    after = layer_case.values(model.variables)
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)


def test_it_follows_the_weights_of_the_model(x):
    model = make_model()
    before = tfp_refine.predict(model, x, 2, seed=1)
    for weight in model.weights:  # BatchNorm's statistics among them
        old = np.asarray(weight)
        weight.assign(old + 0.5)
        changed = tfp_refine.predict(model, x, 2, seed=1)
        assert not np.allclose(changed, before), weight.path
        weight.assign(old)
    np.testing.assert_array_equal(
        tfp_refine.predict(model, x, 2, seed=1), before
    )


def test_it_follows_a_change_of_what_is_trainable(x):
    model = make_model()
    before = tfp_refine.predict(model, x, 2, seed=1)
    for trainable in (False, True):
        model.layers[0].trainable = trainable
        np.testing.assert_array_equal(
            tfp_refine.predict(model, x, 2, seed=1), before
        )


class Subclassed(keras.Model):
    """A model that says nothing of its inputs, and counts its calls."""

    def __init__(self):
        super().__init__()
        self.dense = layers.DenseFlipout(2)
        self.num_calls = 0

    def call(self, inputs):
        self.num_calls += 1
        return self.dense(inputs)


def test_it_compiles_once_a_mode(x):
    model = Subclassed()
    model(x)
    for sample in (True, False):
        tfp_refine.predict(model, x, 2, sample=sample, batch_size=3)
    num_calls = model.num_calls
    for num_samples, rows in ((2, 7), (3, 4), (1, 1)):
        for sample in (True, False):
            tfp_refine.predict(
                model, x[:rows], num_samples, sample=sample, batch_size=3
            )
    assert model.num_calls == num_calls


@pytest.mark.slow
def test_a_model_that_is_gone_leaves_nothing_behind(x):
    model = make_model()
    model.compile("sgd", "mse")
    model.fit(x, x[:, :2], verbose=0)
    tfp_refine.predict(model, x, 2)
    tfp_refine.predict(model, x, 2, sample=False)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None


@pytest.mark.slow
def test_a_posterior_keeps_its_model(x):
    model = make_model()
    posterior = tfp_refine.posterior(model)
    expected = posterior.predict(x, 2, seed=1)
    assert posterior.model is model
    del model
    gc.collect()
    np.testing.assert_array_equal(posterior.predict(x, 2, seed=1), expected)


def test_a_subclassed_model_must_be_built_first(x):
    model = Subclassed()
    with pytest.raises(ValueError, match="is not built: call it on data"):
        tfp_refine.predict(model, x)
    model(x)
    assert tfp_refine.predict(model, x, 3).shape == (3, 7, 2)


def test_any_posterior_draws_by_itself(model, x):
    posterior = tfp_refine.posterior(model)
    np.testing.assert_array_equal(
        tfp_refine.predict(posterior, x, 5, seed=2, batch_size=3),
        posterior.predict(x, 5, seed=2, batch_size=3),
    )
    with pytest.raises(ValueError, match="`sample=False` needs a keras.Model"):
        tfp_refine.predict(posterior, x, sample=False)


@pytest.mark.slow
def test_samples_are_of_the_variational_weights_in_their_order():
    model = make_model()
    posterior = tfp_refine.posterior(model)
    drawn = posterior.sample(500, seed=1)
    weights = functional.variational_weights(model)
    locs = np.concatenate([np.ravel(w.loc) for w in weights])
    scales = np.concatenate([np.ravel(w.scale) for w in weights])
    assert drawn.shape == (500, len(locs))
    # Six standard errors.
    errors = scales / np.sqrt(500)
    assert np.max(np.abs(drawn.mean(axis=0) - locs) / errors) < 6.0
    np.testing.assert_allclose(
        drawn.std(axis=0), scales, rtol=6 / np.sqrt(2 * 500)
    )


def test_a_model_without_variational_layers_has_no_samples(x):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    posterior = tfp_refine.posterior(model)
    draws = posterior.predict(x, 3)
    np.testing.assert_allclose(draws, [model(x)] * 3, rtol=1e-5)
    with pytest.raises(ValueError, match="no variational layers"):
        posterior.sample(3)


@pytest.mark.parametrize("function", [tfp_refine.predict, tfp_refine.summarize])
def test_equal_draws_of_a_deterministic_model_are_told(x, function):
    inputs = keras.Input((3,))
    dropped = keras.layers.Dropout(0.5)(inputs)  # in training alone
    model = keras.Model(inputs, keras.layers.Dense(2)(dropped), name="plain")
    with pytest.warns(UserWarning, match="All draws are equal.*'plain'"):
        function(model, x, 3)
    function(model, x, 1)
    function(model, x, 3, sample=False)  # as was asked for


def test_a_saved_posterior_has_the_weights_that_the_model_had(x, tmp_path):
    model = make_model()
    posterior = tfp_refine.posterior(model)
    expected = posterior.predict(x, 3, seed=1)
    posterior.save(tmp_path / "a.posterior")
    before = model.get_weights()
    model.set_weights([weight + 0.1 for weight in before])
    loaded = tfp_refine.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(loaded.predict(x, 3, seed=1), expected)
    with pytest.raises(ValueError, match="`model` must have the weights"):
        tfp_refine.load_posterior(tmp_path / "a.posterior", model)
    model.set_weights(before)
    again = tfp_refine.load_posterior(tmp_path / "a.posterior", model)
    np.testing.assert_array_equal(again.predict(x, 3, seed=1), expected)


def test_the_means_of_a_posterior_are_saved_as_such(x, tmp_path):
    posterior = tfp_refine.posterior(make_model(), sample=False)
    expected = posterior.predict(x, 2)
    np.testing.assert_array_equal(expected[0], expected[1])
    posterior.save(tmp_path / "a.posterior")
    loaded = tfp_refine.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(loaded.predict(x, 2), expected)


ONES = np.ones((2, 3))


@pytest.mark.parametrize(
    ("x", "arguments", "message"),
    [
        (np.ones((2, 4)), {}, r"expects inputs.*\[\(None, 3\)\].*\(2, 4\)"),
        (np.ones(3), {}, r"expects inputs of shape.*x of shape \[\(3,\)\]"),
        ([ONES, ONES], {}, r"expects inputs of shape"),
        (ONES[:0], {}, "`x` must not be empty"),
        (ONES * np.nan, {}, "`x` must be finite"),
        (np.array([["a", "b", "c"]]), {}, "expects numbers as its input"),
        (ONES, {"num_samples": 0}, "`num_samples` must be a positive"),
        (ONES, {"batch_size": -1}, "`batch_size` must be a positive"),
        (ONES, {"seed": "1"}, "`seed` must be a non-negative"),
        (ONES, {"seed": -1}, "`seed` must not be negative"),
    ],
)
def test_bad_input_is_refused(model, x, arguments, message):
    with pytest.raises(ValueError, match=message):
        tfp_refine.predict(model, x, **arguments)


def test_what_is_no_model_is_refused(x):
    with pytest.raises(
        ValueError, match="a keras.Model or a post.*: DenseFlipout"
    ):
        tfp_refine.predict(layers.DenseFlipout(2), x)


def test_a_model_is_traced_once_to_predict():
    calls = []

    class Counting(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.DenseFlipout(2, num_train_examples=10)

        def call(self, x):
            calls.append(x)
            return self.dense(x)

    model = Counting()
    model(np.zeros([1, 3]))
    calls.clear()
    posterior = tfp_refine.posterior(model)
    for seed in range(3):
        posterior.predict(np.ones([4, 3]), 5, seed=seed)
    assert len(calls) == 1


class Fourth(keras.layers.Layer):
    """Raises its inputs to the fourth power, which may overflow."""

    def call(self, inputs):
        return inputs**4


@pytest.mark.parametrize("batch_size", [2, 100])
@pytest.mark.parametrize("function", [tfp_refine.predict, tfp_refine.summarize])
def test_outputs_that_are_not_finite_are_returned_with_a_warning(
    function, batch_size
):
    model = keras.Sequential(
        [
            keras.Input((2,)),
            layers.DenseFlipout(3, num_train_examples=5),
            Fourth(),
        ],
        name="fourth",
    )
    x = np.ones((5, 2), "float32")
    x[3, 1] = -1e20
    with pytest.warns(
        RuntimeWarning,
        match="12 of 60 outputs of the model 'fourth'.*first in draw 0 of "
        r"example 3, whose largest input is 1e\+20",
    ):
        found = function(model, x, 4, seed=1, batch_size=batch_size)
    if function is tfp_refine.predict:
        assert np.isfinite(found).all(axis=(0, 2)).tolist() == (
            [True] * 3 + [False, True]
        )


def test_large_but_finite_outputs_do_not_warn():
    model = keras.Sequential(
        [keras.Input((2,)), layers.DenseFlipout(3, num_train_examples=5)]
    )
    draws = tfp_refine.predict(
        model, np.full((5, 2), 1e38, "float32"), 4, seed=1
    )
    assert np.isfinite(draws).all()
