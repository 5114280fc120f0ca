"""Conversion of layers inside custom layers, wrappers, subclassed models."""

import collections
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import conversion
from tests.support import custom_networks
from tfp_refine.models import cloning

L = keras.layers
register = keras.saving.register_keras_serializable("tests")


def randomized(model, rng):
    """Moves weights away from where copies would start."""
    model.set_weights(
        [w + 0.2 * rng.normal(size=w.shape) for w in model.get_weights()]
    )
    return model


def leaves(outputs):
    return [np.asarray(leaf) for leaf in keras.tree.flatten(outputs)]


def assert_same(found, expected):
    for one, other in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)


def assert_same_at_means(converted, model, x):
    with tfr.layers.mean_weights():
        assert_same(converted(x), model(x))


def paths(model):
    """Returns the paths of layers with posteriors inside a model.

    Projections of attention are one layer.
    """
    prefix = f"{model.name}/"
    return sorted(
        {
            re.sub("/attention/.*", "/attention", layer.path).removeprefix(
                prefix
            )
            for layer in model._flatten_layers()
            if getattr(layer, "variational_weights", ())
        }
    )


def chain(*layers, shape=(5,)):
    return keras.Sequential([keras.Input(shape), *layers])


def vision(rng):
    x = rng.normal(size=(4, 8, 8, 1)).astype("float32")
    model = custom_networks.VisionTransformer(name="vit")
    model(x)
    return model, x


def text(rng):
    x = np.array([[1, 2, 3, 0, 0, 0], [4, 5, 6, 7, 8, 9]])
    return custom_networks.text_transformer(), x


def backbone(rng):
    model = custom_networks.Backbone(10, 8, 2, name="backbone")
    return model, {"tokens": np.arange(10).reshape(2, 5)}


def classifier(rng):
    tokens = keras.Input((5,), dtype="int32")
    pooled = custom_networks.Backbone(10, 8, 1, name="backbone").pooled(tokens)
    model = keras.Model(tokens, L.Dense(2, name="head")(pooled))
    return model, np.arange(10).reshape(2, 5)


NETWORKS = {
    "vision": (vision, 6),
    "text": (text, 7),
    "backbone": (backbone, 6),
    "classifier": (classifier, 5),
}
own_weights_stay = pytest.mark.filterwarnings(
    "ignore:These layers stay:UserWarning"
)


@own_weights_stay
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name != "vision"))
        for name in NETWORKS
    ],
)
def test_transformers_are_converted_whole_and_back(name, rng, tmp_path):
    make, count = NETWORKS[name]
    model, x = make(rng)
    randomized(model, rng)
    weights = model.get_weights()
    converted = conversion.convert(model)
    assert len(paths(converted)) >= count
    assert isinstance(converted, type(model))
    assert_same_at_means(converted, model, x)
    first, second = leaves(converted(x)), leaves(converted(x))
    for one, other in zip(first, second, strict=True):
        assert np.abs(one - other).max() > 1e-4
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for one in (converted, loaded):
        assert_same_at_means(one, model, x)
        back = tfr.models.to_deterministic(one)
        assert type(back) is type(model)
        assert_same(back(x), model(x))
        assert [v.path for v in back.weights] == [
            v.path for v in model.weights
        ] or one is loaded
    for now, before in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(now, before)


@pytest.mark.slow
@own_weights_stay
@pytest.mark.parametrize("name", NETWORKS)
def test_each_posterior_has_one_divergence_in_the_loss(name, rng):
    model, x = NETWORKS[name][0](rng)
    converted = conversion.convert(
        model, regularizer=tfr.regularizers.GaussianKL(0.5)
    )
    converted(x)
    expected = sum(
        float(weight.kl())
        for layer in converted._flatten_layers()
        for weight in getattr(layer, "variational_weights", ())
    )
    np.testing.assert_allclose(
        sum(map(float, converted.losses)),
        expected / conversion.NUM_EXAMPLES,
        rtol=1e-5,
    )
    tfr.layers.set_num_train_examples(converted, 7)
    np.testing.assert_allclose(
        sum(map(float, converted.losses)), expected / 7, rtol=1e-5
    )


