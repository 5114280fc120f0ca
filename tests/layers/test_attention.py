import os

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow_probability import distributions as tfd

import tfp_refine as tfr
from tests.support import attention
from tests.support import layer_case
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import regularizers

WIDE = layers.MeanFieldPosterior(0.3)
PROJECTIONS = ("query", "key", "value", "attention_output")
every_kind = pytest.mark.parametrize("kind", attention.ALL)
# Of parts that no estimator changes, quick tests have one of each layer.
_QUICK = (attention.MULTI_HEAD[2], attention.GROUP_QUERY[1])


def some_quick(kinds):
    return pytest.mark.parametrize(
        "kind",
        [
            pytest.param(kind, marks=[pytest.mark.slow] * (kind not in _QUICK))
            for kind in kinds
        ],
    )


LOCAL = [kind for kind in attention.ALL if "Local" in kind.__name__]
ESTIMATORS = ("reparameterization", "local_reparameterization", "flipout")


def estimator(kind):
    return ESTIMATORS[attention.ALL.index(kind) % 3]


def make(kind, **arguments):
    """Returns a layer with wide posteriors, not built."""
    return kind(
        *attention.SIZES[kind],
        **{
            "kernel_posterior": WIDE,
            "bias_posterior": WIDE,
            "kernel_initializer": keras.initializers.HeNormal(seed=2),
            "bias_initializer": keras.initializers.RandomNormal(seed=3),
            "num_train_examples": 50,
            "seed": 1,
            **arguments,
        },
    )


def twin_of(layer):
    """Returns the built layer of Keras with the means of a layer."""
    names = layer_case.init_arguments(layer.keras_layer) | {"dtype"}
    config = {k: v for k, v in layer.get_config().items() if k in names}
    twin = layer.keras_layer(
        **config | {"kernel_regularizer": None, "bias_regularizer": None}
    )
    shapes = layer.get_build_config()["shapes_dict"]
    twin.build(**shapes)
    for name, weight in layer.twin_weights.items():
        projection, variable = name.split(".")
        getattr(getattr(twin, projection), variable).assign(weight.loc)
    return twin


def tokens(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape).astype("float32")


def projections(layer):
    return [
        part
        for part in layer._flatten_layers(include_self=False)
        if isinstance(part, layers.VariationalLayer)
    ]


CALLS = {
    "plain": {},
    "causal": {"use_causal_mask": True},
    "mask": {"attention_mask": np.arange(12).reshape(1, 3, 4) % 3 > 0},
    "scores": {"return_attention_scores": True},
    "causal_scores": {"use_causal_mask": True, "return_attention_scores": True},
    "masked_query": {"query_mask": np.array([[True, True, False]] * 2)},
    "masked_value": {"value_mask": np.array([[True, True, True, False]] * 2)},
}


@pytest.mark.slow
@some_quick(attention.ALL)
@pytest.mark.parametrize("call", CALLS)
def test_at_the_means_it_is_the_layer_of_keras_to_the_last_bit(kind, call):
    options = CALLS[call]
    layer = make(kind, use_gate=call == "causal")
    query, value = tokens(2, 3, 6), tokens(2, 4, 6, seed=1)
    layer(query, value)
    expected = keras.tree.flatten(twin_of(layer)(query, value, **options))
    with layers.mean_weights():
        in_scope = layer(query, value, **options)
        override = layer(query, value, sample=True, **options)
    silent = layer(query, value, sample=False, **options)
    for outputs in (silent, in_scope):
        for ours, theirs in zip(
            keras.tree.flatten(outputs), expected, strict=True
        ):
            np.testing.assert_array_equal(ours, theirs)
    for outputs in (override, layer(query, value, **options)):
        assert layer_case.differ(keras.tree.flatten(outputs)[0], expected[0])


