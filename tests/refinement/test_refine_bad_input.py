"""Refinement refuses bad arguments before any work."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tfp_refine import layers
from tfp_refine import refinement


@pytest.fixture(scope="module")
def problem():
    return linear_gaussian.LinearGaussian()


# Bad input.


def _nan(array):
    array = array.copy()
    array[3] = np.nan
    return array


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (lambda x: x[:-1], None, "19.* in x, .*20.* in y"),
        (lambda x: x[:0], lambda y: y[:0], "`x` must not be empty"),
        (_nan, None, "`x` must be finite.*2 of 40"),
        (None, _nan, "`y` must be finite.*1 of 20"),
        (lambda x: x / 0.0, None, "`x` must be finite"),
        (lambda x: x[:, :1], None, r"expects inputs of shape .*\(20, 1\)"),
        (lambda x: x[:, :, None, None], None, "expects inputs of shape"),
        (lambda x: x.astype(str), None, "expects numbers.*Received: string"),
        (None, lambda y: np.hstack([y, y]), "cannot be evaluated on the data"),
        (None, lambda y: None, "`y` must be given"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.filterwarnings("ignore:invalid value")
def test_bad_data_is_refused_before_any_work(problem, x, y, message):
    x = problem.x if x is None else x(problem.x)
    y = problem.y if y is None else y(problem.y)
    with pytest.raises(ValueError, match=message):
        linear_gaussian.refine(problem.model(), x, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variance_ratios": (0.7, 1.2)}, "`variance_ratios`"),
        ({"num_members": 0}, "`num_members`"),
        ({"seed": -1}, "`seed`"),
        ({"seed": 1.5}, "`seed`"),
        ({"loss": "no_such_loss"}, "no_such_loss"),
        ({"loss": ["mse"] * 2}, "`loss` must .* each output.*2 values"),
        ({"loss": lambda y, p: keras.ops.zeros((7,))}, "one value for each"),
    ],
)
def test_bad_options_are_refused_before_any_work(problem, options, message):
    with pytest.raises(ValueError, match=message):
        linear_gaussian.refine(problem.model(), problem.x, problem.y, **options)


def test_checkpoint_needs_a_seed(problem, tmp_path):
    with pytest.raises(ValueError, match="`checkpoint_dir` needs a `seed`"):
        linear_gaussian.refine(
            problem.model(), problem.x, problem.y,
            checkpoint_dir=tmp_path, seed=None,
        )  # fmt: skip


def test_folder_that_cannot_be_written_is_refused(problem, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="`checkpoint_dir` must be a folder"):
        linear_gaussian.refine(
            problem.model(), problem.x, problem.y,
            checkpoint_dir=tmp_path / "file" / "below",
        )  # fmt: skip


def test_models_that_cannot_be_refined_are_refused(problem):
    dense = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    dense.compile(loss="mse")
    with pytest.raises(ValueError, match="no variational layers"):
        linear_gaussian.refine(dense, problem.x, problem.y)
    unbuilt = keras.Sequential([layers.DenseFlipout(1)])
    unbuilt.compile(loss="mse")
    with pytest.raises(ValueError, match="not built"):
        linear_gaussian.refine(unbuilt, problem.x, problem.y)
    inputs = keras.Input((2,))
    no_prior = keras.Model(
        inputs,
        layers.DenseFlipout(1, use_bias=False, kernel_regularizer=None)(inputs),
    )
    no_prior.compile(loss="mse")
    with pytest.raises(ValueError, match="kernel_loc' has no prior"):
        linear_gaussian.refine(no_prior, problem.x, problem.y)
    uncompiled = keras.Model(inputs, layers.DenseFlipout(1)(inputs))
    with pytest.raises(ValueError, match="compile the model with a loss"):
        linear_gaussian.refine(uncompiled, problem.x, problem.y)
    broken = problem.model()
    broken.layers[-1].variational_weights[0].loc.assign([[np.nan], [0.0]])
    with pytest.raises(ValueError, match="weights .* must be finite"):
        linear_gaussian.refine(broken, problem.x, problem.y)


def test_endless_dataset_is_refused(problem):
    dataset = tf.data.Dataset.from_tensors((problem.x, problem.y)).repeat()
    with pytest.raises(ValueError, match="must end.*endless"):
        linear_gaussian.refine(problem.model(), dataset, None)


def test_a_layer_that_does_not_sample_has_no_bound(problem):
    model = problem.model()
    model.layers[-1].sample = False
    for compute in (linear_gaussian.refine, refinement.elbo):
        with pytest.raises(ValueError, match="sample=False"):
            compute(model, problem.x, problem.y)


@pytest.mark.parametrize("how", ["frozen", "constrained"])
def test_weights_that_may_not_move_are_refused(problem, how):
    inputs = keras.Input((2,))
    constraint = "non_neg" if how == "constrained" else None
    layer = layers.DenseFlipout(1, kernel_constraint=constraint)
    model = keras.Model(inputs, layer(inputs))
    model.compile(loss="mse")
    layer.trainable = how != "frozen"
    with pytest.raises(ValueError, match="kernel_loc' is frozen or constrain"):
        linear_gaussian.refine(model, problem.x, problem.y)


def test_a_loss_that_fit_averages_over_positions_is_refused(problem):
    inputs = keras.Input((3, 2))
    model = keras.Model(inputs, layers.DenseFlipout(2)(inputs))
    model.compile(loss="mse")
    x = np.zeros((4, 3, 2))
    with pytest.raises(ValueError, match="one value for each example"):
        linear_gaussian.refine(model, x, x)


def test_masked_outputs_of_a_keras_loss_are_refused(problem):
    inputs = keras.Input((3, 2))
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, layers.DenseFlipout(2)(masked))
    x = np.zeros((4, 3, 2))
    with pytest.raises(ValueError, match="masked"):
        linear_gaussian.refine(model, x, x, loss="mse")


@pytest.mark.parametrize("function", [linear_gaussian.refine, refinement.elbo])
def test_another_number_of_examples_than_in_training_is_refused(
    problem, function
):
    model, data = problem.model(), (problem.x[:15], problem.y[:15])
    with pytest.raises(ValueError, match="num_train_examples=20.*15 examples"):
        function(model, *data)
    layers.set_num_train_examples(model, 15)  # as the message says
    refinement.elbo(model, *data, num_samples=1)


@pytest.mark.parametrize("members", [3, "ab", (1.5,)])
def test_members_that_are_no_indices(problem, members):
    with pytest.raises(ValueError, match="`members`"):
        linear_gaussian.refine(
            problem.model(), problem.x, problem.y, members=members
        )


def test_what_is_no_model_is_refused(problem):
    with pytest.raises(ValueError, match="must be a keras.Model.*str"):
        linear_gaussian.refine("model", problem.x, problem.y)


@pytest.mark.parametrize("first", [0, 5])
@pytest.mark.parametrize("label", [-1, 3])
def test_labels_out_of_range_are_refused_before_any_work(problem, first, label):
    inputs = keras.Input((2,))
    outputs = layers.DenseFlipout(3, num_train_examples=20)(inputs)
    model = keras.Model(inputs, outputs)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss)
    y = np.zeros(len(problem.x), np.int32)
    y[first] = label
    for loss in (None, "sparse_categorical_crossentropy"):
        with pytest.raises(ValueError, match=rf"in \[0, 3\).*from .*{label}"):
            linear_gaussian.refine(model, problem.x, y, loss=loss)