@own_weights_stay
@pytest.mark.slow
@pytest.mark.parametrize("name", ["vision", "text", "classifier"])
def test_what_posteriors_can_do_they_do_for_custom_models(name, rng, tmp_path):
    model, x = NETWORKS[name][0](rng)
    y = np.arange(len(x)) % 2
    converted = conversion.convert(model, num_train_examples=len(x))
    converted.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    losses = converted.fit(x, y, epochs=3, verbose=0).history["loss"]
    assert np.all(np.isfinite(losses))
    posterior = tfr.posterior(converted)
    assert posterior.predict(x, 3, seed=1).shape[:2] == (3, len(x))
    ensemble = tfr.refine(
        converted, x, y, num_members=2, steps=2, variance_ratios=(0.5,),
        seed=1, verbose=0,
    )  # fmt: skip
    ensemble.save(tmp_path / "ensemble")
    loaded = tfr.load_posterior(tmp_path / "ensemble")
    np.testing.assert_array_equal(
        loaded.predict(x, 4, seed=1), ensemble.predict(x, 4, seed=1)
    )
    member = ensemble.member(1)
    assert isinstance(member, type(model))
    assert paths(member) == paths(converted)


@pytest.mark.slow
@own_weights_stay
def test_a_backbone_keeps_its_class_attributes_and_methods(rng):
    model, x = backbone(rng)
    converted = conversion.convert(model)
    assert converted.sizes == model.sizes
    assert converted.blocks[1] in converted.layers
    assert type(converted.embed) is tfr.layers.EmbeddingReparameterization
    assert converted.pooled(x["tokens"]).shape == (2, 8)
    # Nothing is left of the layers that its constructor makes.
    assert len(converted._layers) == len(model._layers)
    assert converted.count_params() == sum(
        int(np.prod(weight.shape)) for weight in converted.weights
    )


# The ways in which layers hold others.


class Holder(L.Layer):
    """Calls the layers that it makes; subclasses hold them differently."""

    def build(self, shape):
        for layer in self.held():
            if not layer.built:
                layer.build(shape)

    def call(self, inputs):
        for layer in self.held():
            inputs = layer(inputs)
        return inputs


def dense(name):
    return L.Dense(5, name=name)