@some_quick(attention.MULTI_HEAD)
def test_other_shapes_are_those_of_keras(kind):
    layer = make(
        kind, value_dim=4, output_shape=(5,), attention_axes=1, dropout=0.5
    )
    query, value, key = (
        tokens(2, 3, 2, 6),
        tokens(2, 4, 2, 6),
        tokens(2, 4, 2, 7),
    )
    outputs = layer(query, value, key, sample=False)
    np.testing.assert_array_equal(outputs, twin_of(layer)(query, value, key))
    assert outputs.shape == (2, 3, 2, 5)
    symbolic = layer(keras.Input((3, 2, 6)), value, key, sample=False)
    assert symbolic.shape == (None, 3, 2, 5)


# That of grouped queries leaves the mask on, in Keras too.
@pytest.mark.filterwarnings("ignore:.*does not support masking:UserWarning")
@some_quick(attention.ALL)
def test_masks_of_embeddings_reach_it(kind):
    embedding = keras.layers.Embedding(5, 6, mask_zero=True)
    layer = make(kind)
    inputs = keras.Input((4,), dtype="int64")
    embedded = embedding(inputs)
    model = keras.Model(inputs, layer(embedded, embedded, sample=False))
    padded = np.array([[1, 2, 0, 0]])
    found = np.asarray(model(padded))[:, :2]
    short = layer(*[embedding(padded[:, :2])] * 2, sample=False)
    np.testing.assert_allclose(found, short, rtol=1e-5, atol=1e-6)


@some_quick(attention.ALL)
def test_causal_outputs_see_the_past_only(kind):
    layer, x = make(kind), tokens(1, 5, 6)
    later = np.array(x)
    later[:, 3:] += 1.0
    outputs = []
    for inputs in (x, later):
        layer(x, x)
        functional.seeds.reseed(layer, 0)
        outputs.append(np.asarray(layer(inputs, inputs, use_causal_mask=True)))
    changed = np.any(np.abs(outputs[0] - outputs[1]) > 1e-5, axis=(0, 2))
    np.testing.assert_array_equal(changed, [False] * 3 + [True] * 2)


@pytest.mark.slow
@every_kind
def test_tokens_and_examples_share_draws_as_the_estimator_says(kind):
    layer = make(kind)
    x = np.repeat(np.repeat(tokens(1, 1, 6), 3, axis=0), 4, axis=1)
    outputs = np.asarray(layer(x, x))
    of_tokens = np.ptp(outputs, axis=1).max()
    of_examples = np.ptp(outputs, axis=0).max()
    assert (of_tokens > 1e-3) == (kind in LOCAL)
    shares = estimator(kind) == "reparameterization"
    assert (of_examples > 1e-3) == (not shares)
    assert layer_case.differ(outputs, layer(x, x))


@pytest.mark.parametrize(
    "kind",
    [kind for kind in attention.ALL if estimator(kind) == "reparameterization"],
)
def test_outputs_are_those_of_the_drawn_weights(kind, monkeypatch):
    layer, x = make(kind), tokens(2, 3, 6)
    layer(x, x)
    twin = twin_of(layer)
    for name, weight in layer.twin_weights.items():
        drawn = weight.sample(keras.random.SeedGenerator(3), "float32")
        monkeypatch.setattr(weight, "sample", lambda *_, drawn=drawn: drawn)
        projection, variable = name.split(".")
        getattr(getattr(twin, projection), variable).assign(drawn)
    np.testing.assert_array_equal(layer(x, x), twin(x, x))


@pytest.mark.slow
@some_quick(attention.ALL)
def test_the_divergence_is_that_of_tfp_counted_once(kind):
    layer = make(kind, kernel_regularizer=regularizers.GaussianKL(0.7))
    x = tokens(2, 3, 6)
    layer(x, x)
    layer(x, x)
    weights = layer.twin_weights.values()
    expected = sum(
        tf.reduce_sum(
            tfd.kl_divergence(
                tfd.Normal(w.loc.value, w.scale),
                tfd.Normal(0.0, 0.7 if w.name == "kernel" else 1.0),
            )
        )
        for w in weights
    )
    assert len(layer.losses) == len(weights) == 8
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), expected / 50, rtol=1e-5
    )
    before = sum(map(float, layer.losses))
    layers.set_num_train_examples(layer, 100)
    layers.set_kl_scale(layer, 0.25)
    np.testing.assert_allclose(
        sum(map(float, layer.losses)), before / 8, rtol=1e-6
    )
    assert layer.get_config()["num_train_examples"] == 100


