import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine
from tests.support.dense_models import CLASSES
from tests.support.dense_models import LOGITS
from tests.support.dense_models import NUM
from tests.support.dense_models import SIZE
from tests.support.dense_models import Subclassed
from tests.support.dense_models import assert_untouched
from tests.support.dense_models import only_the_head
from tests.support.dense_models import randomize
from tests.support.dense_models import sequential
from tfp_refine import functional


@pytest.fixture
def x(rng):
    return tf.constant(rng.standard_normal((NUM, SIZE)), tf.float32)


@pytest.mark.parametrize(
    "behind",
    [
        [keras.layers.Rescaling, (2.0,)],
        [keras.layers.Activation, ("tanh",)],
        [keras.layers.LayerNormalization, ()],
    ],
    ids=["rescaling", "tanh", "normalization"],
)
def test_something_else_behind_the_dense_is_refused(behind, x):
    make, arguments = behind
    options = (
        {"center": False, "scale": False}
        if make is keras.layers.LayerNormalization
        else {}
    )
    model = randomize(
        keras.Sequential(
            [
                keras.Input((SIZE,)),
                keras.layers.Dense(CLASSES, name="head"),
                make(*arguments, **options),
            ]
        )
    )
    view = functional.LastLayerView(model)
    with pytest.raises(ValueError, match="head.*something else"):
        view.find_activation(x, LOGITS)
    assert_untouched(model)


def test_tanh_of_the_dense_is_refused(x):
    model = keras.Sequential(
        [keras.Input((SIZE,)), keras.layers.Dense(CLASSES, activation="tanh")]
    )
    with pytest.raises(ValueError, match="Received: tanh"):
        functional.LastLayerView(randomize(model))


def test_an_activation_that_rarely_shows_is_refused(rng):
    inputs = keras.Input((1,))
    head = keras.layers.Dense(1)
    model = keras.Model(inputs, keras.layers.ReLU()(head(inputs)))
    head.set_weights([np.ones((1, 1)), np.zeros(1)])
    # The first examples, and most others, are positive.
    x = np.linspace(10.0, -1.0, 500)[:, np.newaxis].astype(np.float32)
    view = functional.LastLayerView(model)
    with pytest.raises(ValueError, match="something else"):
        view.find_activation(tf.constant(x), LOGITS)


def test_two_outputs_of_the_model_are_refused(x):
    inputs = keras.Input((SIZE,))
    head = keras.layers.Dense(CLASSES)(inputs)
    view = functional.LastLayerView(keras.Model(inputs, [head, head]))
    with pytest.raises(ValueError, match="one tensor. It returns 2"):
        view.find_activation(x, LOGITS)


@pytest.mark.parametrize(
    "make_last",
    [
        keras.layers.BatchNormalization,
        lambda: keras.layers.EinsumDense("ab,b->ab", output_shape=CLASSES),
    ],
    ids=["batch_normalization", "einsum"],
)
def test_last_layer_that_is_not_dense_is_refused(make_last):
    model = keras.Sequential(
        [keras.Input((SIZE,)), keras.layers.Dense(CLASSES), make_last()]
    )
    with pytest.raises(ValueError, match=r"must be a keras\.layers\.Dense"):
        functional.LastLayerView(model)
    assert_untouched(model)


def test_convolution_at_the_end_is_refused():
    model = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Conv2D(CLASSES, 4),
            keras.layers.Flatten(),
        ]
    )
    with pytest.raises(ValueError, match="Conv2D"):
        functional.LastLayerView(model)