@register
class InList(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.parts = [dense("a"), L.Activation("tanh"), [dense("b")]]

    def held(self):
        return [*self.parts[:2], *self.parts[2]]


@register
class InDict(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.parts = {"first": dense("a"), "rest": {2: dense("b")}}

    def held(self):
        return [self.parts["first"], self.parts["rest"][2]]


Pair = collections.namedtuple("Pair", ["one", "other"])


@register
class InTuple(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.parts = (dense("a"), Pair(L.Dropout(0.5), dense("b")))

    def held(self):
        return [self.parts[0], *self.parts[1]]


@register
class MadeInBuild(Holder):
    """Its `build` builds them without asking whether they are."""

    def build(self, shape):
        self.a, self.b = dense("a"), dense("b")
        for layer in self.held():
            layer.build(shape)

    def held(self):
        return [self.a, self.b]


@register
class MadeInInit(MadeInBuild):
    def __init__(self, **options):
        super().__init__(**options)
        self.a, self.b = dense("a"), dense("b")

    def build(self, shape):
        for layer in self.held():
            layer.build(shape)


@register
class BuiltByCall(Holder):
    """Leaves it to the first call to build its layers."""

    def __init__(self, **options):
        super().__init__(**options)
        self.a, self.b = dense("a"), dense("b")

    build = L.Layer.build

    def held(self):
        return [self.a, self.b]


@register
class OfModels(Holder):
    """Has models inside, one of which is built by its first call."""

    def __init__(self, **options):
        super().__init__(**options)
        self.first = chain(dense("a"), L.Activation("tanh"))
        self.second = keras.Sequential([dense("b")])

    def held(self):
        return [self.first, self.second]


@register
class Deep(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.inner = InList(name="inner")

    def held(self):
        return [self.inner]


HOLDERS = [
    InList, InDict, InTuple, MadeInBuild, MadeInInit, BuiltByCall, OfModels,
    Deep,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.build... was called on:UserWarning")
@pytest.mark.parametrize("kind", HOLDERS, ids=lambda kind: kind.__name__)
def test_layers_are_found_however_they_are_held(kind, rng, tmp_path):
    model = randomized(chain(kind(name="mine"), L.Dense(2, name="head")), rng)
    x = rng.normal(size=(3, 5)).astype("float32")
    converted = conversion.convert(model)
    layer = converted.get_layer("mine")
    assert isinstance(layer, kind)
    random = [
        part.name
        for part in layer._flatten_layers()
        if isinstance(part, tfr.layers.DenseFlipout)
    ]
    assert sorted(random) == ["a", "b"]
    assert not any(type(part) is L.Dense for part in layer._flatten_layers())
    assert_same_at_means(converted, model, x)
    before, after = (
        [v.path.rpartition("/")[0] for v in one.weights if "kernel" in v.name]
        for one in (model, converted)
    )
    assert list(dict.fromkeys(after)) == before
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_at_means(loaded, model, x)
    np.testing.assert_allclose(
        sum(map(float, loaded.losses)), sum(map(float, converted.losses))
    )
    back = tfr.models.to_deterministic(loaded)
    assert type(back.get_layer("mine")) is kind
    assert_same(back(x), model(x))


@register
class Own(L.Layer):
    """Has its layers in its configuration."""

    def __init__(self, inside, **options):
        super().__init__(**options)
        self.inside = inside

    def build(self, shape):
        if not self.inside.built:
            self.inside.build(shape)

    def call(self, inputs):
        return self.inside(inputs)

    def get_config(self):
        inside = keras.saving.serialize_keras_object(self.inside)
        return super().get_config() | {"inside": inside}

    @classmethod
    def from_config(cls, config):
        inside = keras.saving.deserialize_keras_object(config.pop("inside"))
        return cls(inside, **config)


WRAPPERS = {
    "own": (lambda: Own(dense("a"), name="mine"), (5,)),
    "norm": (lambda: L.SpectralNormalization(dense("a"), name="mine"), (5,)),
    "each": (lambda: L.TimeDistributed(dense("a"), name="mine"), (4, 5)),
    "deep": (
        lambda: L.TimeDistributed(Own(chain(dense("a"))), name="mine"),
        (4, 5),
    ),
    "both": (
        lambda: L.Bidirectional(
            L.LSTM(5, return_sequences=True, name="a"), name="mine"
        ),
        (4, 5),
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "each"))
        for name in WRAPPERS
    ],
)
def test_wrappers_have_a_posterior_inside_and_stay_what_they_are(
    name, rng, tmp_path
):
    make, shape = WRAPPERS[name]
    x = rng.normal(size=(3, *shape)).astype("float32")
    model = chain(make(), L.Dense(2), shape=shape)
    model(x)
    randomized(model, rng)
    converted = conversion.convert(model)
    layer = converted.get_layer("mine")
    assert type(layer) is type(model.get_layer("mine"))
    assert paths(layer)
    assert_same_at_means(converted, model, x)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_at_means(loaded, model, x)
    assert_same(tfr.models.to_deterministic(loaded)(x), model(x))
    chosen = conversion.convert(model, layers="mine")
    assert paths(chosen.get_layer("mine")) == paths(layer)
    assert len(paths(chosen)) == len(paths(layer))


def test_spectral_normalization_acts_on_the_means(rng):
    model = chain(L.SpectralNormalization(dense("a"), power_iterations=20))
    layer = conversion.convert(model, initializer=None).layers[0]
    layer.layer.kernel.assign(rng.normal(size=(5, 5)))
    layer(np.ones((2, 5), np.float32), training=True)
    np.testing.assert_allclose(
        np.linalg.norm(layer.layer.kernel, 2), 1.0, rtol=1e-3
    )


# Layers at several places.


@register
class Twice(L.Layer):
    """Uses one layer itself and in a block, and another in two lists."""

    def __init__(self, **options):
        super().__init__(**options)
        self.shared, self.other = dense("shared"), dense("other")
        self.block = Own(self.shared)
        self.lists = [[self.other], [self.other]]

    def build(self, shape):
        self.shared.build(shape)
        self.other.build(shape)
        self.block.built = True

    def call(self, inputs):
        hidden = self.block(inputs) + self.shared(inputs)
        return self.lists[0][0](hidden) + self.lists[1][0](inputs)


@pytest.mark.slow
def test_a_layer_at_several_places_is_one_layer_with_one_divergence(
    rng, tmp_path
):
    model = randomized(chain(Twice(name="mine"), L.Dense(2)), rng)
    x = rng.normal(size=(3, 5)).astype("float32")
    converted = conversion.convert(model)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for one in (converted, loaded):
        layer = one.get_layer("mine")
        assert type(layer.shared) is tfr.layers.DenseFlipout
        assert layer.block.inside is layer.shared
        assert layer.lists[0][0] is layer.lists[1][0] is layer.other
        assert len(one.losses) == 6
        assert_same_at_means(one, model, x)
        back = tfr.models.to_deterministic(one).get_layer("mine")
        assert type(back) is Twice
        assert back.block.inside is back.shared


@pytest.mark.parametrize("back", [False, True])
def test_a_layer_that_two_wrappers_share_is_shared_by_their_copies(back, rng):
    shared, inputs = dense("shared"), keras.Input((4, 5))
    hidden = L.TimeDistributed(shared, name="one")(inputs)
    hidden = L.TimeDistributed(shared, name="other")(shared(hidden))
    model = keras.Model(inputs, L.Dense(2)(hidden))
    converted = conversion.convert(model)
    assert len(converted.losses) == 4
    if back:
        converted = tfr.models.to_deterministic(converted)
    one, other = (converted.get_layer(name) for name in ("one", "other"))
    assert one.layer is other.layer is converted.get_layer("shared")
    assert_same_at_means(
        converted, model, rng.normal(size=(2, 4, 5)).astype("float32")
    )


def test_a_shared_layer_is_chosen_by_any_of_its_places():
    shared, inputs = dense("shared"), keras.Input((4, 5))
    hidden = L.TimeDistributed(shared, name="one")(inputs)
    hidden = L.TimeDistributed(shared, name="other")(hidden)
    model = keras.Model(inputs, L.Dense(2)(hidden))
    for chosen in ("one", "other/shared", "shared"):
        converted = conversion.convert(model, layers=chosen)
        assert len(paths(converted)) == 1


# Choice, and frozen layers.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (
            "block_1",
            ["block_1/attention", "block_1/intermediate", "block_1/output"],
        ),
        ("block_1/output", ["block_1/output"]),
        ("output", ["block_0/output", "block_1/output"]),
        (L.Conv2D, ["patches/project"]),
        (
            custom_networks.EncoderBlock,
            [
                f"block_{i}/{name}"
                for i in range(2)
                for name in ("attention", "intermediate", "output")
            ],
        ),
        (["head", custom_networks.PatchEncoder], ["head", "patches/project"]),
        ("attention", ["block_0/attention", "block_1/attention"]),
        (lambda layer: layer.name == "output",
         ["block_0/output", "block_1/output"]),
    ],
)  # fmt: skip
@own_weights_stay
def test_layers_inside_are_chosen(layers, expected, rng):
    model, x = vision(rng)
    converted = conversion.convert(model, layers=layers)
    assert paths(converted) == expected
    assert_same_at_means(converted, model, x)


