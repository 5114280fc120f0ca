"""Layers that draw all their weights, and then compute as Keras does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr

NUM_EXAMPLES = 50
RECURRENT = [
    (tfr.layers.LSTMReparameterization, keras.layers.LSTM),
    (tfr.layers.GRUReparameterization, keras.layers.GRU),
]
ALL = [
    *RECURRENT,
    (tfr.layers.EmbeddingReparameterization, keras.layers.Embedding),
]
recurrent = pytest.mark.parametrize(
    ("kind", "twin"), RECURRENT, ids=["LSTM", "GRU"]
)
every = pytest.mark.parametrize(
    ("kind", "twin"), ALL, ids=["LSTM", "GRU", "Embedding"]
)


def is_embedding(kind):
    return kind is tfr.layers.EmbeddingReparameterization


def make(kind, **options):
    sizes = (7, 3) if is_embedding(kind) else (3,)
    options = {"num_train_examples": NUM_EXAMPLES, "seed": 1} | options
    return kind(*sizes, **options)


def inputs_of(kind, size=4):
    rng = np.random.default_rng(0)
    if is_embedding(kind):
        return rng.integers(0, 7, size=(size, 5))
    return rng.normal(size=(size, 5, 2)).astype("float32")


def same_twin(layer, twin, x, **options):
    sizes = (7, 3) if twin is keras.layers.Embedding else (3,)
    deterministic = twin(*sizes, **options)
    deterministic(x)
    deterministic.set_weights(layer.layer.get_weights())
    return deterministic


@every
def test_at_the_means_it_is_the_layer_of_keras(kind, twin):
    layer, x = make(kind), inputs_of(kind)
    layer(x)
    deterministic = same_twin(layer, twin, x)
    expected = deterministic(x)
    np.testing.assert_array_equal(layer(x, sample=False), expected)
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(layer(x), expected)
    assert np.abs(np.array(layer(x)) - np.array(expected)).max() > 0.0


@recurrent
def test_sequences_masks_and_states_are_as_in_keras(kind, twin):
    options = {"return_sequences": True, "return_state": True}
    layer, x = make(kind, **options), inputs_of(kind)
    layer(x)
    deterministic = same_twin(layer, twin, x, **options)
    mask = np.arange(5) < np.array([[5], [3], [1], [4]])
    states = [np.ones((4, 3), np.float32)] * (
        2 if twin is keras.layers.LSTM else 1
    )
    given = {"mask": mask, "initial_state": states}
    for one, other in zip(
        layer(x, sample=False, **given), deterministic(x, **given), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    symbolic = layer(keras.Input((5, 2)))
    assert [tuple(s.shape) for s in symbolic] == [
        (None, 5, 3), *[(None, 3)] * len(states)
    ]  # fmt: skip


@every
def test_a_call_has_one_draw_and_the_next_another(kind, twin):
    layer = make(kind, **_wide(kind))
    x = inputs_of(kind, size=1)
    repeated = np.repeat(x, 3, axis=0)
    first, second = np.array(layer(repeated)), np.array(layer(repeated))
    np.testing.assert_allclose(first[0], first[1], atol=1e-6)
    np.testing.assert_allclose(first[0], first[2], atol=1e-6)
    assert np.abs(first - second).max() > 1e-3


def _wide(kind):
    posterior = tfr.layers.MeanFieldPosterior(0.3)
    return {f"{part}_posterior": posterior for part, _ in kind.parts}


@pytest.mark.slow
def test_equal_numbers_have_equal_embeddings_of_the_posteriors_moments():
    kind = tfr.layers.EmbeddingReparameterization
    layer = make(kind, **_wide(kind))
    x = np.array([[0, 1, 0]])
    draws = np.array([layer(x)[0] for _ in range(400)])
    np.testing.assert_array_equal(draws[:, 0], draws[:, 2])
    loc = np.array(layer.layer.embeddings)[:2]
    # Six means and deviations of 400 draws: beyond 5 standard errors once in
    # 1e5 runs.
    z = (draws[:, :2].mean(axis=0) - loc) / (0.3 / np.sqrt(400))
    assert np.abs(z).max() < 5.0
    ratio = draws[:, :2].std(axis=0) / 0.3
    assert np.abs(ratio - 1.0).max() < 5.0 / np.sqrt(800)


@recurrent
def test_outputs_are_those_of_the_drawn_weights(kind, twin, monkeypatch):
    layer, x = make(kind, **_wide(kind)), inputs_of(kind)
    layer(x)
    drawn = {}
    weights = layer.variational_weights
    assert [w.name for w in weights] == ["kernel", "recurrent_kernel", "bias"]
    for weight in weights:
        drawn[weight.name] = weight.sample(
            keras.random.SeedGenerator(3), "float32"
        )
        monkeypatch.setattr(
            weight, "sample", lambda *_, name=weight.name: drawn[name]
        )
    deterministic = same_twin(layer, twin, x)
    deterministic.set_weights([drawn[w.name] for w in weights])
    np.testing.assert_allclose(layer(x), deterministic(x), rtol=1e-6)


@every
def test_the_divergence_is_counted_once_and_is_that_of_the_weights(kind, twin):
    layer, x = make(kind), inputs_of(kind)
    layer(x)
    layer(x)
    expected = sum(float(w.kl()) for w in layer.variational_weights)
    assert expected > 0.0
    assert len(layer.losses) == len(layer.variational_weights)
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), expected / NUM_EXAMPLES, rtol=1e-5
    )


@recurrent
def test_priors_know_the_inputs_of_a_unit(kind, twin):
    prior = tfr.regularizers.GaussianKL("fan_in")
    names = ("kernel", "recurrent", "bias")
    layer = make(kind, **{f"{name}_regularizer": prior for name in names})
    layer(inputs_of(kind))
    scales = [float(w.prior.scale) for w in layer.variational_weights]
    np.testing.assert_allclose(scales, [2**-0.5, 3**-0.5, 2**-0.5], rtol=1e-6)


@pytest.mark.slow
@recurrent
def test_both_directions_draw_weights_of_their_own(kind, twin):
    wide = tfr.layers.MeanFieldPosterior(0.5)
    layer = make(
        kind,
        return_sequences=True,
        kernel_posterior=wide,
        kernel_initializer="ones",
    )
    both = keras.layers.Bidirectional(layer, merge_mode=None)
    x = inputs_of(kind)
    forward, backward = both(x)
    assert len(both.losses) == 6
    with tfr.layers.mean_weights():
        means = both(x)
    expected = keras.layers.Bidirectional(
        twin(3, return_sequences=True), merge_mode=None
    )
    expected(x)
    weights = both.forward_layer.layer.get_weights()
    weights += both.backward_layer.layer.get_weights()
    expected.set_weights(weights)
    for ours, theirs in zip(means, expected(x), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    # Both have the seed of `layer`. Their noise is that of 6 weights, 200 times
    # each: correlated by 5 / sqrt(1200) once in 1e6 runs.
    noise = [
        np.ravel(
            [
                one.weight_tensors[0].sample(one.seed_generator, "float32")
                - one.weight_tensors[0].loc
                for _ in range(200)
            ]
        )
        for one in (both.forward_layer, both.backward_layer)
    ]
    assert np.abs(np.corrcoef(*noise)[0, 1]) < 5.0 / np.sqrt(1200)


@recurrent
def test_a_batch_may_begin_with_the_states_of_the_one_before(kind, twin):
    layer, x = make(kind, stateful=True), inputs_of(kind)
    with tfr.layers.mean_weights():
        first, second = layer(x), layer(x)
        assert np.abs(np.array(first) - np.array(second)).max() > 1e-4
        np.testing.assert_array_equal(layer.states[0], second)
        layer.reset_state()
        np.testing.assert_array_equal(layer(x), first)


@every
def test_means_and_scales_have_gradients(kind, twin):
    layer, x = make(kind), inputs_of(kind)
    layer(x)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(layer(x)))
    variables = [
        variable.value
        for weight in layer.variational_weights
        for variable in (weight.loc, *weight.scale_weights)
    ]
    gradients = tape.gradient(loss, variables)
    assert all(g is not None for g in gradients)
    assert all(np.abs(tf.convert_to_tensor(g)).max() > 0.0 for g in gradients)


@every
def test_variables_are_back_after_each_call_even_a_failed_one(
    kind, twin, monkeypatch
):
    layer, x = make(kind), inputs_of(kind)
    layer(x)
    before = [w.loc for w in layer.variational_weights]

    def fail(*args, **kwargs):
        raise RuntimeError("inside")

    with monkeypatch.context() as patched:
        patched.setitem(layer.layer.__dict__, "call", fail)
        with pytest.raises(RuntimeError, match="inside"):
            layer(x)
    layer(x)
    names = [name for _, name in kind.parts]
    for variable, name in zip(before, names, strict=True):
        assert getattr(layer.owner(), name) is variable
    assert len(layer.trainable_weights) == 2 * len(before)


@pytest.mark.slow
@every
def test_models_are_trained_and_saved(kind, twin, tmp_path):
    x = inputs_of(kind, size=20)
    y = np.ones((20, 1), np.float32)
    model = keras.Sequential(
        [
            keras.Input(x.shape[1:], dtype=x.dtype),
            make(kind),
            keras.layers.Flatten(),
            tfr.layers.DenseFlipout(1, num_train_examples=NUM_EXAMPLES),
        ]
    )
    tfr.layers.set_kl_scale(model, 0.0)
    model.compile(keras.optimizers.Adam(0.03), "mse")
    losses = model.fit(x, y, epochs=30, verbose=0).history["loss"]
    assert losses[-1] < 0.5 * losses[0]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(loaded(x), model(x))
    first, second = (m.layers[0].get_config() for m in (model, loaded))
    assert first == second


@pytest.mark.slow
@every
def test_predictions_of_a_compiled_model_differ_by_draw(kind, twin):
    x = inputs_of(kind)
    model = keras.Sequential(
        [keras.Input(x.shape[1:], dtype=x.dtype), make(kind, **_wide(kind))]
    )
    draws = tfr.predict(model, x, 5, seed=1)
    np.testing.assert_array_equal(draws, tfr.predict(model, x, 5, seed=1))
    assert np.std(draws, axis=0).min() > 0.0
    means = tfr.predict(model, x, 1, sample=False)[0]
    with tfr.layers.mean_weights():
        np.testing.assert_allclose(means, model(x), rtol=1e-5, atol=1e-6)


@every
def test_half_precision(kind, twin):
    layer = make(kind, dtype="mixed_float16", **_wide(kind))
    outputs = layer(inputs_of(kind))
    assert outputs.dtype == "float16"
    assert np.all(np.isfinite(np.array(outputs)))
    assert all(w.loc.dtype == "float32" for w in layer.variational_weights)
    assert all(np.isfinite(float(loss)) for loss in layer.losses)


def test_masked_numbers_stay_masked():
    layer = tfr.layers.EmbeddingReparameterization(
        7, 3, mask_zero=True, num_train_examples=NUM_EXAMPLES
    )
    mask = layer.compute_mask(np.array([[1, 0, 2]]))
    np.testing.assert_array_equal(mask, [[True, False, True]])
    model = keras.Sequential(
        [
            keras.Input((3,), dtype="int32"),
            layer,
            tfr.layers.LSTMReparameterization(
                2, num_train_examples=NUM_EXAMPLES
            ),
        ]
    )
    with tfr.layers.mean_weights():
        padded = np.array(model(np.array([[1, 2, 0], [1, 2, 0]])))
        other = model(np.array([[1, 2, 0]]))
    np.testing.assert_allclose(padded[:1], other, rtol=1e-6)


@recurrent
def test_point_estimates_may_have_a_regularizer_of_keras(kind, twin):
    layer = make(kind, recurrent_posterior=None, recurrent_regularizer="l2")
    layer(inputs_of(kind))
    assert [w.name for w in layer.variational_weights] == ["kernel", "bias"]
    kernel = layer.layer.cell.recurrent_kernel
    penalty = 0.01 * float(np.sum(np.square(kernel)))
    kl = sum(float(w.kl()) for w in layer.variational_weights)
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), kl / NUM_EXAMPLES + penalty, rtol=1e-5
    )


@recurrent
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_regularizer": "l2"}, "must be a KL regularizer"),
        ({"recurrent_posterior": "magic"}, "posterior must be one of"),
        ({"num_train_examples": 0}, "num_train_examples"),
        ({"kl_scale": -1.0}, "kl_scale"),
    ],
    ids=str,
)
def test_bad_arguments(kind, twin, options, message):
    with pytest.raises(ValueError, match=message):
        make(kind, **options)


def test_the_number_of_training_examples_must_be_known():
    layer = make(tfr.layers.GRUReparameterization, num_train_examples=None)
    layer(inputs_of(tfr.layers.GRUReparameterization))
    with pytest.raises(ValueError, match="does not know the number"):
        _ = layer.losses


@every
@pytest.mark.parametrize("size", [0, -1, 1.5, True, "", None, np.ones(2)])
def test_sizes_are_positive_integers(kind, twin, size):
    names = ["input_dim", "output_dim"] if is_embedding(kind) else ["units"]
    for name in names:
        arguments = dict.fromkeys(names, 3) | {name: size}
        message = f"`{name}` must be a positive integer"
        with pytest.raises(ValueError, match=message):
            kind(**arguments)
        with pytest.raises(ValueError, match=message):
            kind(*arguments.values())


@recurrent
def test_inputs_of_another_shape_are_refused(kind, twin):
    layer = make(kind)
    for shape in ((), (4,), (4, 5), (4, 5, 2, 1)):
        with pytest.raises(ValueError, match="expected ndim=3"):
            layer(np.ones(shape, "float32"))
    layer(inputs_of(kind))
    with pytest.raises(ValueError, match="expected axis -1 .* have value 2"):
        layer(np.ones((4, 5, 3), "float32"))


@recurrent
def test_sequences_without_steps_and_steps_without_features_are_told(
    kind, twin
):
    with pytest.raises(ValueError, match="must have at least one feature"):
        make(kind)(np.zeros((2, 3, 0), np.float32))
    with pytest.raises(ValueError, match="must have at least one step"):
        make(kind)(np.zeros((2, 0, 3), np.float32))