@some_quick(attention.ALL)
def test_the_number_of_examples_may_be_set_before_the_layer_is_built(kind):
    layer = make(kind, num_train_examples=None)
    layers.set_num_train_examples(layer, 50)
    x = tokens(2, 3, 6)
    layer(x, x)
    assert np.all(np.isfinite(layer.losses))
    other = make(kind, num_train_examples=None)
    other(x, x)
    with pytest.raises(ValueError, match="does not know the number"):
        _ = other.losses


@pytest.mark.slow
@some_quick(attention.ALL)
def test_projections_draw_from_streams_of_their_own(kind):
    layer, x = make(kind, use_gate=True), tokens(2, 3, 6)
    first, second = (np.asarray(layer(x, x)) for _ in range(2))
    again = make(kind, use_gate=True)
    np.testing.assert_array_equal(again(x, x), first)
    np.testing.assert_array_equal(again(x, x), second)
    assert layer_case.differ(make(kind, seed=2, use_gate=True)(x, x), first)
    states = {
        tuple(np.array(p.seed_generator.state)) for p in projections(layer)
    }
    assert len(states) == 5
    assert {part.name for part in projections(layer)} == {*PROJECTIONS, "gate"}


@pytest.mark.slow
@some_quick(attention.ALL)
def test_it_survives_files_and_copies(kind, tmp_path):
    layer = make(
        kind,
        dropout=0.1,
        sliding_window=2,
        use_gate=True,
        kernel_initializer=keras.initializers.HeNormal(seed=3),
        kernel_regularizer=regularizers.EmpiricalBayesKL(),
        bias_posterior=None,
        bias_regularizer="l2",
        kernel_constraint="non_neg",
        activity_regularizer="l1",
        kl_scale=0.5,
        sample=True,
    )
    inputs = keras.Input((3, 6))
    model = keras.Model(inputs, layer(inputs, inputs))
    assert type(layer).from_config(layer.get_config()).get_config() == (
        layer.get_config()
    )
    x = tokens(2, 3, 6)
    path = os.fspath(tmp_path / "model.keras")
    model.save(path)
    loaded = keras.models.load_model(path)
    assert loaded.layers[-1].get_config() == layer.get_config()
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for other in (loaded, clone):
        for either in (model, other):
            functional.seeds.reseed(either, 3)
        np.testing.assert_array_equal(model(x), other(x))
        assert np.array_equal(
            [float(loss) for loss in model.losses],
            [float(loss) for loss in other.losses],
        )


@some_quick(attention.ALL)
def test_it_starts_where_the_layer_of_keras_starts(kind):
    layer = make(kind, kernel_initializer=keras.initializers.HeNormal(seed=3))
    twin = layer.keras_layer(
        *attention.SIZES[kind],
        kernel_initializer=keras.initializers.HeNormal(seed=3),
    )
    x = tokens(2, 3, 6)
    layer(x, x)
    twin(x, x)
    for name, weight in layer.twin_weights.items():
        if weight.name == "kernel":
            projection, variable = name.split(".")
            expected = getattr(getattr(twin, projection), variable)
            np.testing.assert_array_equal(weight.loc, expected)


@some_quick(attention.ALL)
def test_half_precision(kind):
    layer, x = make(kind, dtype="mixed_float16"), tokens(2, 3, 6)
    outputs = layer(x, x)
    assert outputs.dtype == "float16"
    assert np.all(np.isfinite(np.asarray(outputs)))
    assert {weight.dtype for weight in layer.weights} == {"float32"}
    assert all(np.isfinite(float(loss)) for loss in layer.losses)