def test_names_that_choose_nothing_are_refused(rng):
    message = "no layer by block_7/output. .* block_0/intermediate, block_0/"
    with pytest.raises(ValueError, match=message):
        conversion.convert(vision(rng)[0], layers="block_7/output")


@pytest.mark.slow
@own_weights_stay
def test_frozen_layers_inside_are_copied_as_they_are(rng):
    model, x = vision(rng)
    model.blocks[0].trainable = False
    model.patches.project.trainable = False
    converted = conversion.convert(model)
    assert paths(converted) == [
        "block_1/attention", "block_1/intermediate", "block_1/output", "head"
    ]  # fmt: skip
    assert type(converted.patches.project) is L.Conv2D
    assert converted.blocks[0].trainable_weights == []
    assert len(converted.patches.trainable_weights) == 2
    assert_same_at_means(converted, model, x)
    chosen = conversion.convert(model, layers=["block_0", "project"])
    assert len(paths(chosen)) == 4
    assert chosen.blocks[0].trainable_weights == []
    assert_same_at_means(chosen, model, x)


@pytest.mark.slow
@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_converted_layer_is_saved_as_frozen_as_it_is(is_frozen, tmp_path):
    converted = conversion.convert(chain(InList(name="mine"), L.Dense(2)))
    converted.get_layer("mine").trainable = not is_frozen
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    found, expected = (
        [(v.name, v.trainable) for v in one.weights]
        for one in (loaded, converted)
    )
    assert found == expected
    assert loaded.get_layer("mine").trainable != is_frozen