def test_subclassed_model_without_dense_is_refused_on_data(x):
    class Normalized(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(CLASSES)
            self.norm = keras.layers.BatchNormalization()

        def call(self, inputs):
            return self.norm(self.head(inputs))

    model = Normalized()
    model(x)
    view = functional.LastLayerView(model)
    with pytest.raises(ValueError, match="BatchNormalization"):
        view.fit_inputs(x)
    assert view.layer is None
    assert_untouched(model)


def test_model_without_weights_is_refused():
    model = keras.Sequential([keras.Input((SIZE,)), keras.layers.ReLU()])
    with pytest.raises(ValueError, match="weights"):
        functional.LastLayerView(model)


def test_variational_layers_are_refused():
    model = keras.Sequential(
        [
            keras.Input((SIZE,)),
            tfp_refine.layers.DenseReparameterization(4),
            keras.layers.Dense(CLASSES),
        ]
    )
    with pytest.raises(ValueError, match="variational"):
        functional.LastLayerView(model)


@pytest.mark.parametrize(
    "make",
    [lambda: keras.Sequential([keras.layers.Dense(CLASSES)]), Subclassed],
)
def test_unbuilt_model_is_refused(make):
    with pytest.raises(ValueError, match="not built"):
        functional.LastLayerView(make())


@pytest.mark.parametrize("model", [None, "model", keras.layers.Dense(3)])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(ValueError, match=r"keras\.Model"):
        functional.LastLayerView(model)


def test_layer_may_be_named_or_given(x):
    model = randomize(sequential())
    head = model.get_layer("head")
    for layer in ("head", head):
        assert functional.LastLayerView(model, layer).layer is head
    with pytest.raises(ValueError, match="'head'"):
        functional.LastLayerView(model, "tail")
    with pytest.raises(ValueError, match="layer"):
        functional.LastLayerView(model, keras.layers.Dense(CLASSES))
    with pytest.raises(ValueError, match="BatchNormalization"):
        functional.LastLayerView(model, model.layers[1].name)


def test_named_layer_that_is_not_the_last_is_refused(x):
    model = randomize(sequential())
    model.layers[0].activation = keras.activations.linear
    view = functional.LastLayerView(model, model.layers[0])
    with pytest.raises(ValueError, match="something else"):
        view.find_activation(x, LOGITS)


def test_compiled_call_is_refused(x):
    class Compiled(Subclassed):
        @tf.function
        def call(self, inputs):
            return self.head(self.hidden(inputs))

    model = Compiled()
    model(x)
    with pytest.raises(ValueError, match="`call` of 'compiled' must not be a"):
        functional.LastLayerView(model, "head")
    assert_untouched(model)


def test_compiled_method_is_refused_and_still_works(x):
    class Helped(Subclassed):
        @tf.function
        def features(self, inputs):
            return self.hidden(inputs)

        def call(self, inputs):
            return self.head(self.features(inputs))

    model = Helped()
    before = model(x)
    with pytest.raises(ValueError, match="`features` of 'helped' must not be"):
        functional.LastLayerView(model, "head")
    np.testing.assert_array_equal(model(x), before)


def test_features_of_positions_are_of_the_last_layer_alone(rng):
    model = keras.Sequential(
        [keras.Input((4, SIZE)), keras.layers.Dense(CLASSES, name="head")]
    )
    x = tf.constant(rng.standard_normal((NUM, 4, SIZE)), tf.float32)
    view = functional.LastLayerView(model)
    assert view.positions is None
    view.find_positions(x)
    assert view.positions == (4,)
    features = view.inputs(x, NUM)
    np.testing.assert_array_equal(features[..., :-1], x)
    np.testing.assert_array_equal(features[..., -1], 1.0)
    assert view.find_activation(x, LOGITS) == "linear"
    with pytest.raises(ValueError, match=r"one vector.*\(4,\)"):
        functional.AllLayersView(model).find_positions(x)
    assert_untouched(model)


def test_layer_called_twice_is_refused(x):
    dense = keras.layers.Dense(SIZE, name="shared")
    inputs = keras.Input((SIZE,))
    model = keras.Model(inputs, dense(keras.ops.tanh(dense(inputs))))
    view = functional.LastLayerView(model)
    with pytest.raises(ValueError, match="once.*2 times"):
        view.inputs(x, NUM)
    assert_untouched(model)


def test_calls_are_restored_after_an_error_of_the_model(x):
    class Failing(Subclassed):
        fails = False

        def call(self, inputs):
            outputs = super().call(inputs)
            if self.fails:
                raise RuntimeError("out of order")
            return outputs

    model = Failing()
    model(x)
    view = functional.LastLayerView(model)
    model.fails = True
    with pytest.raises(RuntimeError, match="out of order"):
        view.fit_inputs(x)
    assert_untouched(model)
    model.fails = False
    view.fit_inputs(x)
    model.fails = True
    with pytest.raises(RuntimeError, match="out of order"):
        view.inputs(x, NUM)
    assert_untouched(model)


def test_inputs_of_another_shape_are_refused(rng):
    view = functional.LastLayerView(only_the_head())
    with pytest.raises(ValueError, match="expects inputs"):
        view.fit_inputs(tf.zeros([2, SIZE + 1]))


def test_features_that_are_nan_are_named(x):
    model = keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Lambda(lambda v: keras.ops.log(v)),
            keras.layers.Dense(CLASSES, name="head"),
        ]
    )
    bad = np.count_nonzero((x.numpy() < 0).any(axis=1))
    with pytest.raises(ValueError, match=f"'head'.*{bad} of {NUM} examples"):
        functional.LastLayerView(model).inputs(x, 5)


def test_the_model_is_not_changed(x):
    model = randomize(sequential())
    before = model.get_weights()
    view = functional.LastLayerView(model)
    view.find_activation(x, LOGITS)
    view.inputs(x, NUM)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_digest_tells_architectures_and_shapes_apart():
    model = randomize(sequential())
    view = functional.LastLayerView(model)
    first = view.digest()
    randomize(model, seed=2)
    assert view.digest() == first  # weights are compared by themselves
    model.layers[0].activation = keras.activations.relu
    assert view.digest() != first
    shapes = [
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)]),
        keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]),
    ]
    digests = {functional.LastLayerView(one).digest() for one in shapes}
    assert len(digests) == 2


def test_a_name_of_two_layers_is_refused():
    inputs = keras.Input((SIZE,))
    hidden = keras.Sequential(
        [keras.layers.Dense(4, name="head")], name="backbone"
    )(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="head")(hidden))
    with pytest.raises(ValueError, match="'head', of which it has 2"):
        functional.LastLayerView(model, "head")
    assert functional.LastLayerView(model).num_outputs == 2
