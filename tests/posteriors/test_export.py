"""SavedModels that draw, in this process and in one without this package."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import linear_gaussian
from tests.support import replicas

CASES = {name: c for name, c in replicas.cases().items() if name != "keras"}


def model_of(name):
    make, inputs = CASES[name]
    model = keras.Sequential([keras.Input(inputs.shape[1:]), make()])
    if inputs.dtype == np.int64:
        model = keras.Sequential(
            [keras.Input(inputs.shape[1:], dtype="int64"), make()]
        )
    return model, inputs


def serve(path, x):
    served = tf.saved_model.load(str(path))  # its variables live as long
    return np.array(served.serve(x))


@pytest.mark.parametrize(
    "name",
    [
        # Others below export some of these.
        pytest.param(
            name,
            marks=[pytest.mark.slow] * (name not in ("mnf", "gru", "dropout")),
        )
        for name in CASES
    ],
)
def test_exported_draws_are_those_of_predict(name, tmp_path):
    model, x = model_of(name)
    tfr.posterior(model).export(tmp_path / "draws", num_samples=3, seed=5)
    expected = tfr.predict(model, x, num_samples=3, seed=5)
    np.testing.assert_array_equal(serve(tmp_path / "draws", x), expected)
    # Another number of examples.
    np.testing.assert_array_equal(
        serve(tmp_path / "draws", x[:2]),
        tfr.predict(model, x[:2], num_samples=3, seed=5),
    )


@pytest.mark.slow
def test_a_model_that_keras_exports_draws_at_each_call(tmp_path):
    model, x = model_of("flipout")
    model.export(tmp_path / "model", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "model"))
    assert np.any(np.array(served.serve(x)) != np.array(served.serve(x)))


def test_without_a_seed_each_call_has_draws_of_its_own(tmp_path):
    model, x = model_of("reparameterization")
    tfr.posterior(model).export(tmp_path / "draws", num_samples=500)
    served = tf.saved_model.load(str(tmp_path / "draws"))
    first, second = np.array(served.serve(x)), np.array(served.serve(x))
    assert np.all(np.any(first != second, axis=(1, 2)))
    draws = np.concatenate([first, second])
    with tfr.layers.mean_weights():
        mean = np.array(model(x))
    # Six standard errors of each of 16 means.
    errors = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.max(np.abs(draws.mean(axis=0) - mean) / errors) < 6.0


def test_named_inputs_and_several_outputs_keep_their_names(tmp_path, rng):
    inputs = {name: keras.Input((2,), name=name) for name in ("a", "b")}
    both = keras.layers.Concatenate()(list(inputs.values()))
    options = {"num_train_examples": 10}
    outputs = {
        "mean": tfr.layers.DenseFlipout(1, **options)(both),
        "scale": tfr.layers.DenseFlipout(2, **options)(both),
    }
    model = keras.Model(inputs, outputs)
    x = {n: rng.normal(size=(4, 2)).astype(np.float32) for n in inputs}
    tfr.posterior(model).export(tmp_path / "draws", num_samples=2, seed=1)
    expected = tfr.predict(model, x, num_samples=2, seed=1)
    served = tf.saved_model.load(str(tmp_path / "draws"))
    draws = served.serve({n: tf.constant(v) for n, v in x.items()})
    for name, value in expected.items():
        np.testing.assert_array_equal(draws[name], value)


@pytest.mark.slow
def test_an_ensemble_is_exported_with_all_its_members(tmp_path):
    problem = linear_gaussian.LinearGaussian()
    ensemble = linear_gaussian.refine(
        problem.model(), problem.x, problem.y, num_members=3, steps=5
    )
    ensemble.export(tmp_path / "ensemble", seed=2)
    np.testing.assert_array_equal(
        serve(tmp_path / "ensemble", problem.x),
        ensemble.predict(problem.x, seed=2),
    )
    ensemble.export(tmp_path / "seven", 7, seed=2)
    np.testing.assert_array_equal(
        serve(tmp_path / "seven", problem.x),
        tfr.predict(ensemble, problem.x, 7, seed=2),
    )


@pytest.mark.slow
def test_an_exported_ensemble_keeps_its_statistics_and_names(tmp_path):
    problem = linear_gaussian.LinearGaussian()
    inputs = {
        "x": keras.Input((2,), name="x"),
        "group": keras.Input((1,), name="group", dtype="int32"),
    }
    shift = keras.layers.Embedding(3, 2)(inputs["group"])[:, 0]
    normalization = keras.layers.BatchNormalization()
    outputs = problem.model()(normalization(inputs["x"] + shift))
    model = keras.Model(inputs, outputs)
    groups = np.arange(len(problem.x), dtype=np.int32)[:, np.newaxis] % 3
    x = {"x": problem.x, "group": groups}
    ensemble = linear_gaussian.refine(
        model, x, problem.y, loss=problem.model().loss, steps=1,
        variance_ratios=(0.5,),
    )  # fmt: skip
    expected = ensemble.predict(x, seed=2)
    normalization.moving_mean.assign([1.0, -1.0])  # the model's alone
    ensemble.export(tmp_path / "draws", seed=2)
    served = tf.saved_model.load(str(tmp_path / "draws"))
    draws = served.serve({name: tf.constant(v) for name, v in x.items()})
    np.testing.assert_array_equal(draws, expected)


def test_keras_serves_what_was_exported(tmp_path):
    model, x = model_of("local")
    tfr.posterior(model).export(tmp_path / "draws", num_samples=2, seed=1)
    layer = keras.layers.TFSMLayer(
        str(tmp_path / "draws"), call_endpoint="serve"
    )
    np.testing.assert_array_equal(layer(x), tfr.predict(model, x, 2, seed=1))


@pytest.mark.slow
def test_a_process_with_tensorflow_alone_serves_it(tmp_path):
    model, x = model_of("convolution")
    tfr.posterior(model).export(tmp_path / "draws", num_samples=2, seed=1)
    np.save(tmp_path / "x.npy", x)
    program = (
        "import sys, numpy as np, tensorflow as tf; "
        "served = tf.saved_model.load(sys.argv[1] + '/draws'); "
        "x = np.load(sys.argv[1] + '/x.npy'); "
        "np.save(sys.argv[1] + '/out.npy', served.serve(x)); "
        "assert 'tfp_refine' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    np.testing.assert_array_equal(
        np.load(tmp_path / "out.npy"), tfr.predict(model, x, 2, seed=1)
    )


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tfr.layers.DenseFlipout(1, num_train_examples=10)

    def call(self, inputs):
        return self.dense(inputs)


def test_a_subclassed_model_says_what_it_takes(tmp_path):
    model, x = Subclassed(), np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="has no weights yet|not built"):
        tfr.posterior(model).export(tmp_path / "draws")
    model(x)
    with pytest.raises(ValueError, match="give `input_signature`"):
        tfr.posterior(model).export(tmp_path / "draws")
    tfr.posterior(model).export(
        tmp_path / "draws",
        num_samples=2,
        seed=1,
        input_signature=tf.TensorSpec((None, 2), "float32"),
    )
    np.testing.assert_array_equal(
        serve(tmp_path / "draws", x), tfr.predict(model, x, 2, seed=1)
    )


@pytest.mark.parametrize("path", [None, 3, ""])
def test_what_is_no_path_is_told(path):
    model, _ = model_of("flipout")
    with pytest.raises(ValueError, match="`path` must be a folder"):
        tfr.posterior(model).export(path, num_samples=2)


def test_tables_of_layers_are_exported(tmp_path):
    inputs = keras.Input((3,), dtype="int64")
    numbers = keras.layers.IntegerLookup(vocabulary=[7, 8])(inputs)
    hidden = tfr.layers.EmbeddingReparameterization(
        3, 2, num_train_examples=10
    )(numbers)
    model = keras.Model(inputs, hidden)
    x = np.array([[7, 8, 9], [8, 8, 7]])
    tfr.posterior(model).export(tmp_path / "draws", num_samples=2, seed=1)
    draws = serve(tmp_path / "draws", x)
    expected = tfr.predict(model, x, num_samples=2, seed=1)
    np.testing.assert_array_equal(draws, expected)


@pytest.mark.slow
def test_ensembles_of_networks_for_any_length_serve_any_length(tmp_path, rng):
    inputs = keras.Input((None, 2))
    options = {"num_train_examples": 6}
    hidden = tfr.layers.GRUReparameterization(2, **options)(inputs)
    model = keras.Model(inputs, tfr.layers.DenseFlipout(1, **options)(hidden))
    model.compile("adam", tfr.losses.GaussianNLL(1.0))
    x = rng.normal(size=(6, 5, 2)).astype(np.float32)
    ensemble = tfr.refine(
        *(model, x, x[:, 0, :1]), num_members=2, steps=1, seed=1, verbose=0
    )
    ensemble.export(tmp_path / "ensemble", seed=2)
    longer = rng.normal(size=(4, 7, 2)).astype(np.float32)
    np.testing.assert_array_equal(
        serve(tmp_path / "ensemble", longer), ensemble.predict(longer, seed=2)
    )


@pytest.mark.slow
def test_fresh_draws_are_fresh_in_each_process_of_a_seeded_program(tmp_path):
    keras.utils.set_random_seed(7)
    model, x = model_of("reparameterization")
    tfr.posterior(model).export(tmp_path / "draws", num_samples=2)
    program = (
        "import sys, tensorflow as tf; "
        "served = tf.saved_model.load(sys.argv[1] + '/draws'); "
        "print(served.serve(tf.ones([1, 3])).numpy().tolist())"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            check=True,
            capture_output=True,
        ).stdout
        for _ in range(2)
    ]
    assert found[0] != found[1]


def test_a_path_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    model, _ = model_of("flipout")
    with pytest.raises(ValueError, match="`path` must be a folder"):
        tfr.posterior(model).export(tmp_path / "file", num_samples=2)
    (tmp_path / "variables").write_text("")  # a folder of TensorFlow's
    with pytest.raises(ValueError, match="`path` must be a folder"):
        tfr.posterior(model).export(tmp_path, num_samples=2)


@pytest.mark.slow
def test_folders_are_made_and_what_is_in_them_is_replaced(tmp_path):
    model, x = model_of("flipout")
    path = tmp_path / "some" / "draws"
    for seed in (1, 2):
        tfr.posterior(model).export(path, num_samples=2, seed=seed)
        expected = tfr.predict(model, x, 2, seed=seed)
        np.testing.assert_array_equal(serve(path, x), expected)


def test_whole_numbers_are_served_as_such(tmp_path):
    model, _ = model_of("embedding")
    tfr.posterior(model).export(tmp_path / "draws", seed=1)
    served = tf.saved_model.load(str(tmp_path / "draws"))
    _, inputs = served.signatures["serving_default"].structured_input_signature
    assert [spec.dtype for spec in inputs.values()] == [tf.int64]
    words = tf.zeros([1, 6], tf.int64)
    assert len(served.serve(words)) == 100  # by default


_STEPS = {"unroll": True}  # TFLite takes no loop for any number of examples


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*tf.lite.Interpreter is deprecated")
@pytest.mark.parametrize(
    ("shape", "layers"),
    [
        ((3,), [lambda o: tfr.layers.DenseLocalReparameterization(2, **o)]),
        (
            (8, 8, 2),
            [
                lambda o: tfr.layers.Conv2DFlipout(4, 3, **o),
                lambda o: keras.layers.BatchNormalization(),
                lambda o: keras.layers.Flatten(),
                lambda o: tfr.layers.DenseFlipout(2, **o),
            ],
        ),
        (
            (5, 2),
            [lambda o: tfr.layers.GRUReparameterization(2, **_STEPS, **o)],
        ),
    ],
    ids=["dense", "convolution", "recurrent"],
)
def test_the_means_run_on_tflite(tmp_path, rng, shape, layers):
    options = {"num_train_examples": 10}
    model = keras.Sequential(
        [keras.Input(shape), *(make(options) for make in layers)]
    )
    network = tfr.models.to_deterministic(model)
    network.export(tmp_path / "network", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(
        str(tmp_path / "network")
    )
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    x = rng.normal(size=(4, *shape)).astype(np.float32)
    (inputs,) = interpreter.get_input_details()
    assert inputs["shape_signature"][0] == -1
    interpreter.resize_tensor_input(inputs["index"], x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(inputs["index"], x)
    interpreter.invoke()
    (outputs,) = interpreter.get_output_details()
    with tfr.layers.mean_weights():
        expected = model(x)
    np.testing.assert_allclose(
        interpreter.get_tensor(outputs["index"]), expected, atol=1e-5
    )