def test_a_layer_is_frozen_by_the_one_around_it(rng):
    frozen = InList(name="mine", trainable=False)
    model = chain(frozen, L.Dense(2, name="head"))
    assert frozen.trainable_weights == []
    assert paths(conversion.convert(model)) == ["head"]


# Layers that cannot be reached are named.


@register
class Around(Own):
    """Has one more layer beside the one inside."""

    def __init__(self, inside, name="around", **options):
        super().__init__(inside, name=name, **options)
        self.b = dense("b")

    def build(self, shape):
        super().build(shape)
        self.b.build(shape)

    def call(self, inputs):
        return self.b(super().call(inputs))


@register
class Positional(Holder):
    """Does not say how it was made."""

    def __init__(self, *parts, name):
        super().__init__(name=name)
        self.parts = list(parts)

    def held(self):
        return self.parts


@register
class InSet(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.parts = {dense("a")}

    def held(self):
        return list(self.parts)


@register
class Capturing(Holder):
    """Has the kernel of the layer inside as one of its own, once it is built.

    So an exchange of the layer leaves it with the kernel of another.
    """

    def build(self, shape):
        self.a = dense("a")
        self.a.build(shape)
        self.tied = self.a.kernel

    def call(self, inputs):
        return keras.ops.matmul(self.a(inputs), self.tied)


@register
class Changing(Holder):
    """Makes a layer of another name of attribute the next time."""

    count = 0

    def __init__(self, **options):
        super().__init__(**options)
        type(self).count += 1
        setattr(self, f"part_{self.count}", dense("a"))

    def held(self):
        return self._layers


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (InSet, "no attribute, list, tuple or dict of 'mine' holds a"),
        (Capturing, "'mine' has 0 weights of its own, and its copy 1"),
        (Changing, "it has no part_"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("depth", [1, 2])
def test_what_cannot_be_reached_is_named_with_its_path_and_why(
    kind, reason, depth, rng
):
    around = {1: lambda layer: layer, 2: Around}[depth]
    model = chain(around(kind(name="mine")), L.Dense(2, name="head"))
    path = {1: "mine/a", 2: "around/mine/a"}[depth]
    with pytest.warns(UserWarning, match=f"not reached: {path}. .*{reason}"):
        converted = conversion.convert(randomized(model, rng))
    assert [p.rpartition("/")[2] for p in paths(converted)] == [
        *["b"] * (depth - 1), "head"
    ]  # fmt: skip
    assert not set(map(id, converted.weights)) & set(map(id, model.weights))
    assert_same_at_means(
        converted, model, rng.normal(size=(3, 5)).astype("float32")
    )


@pytest.mark.parametrize("conversion_of", ["bayesian", "deterministic"])
def test_a_layer_that_does_not_say_how_it_was_made_is_kept_itself(
    conversion_of, rng
):
    model = chain(Positional(dense("a"), name="mine"), L.Dense(2, name="head"))
    x = rng.normal(size=(3, 5)).astype("float32")
    message = "'mine'.* kept itself.* not reached: mine/a. NotImplementedError"
    with pytest.warns(UserWarning, match=message):
        converted = conversion.convert(model)
    if conversion_of == "deterministic":
        with pytest.warns(UserWarning, match="'mine'.* kept itself"):
            converted = tfr.models.to_deterministic(converted)
    assert converted.get_layer("mine") is model.get_layer("mine")
    assert_same_at_means(converted, model, x)


class Unsaid(keras.Model):
    def __init__(self, layer, **options):
        super().__init__(**options)
        self.layer = layer

    def call(self, inputs):
        return self.layer(inputs)


def test_a_subclassed_model_that_does_not_say_how_it_was_made_is_refused():
    model = Unsaid(dense("a"), name="mine")
    with pytest.raises(ValueError, match="'mine' is not built"):
        conversion.convert(model)
    model(np.ones((2, 5), np.float32))
    message = "'mine', a Unsaid, cannot be copied, as its `get_config`"
    with pytest.raises(ValueError, match=message):
        conversion.convert(model)
    with pytest.raises(ValueError, match="must be a keras.Model"):
        conversion.convert(dense("a"))
    # Keras knows no shape behind the wrapper.
    model = chain(L.TimeDistributed(Own(dense("a"))), dense("b"), shape=(4, 5))
    with pytest.raises(ValueError, match="'b' is not built"):
        conversion.convert(model)


@register
class Cell(L.Layer):
    state_size = 5

    def __init__(self, **options):
        super().__init__(**options)
        self.dense = dense("a")

    def build(self, shape):
        self.dense.build(shape)

    def call(self, inputs, states):
        outputs = self.dense(inputs + states[0])
        return outputs, [outputs]


def test_cells_are_left_alone_as_each_step_would_have_weights_of_its_own(rng):
    model = chain(L.RNN(Cell(), name="cells"), L.Dense(2), shape=(4, 5))
    with pytest.warns(UserWarning, match=r"of their kind: cells\."):
        converted = conversion.convert(model)
    assert_same_at_means(
        converted, model, rng.normal(size=(3, 4, 5)).astype("float32")
    )


def test_weights_of_a_custom_layer_itself_are_named(rng):
    message = r"kind: patches\."
    with pytest.warns(UserWarning, match=message):
        conversion.convert(vision(rng)[0])


# Preprocessing, precision, posteriors that were there before.


@register
class Normalizing(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.parts = [L.Normalization(), dense("a"), L.Lambda(keras.ops.tanh)]

    def build(self, shape):
        for layer in self.parts[1:]:
            layer.build(shape)

    def held(self):
        return self.parts


@pytest.mark.filterwarnings("ignore:These layers stay:UserWarning")
def test_preprocessing_inside_is_kept(rng):
    layer = Normalizing(name="mine")
    layer.parts[0].adapt(rng.normal(3.0, 2.0, size=(50, 5)))
    model = chain(layer, L.Dense(2))
    x = rng.normal(size=(3, 5)).astype("float32")
    converted = conversion.convert(model)
    assert_same_at_means(converted, model, x)
    assert converted.get_layer("mine").parts[0] is layer.parts[0]
    assert_same(tfr.models.to_deterministic(converted)(x), model(x))


@pytest.mark.slow
@own_weights_stay
def test_mixed_precision_inside(rng):
    model = custom_networks.Backbone(10, 8, 1, dtype="mixed_bfloat16")
    converted = conversion.convert(model)
    assert converted.embed.dtype_policy.name == "mixed_bfloat16"
    x = {"tokens": np.arange(10).reshape(2, 5)}
    with tfr.layers.mean_weights():
        found, expected = converted(x)["pooled"], model(x)["pooled"]
    assert found.dtype == expected.dtype == tf.bfloat16
    np.testing.assert_array_equal(found, expected)


@register
class OwnPosteriors(Holder):
    def __init__(self, **options):
        super().__init__(**options)
        self.a = tfr.layers.DenseFlipout(5, num_train_examples=3)

    def held(self):
        return [self.a]


def test_posteriors_of_custom_layers_become_means_too(rng, tmp_path):
    model = randomized(chain(OwnPosteriors(name="mine")), rng)
    x = rng.normal(size=(3, 5)).astype("float32")
    back = tfr.models.to_deterministic(model)
    assert type(back.get_layer("mine").a) is L.Dense
    assert_same_at_means(model, back, x)
    back.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded(x), back(x))
    again = conversion.convert(loaded)
    assert_same_at_means(again, back, x)


@pytest.mark.slow
@own_weights_stay
def test_a_model_may_get_its_posteriors_one_after_another(rng, tmp_path):
    model, x = vision(rng)
    randomized(model, rng)
    first = conversion.convert(model, layers=["block_0", "head"])
    second = conversion.convert(first, posterior="k_tied", initializer=None)
    assert paths(second) == paths(conversion.convert(model))
    for one, other in zip(
        first.head.variational_weights,
        second.head.variational_weights,
        strict=True,
    ):
        np.testing.assert_array_equal(one.scale, other.scale)
    second.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for one in (second, loaded):
        assert_same_at_means(one, model, x)
        back = tfr.models.to_deterministic(one)
        assert type(back) is custom_networks.VisionTransformer
        assert_same(back(x), model(x))


@register
class Projection(L.EinsumDense):
    """Stands for one with posteriors."""


@pytest.mark.slow
def test_what_attention_calls_inside_can_be_replaced(rng, tmp_path):
    model, x = text(rng)
    randomized(model, rng)

    def replace(layer):
        if type(layer) is L.EinsumDense:
            return Projection.from_config(layer.get_config())
        return None

    copy, replaced = cloning.clone(model, replace)
    assert len(replaced) == 8
    for old, new in replaced.items():
        new.set_weights(old.get_weights())
    kinds = [type(layer) for layer in copy._flatten_layers()]
    assert (kinds.count(Projection), kinds.count(L.EinsumDense)) == (8, 0)
    assert_same(copy(x), model(x))
    copy.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded(x), model(x))


@register
class Stack(keras.Sequential):
    """A Sequential model of a class with its own constructor."""

    def __init__(self, name=None):
        super().__init__([keras.Input((5,)), dense("a"), dense("b")], name=name)

    def get_config(self):
        return {"name": self.name}

    @classmethod
    def from_config(cls, config):
        return cls(**config)


def test_a_sequential_subclass_keeps_its_class(rng, tmp_path):
    model = randomized(Stack(name="mine"), rng)
    x = rng.normal(size=(3, 5)).astype("float32")
    converted = conversion.convert(model)
    assert isinstance(converted, Stack)
    assert_same_at_means(converted, model, x)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_at_means(loaded, model, x)
    assert type(tfr.models.to_deterministic(loaded)) is Stack


@register
class TwoInputs(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.towers = {name: dense(name) for name in ("a", "b")}

    def call(self, inputs):
        return sum(self.towers[name](inputs[name]) for name in ("a", "b"))


def test_a_subclassed_model_of_a_dict_of_inputs(rng, tmp_path):
    x = {name: np.ones((2, 5), np.float32) for name in ("a", "b")}
    model = TwoInputs()
    model(x)
    converted = conversion.convert(randomized(model, rng))
    assert len(paths(converted)) == 2
    assert_same_at_means(converted, model, x)
    converted.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_at_means(loaded, model, x)
    assert_same(tfr.models.to_deterministic(loaded)(x), model(x))