class Block(keras.Model):
    """A model that Keras builds when it is first trained, inside a trace."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def call(self, inputs):
        return self.layer(inputs, inputs)


@pytest.mark.slow
@some_quick(attention.MULTI_HEAD)
def test_it_trains_in_a_subclassed_model_that_is_not_built(kind):
    model = Block(make(kind))
    model.compile("sgd", "mse")
    x = tokens(4, 3, 6)
    history = model.fit(x, x, verbose=0)
    assert np.isfinite(history.history["loss"][0])
    assert len(model.trainable_weights) == 16


@pytest.mark.parametrize("posterior", ["k_tied", "low_rank", "fixed_variance"])
@some_quick(attention.MULTI_HEAD)
def test_it_takes_every_family_of_posteriors(kind, posterior):
    layer, x = make(kind, kernel_posterior=posterior), tokens(2, 3, 6)
    assert np.all(np.isfinite(layer(x, x)))
    families = [w.family for w in layer.twin_weights.values()]
    assert families == [posterior, "mean_field"] * 4


@pytest.mark.slow
@every_kind
def test_attention_of_keras_becomes_bayesian_and_back(kind):
    twin = kind.keras_layer(
        *attention.SIZES[kind],
        bias_initializer="random_normal",
        kernel_regularizer="l2",
        use_gate=True,
        name="attention",
    )
    inputs = keras.Input((None, 6))
    outputs = twin(inputs, inputs, use_causal_mask=True)
    model = keras.Model(inputs, keras.layers.Dense(2)(outputs))
    bayesian = tfr.models.to_bayesian(
        model, num_train_examples=10, estimator=estimator(kind), seed=0
    )
    made = bayesian.get_layer("attention")
    assert type(made) is kind
    assert len(made.losses) == 10
    x = tokens(2, 5, 6)
    with layers.mean_weights():
        np.testing.assert_array_equal(bayesian(x), model(x))
    assert layer_case.differ(bayesian(x), model(x))
    # MOPED: a tenth of the means.
    weight = made.twin_weights["_query_dense.kernel"]
    np.testing.assert_allclose(
        weight.scale, 0.1 * np.abs(weight.loc), rtol=1e-3, atol=1e-6
    )
    back = tfr.models.to_deterministic(bayesian)
    assert type(back.get_layer("attention")) is kind.keras_layer
    np.testing.assert_array_equal(back(x), model(x))
    drawn = tfr.models.to_deterministic(bayesian, seed=1)
    assert layer_case.differ(drawn(x), model(x))


def test_attention_with_posteriors_gets_no_dropout_as_well():
    inputs = keras.Input((3, 6))
    outputs = make(attention.MULTI_HEAD[0])(inputs, inputs)
    model = keras.Model(inputs, outputs)
    with pytest.raises(ValueError, match="has layers with posteriors already"):
        tfr.models.to_mc_dropout(model, num_train_examples=10)


def test_attention_with_adapters_is_kept_and_named():
    inputs = keras.Input((3, 6))
    twin = keras.layers.MultiHeadAttention(2, 3, name="attention")
    model = keras.Model(inputs, keras.layers.Dense(2)(twin(inputs, inputs)))
    twin.query_dense.enable_lora(2)
    with (
        pytest.warns(UserWarning, match="without posteriors.*attention"),
        pytest.warns(UserWarning, match="not reached: attention/key"),
        pytest.warns(UserWarning, match="'attention'.* is kept itself"),
    ):
        tfr.models.to_bayesian(model, num_train_examples=10)


class Cached(layers.MultiHeadAttentionFlipout):
    """Attention of the next token to the keys and values of those before."""

    def call(self, query, cache, index):
        key, value = self._key_dense(query), self._value_dense(query)
        update = keras.ops.stack([key, value], axis=1)
        cache = keras.ops.slice_update(cache, (0, 0, index, 0, 0), update)
        seen = cache[:, :, : index + 1]
        outputs, _ = self._compute_attention(
            self._query_dense(query), seen[:, 0], seen[:, 1]
        )
        return self._output_dense(outputs), cache


def test_a_subclass_with_a_cache_computes_causal_attention_token_by_token():
    whole, x = make(layers.MultiHeadAttentionFlipout), tokens(2, 4, 6)
    expected = whole(x, x, use_causal_mask=True, sample=False)
    cached = Cached(2, 3)
    cached.build(x.shape, x.shape)
    cached.set_weights(whole.get_weights())
    cache = np.zeros((2, 2, 4, 2, 3), "float32")
    with layers.mean_weights():
        for index in range(4):
            outputs, cache = cached.call(x[:, index : index + 1], cache, index)
            np.testing.assert_allclose(
                outputs[:, 0], expected[:, index], rtol=1e-5, atol=1e-6
            )


MULTI, GROUP = attention.MULTI_HEAD[2], attention.GROUP_QUERY[2]


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (MULTI, {"num_heads": 0}, "`num_heads` must be a positive integer.*=0"),
        (MULTI, {"key_dim": 1.5}, "`key_dim` must be a positive integer.*=1.5"),
        (MULTI, {"value_dim": 0}, "`value_dim` must be a positive integer.*=0"),
        (MULTI, {"sliding_window": 0}, "`sliding_window` must be.*=0"),
        (MULTI, {"attention_axes": "a"}, "`attention_axes` must be.*='a'"),
        (MULTI, {"dropout": 1.0}, r"`dropout` must be .*\[0, 1\).*=1.0"),
        (
            MULTI,
            {"dropout": 0.1, "flash_attention": True},
            "Dropout is not supported when flash attention",
        ),
        (MULTI, {"kernel_posterior": "magic"}, "posterior must be one of"),
        (MULTI, {"kernel_regularizer": "l2"}, "must be a KL regularizer"),
        (
            MULTI,
            {"kernel_regularizer": "scale_mixture_kl"},
            "MultiHeadAttentionFlipout draws no weights",
        ),
        (MULTI, {"num_train_examples": 0}, "num_train_examples"),
        (MULTI, {"kl_scale": -1.0}, "kl_scale"),
        (GROUP, {"head_dim": 0}, "`head_dim` must be a positive integer.*=0"),
        (
            GROUP,
            {"num_key_value_heads": 0},
            "`num_key_value_heads` must be a positive integer.*=0",
        ),
        (
            GROUP,
            {"num_key_value_heads": 3},
            "`num_query_heads` must be a multiple.*heads=4.*heads=3",
        ),
        (GROUP, {"dropout": -0.1}, r"`dropout` must be .*\[0, 1\).*=-0.1"),
    ],
    ids=str,
)
def test_bad_arguments(kind, arguments, message):
    names = {
        MULTI: ("num_heads", "key_dim"),
        GROUP: ("head_dim", "num_query_heads", "num_key_value_heads"),
    }[kind]
    sizes = dict(zip(names, attention.SIZES[kind], strict=True))
    with pytest.raises(ValueError, match=message):
        kind(**sizes | arguments)


@pytest.mark.parametrize("axes", [(2,), (-1,), (1, -2), (9,)], ids=str)
def test_axes_that_tokens_do_not_have_are_refused(axes):
    layer, x = make(MULTI, attention_axes=axes), tokens(2, 3, 6)
    with pytest.raises(ValueError, match="`attention_axes` must be.*2, 3, 6"):
        layer(x, x)
    for axes in (-2, (0, 1)):
        assert make(MULTI, attention_axes=axes)(x, x).shape == x.shape


@pytest.mark.parametrize("kind", [MULTI, GROUP])
def test_scores_and_flash_attention_exclude_each_other(kind):
    layer, x = make(kind, flash_attention=True), tokens(2, 3, 6)
    with pytest.raises(ValueError, match="attention scores is not supported"):
        layer(x, x, return_attention_scores=True)
    assert layer.get_config()["flash_attention"]


@pytest.mark.slow
@every_kind
def test_projections_are_neither_quantized_nor_adapted(kind):
    layer, x = make(kind), tokens(2, 3, 6)
    layer(x, x)
    with pytest.raises(NotImplementedError, match="cannot be quantized"):
        layer.quantize("int8")
    with pytest.raises(NotImplementedError, match="no low-rank adapters"):
        layer._query_dense.enable_lora(2)
