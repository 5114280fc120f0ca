import keras
import numpy as np
import pytest
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import losses
from tfp_refine.functional import links
from tfp_refine.functional import objective


def compiled(loss):
    """Returns a compiled model."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    model.compile("sgd", loss)
    return model


@pytest.fixture
def y_pred(rng):
    return rng.normal(size=(5, 3)).astype("float32")


def nll(loss, y_true, y_pred):
    """Resolves `loss` as that of a model, and applies it."""
    resolved = objective.resolve(compiled(loss))
    return np.asarray(
        objective.negative_log_likelihood(resolved, y_true, y_pred)
    )


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="sum"
        ),
    ],
)
def test_each_example_has_its_cross_entropy(loss, y_pred):
    labels = np.array([0, 1, 2, 1, 0])
    if loss == "sparse_categorical_crossentropy":
        y_pred = np.asarray(keras.ops.softmax(y_pred))
        probs = y_pred
    else:
        probs = np.asarray(keras.ops.softmax(y_pred))
    expected = -np.log(probs[np.arange(5), labels])
    np.testing.assert_allclose(nll(loss, labels, y_pred), expected, rtol=1e-5)


def test_the_mean_squared_error_is_the_one_of_keras(y_pred, rng):
    y_true = rng.normal(size=(5, 3)).astype("float32")
    expected = np.mean((y_true - y_pred) ** 2, axis=1)
    for loss in ("mse", keras.losses.MeanSquaredError()):
        np.testing.assert_allclose(
            nll(loss, y_true, y_pred), expected, rtol=1e-5
        )


def test_targets_without_the_last_axis_are_not_broadcast_to_pairs(rng):
    def loss(y_true, y_pred):
        return keras.ops.square(y_true - y_pred)

    y_true, y_pred = rng.normal(size=(2, 5, 1)).astype("float32")
    expected = np.square(y_true - y_pred)[:, 0]
    for targets, outputs in (
        (y_true, y_pred),
        (y_true[:, 0], y_pred),
        (y_true, y_pred[:, 0]),
    ):
        found = nll(loss, targets, outputs)
        assert found.shape == (5,)
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_half_precision_outputs_are_widened_as_in_fit():
    loss = losses.GaussianNLL(0.002)
    y_true = np.array([[1.0]], np.float32)
    y_pred = np.array([[3.0]], np.float16)
    found = nll(loss, y_true, keras.ops.convert_to_tensor(y_pred))
    np.testing.assert_allclose(found, [loss(y_true, y_pred)], rtol=1e-6)


def test_integer_targets_are_cast_as_in_fit():
    loss = losses.GaussianNLL()
    found = nll(loss, np.array([[1], [3]]), np.array([[1.0], [1.0]]))
    np.testing.assert_allclose(found[1] - found[0], 2.0, rtol=1e-6)


def test_a_scalar_stays_a_scalar(y_pred):
    value = nll(lambda y_true, y_pred: keras.ops.mean(y_pred), y_pred, y_pred)
    assert value.shape == ()
    np.testing.assert_allclose(value, np.mean(y_pred), rtol=1e-5)


def test_the_argument_goes_before_the_compiled_loss(y_pred):
    def ones(y_true, y_pred):
        return keras.ops.ones(5)

    assert objective.resolve(compiled("mse"), ones) is ones
    assert objective.resolve(compiled(None), "mae") is keras.losses.get("mae")


def test_a_missing_loss_is_an_error():
    not_compiled = keras.Sequential([keras.layers.Dense(2)])
    for model in (compiled(None), not_compiled):
        with pytest.raises(ValueError, match="likelihood is unknown: compile"):
            objective.resolve(model)


@pytest.mark.parametrize("loss", [["mse", "mae"], {"a": "mse"}, ("mse",)])
def test_a_loss_for_each_output_is_refused(loss):
    with pytest.raises(ValueError, match="of one output, with one loss"):
        objective.resolve(compiled("mse"), loss)


LOSSES = keras.losses


# A model, its data and its loss.


def made(model=None, x=None, y=None, loss=None, **options):
    """Makes an objective of five examples."""
    model = compiled("mse") if model is None else model
    x = np.ones((5, 2)) if x is None else x
    y = np.zeros((5, 3)) if y is None else y
    view = functional.WeightView(model)
    return functional.Objective(view, x, y, loss, **options)


def test_an_objective_holds_what_work_starts_from(rng):
    x, y = rng.normal(size=(5, 2)), np.arange(5) % 3
    model = compiled(LOSSES.SparseCategoricalCrossentropy(from_logits=True))
    found = made(model, x, y)
    assert found.num_examples == 5
    assert found.link == links.Link("softmax", from_logits=True)
    np.testing.assert_allclose(found.data[0], x, rtol=1e-6)
    np.testing.assert_array_equal(found.params, found.view.params())
    nll = found.nll(found.data, found.params, found.fixed, 1, 0)
    expected = LOSSES.sparse_categorical_crossentropy(
        y, model(x), from_logits=True
    )
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    np.testing.assert_allclose(found.head_nll, nll[:2], rtol=1e-5)


def test_examples_count_as_often_as_their_weights_say(rng):
    x, y = rng.normal(size=(6, 2)), np.arange(6) % 3
    weight = np.array([0.0, 1.0, 2.0, 3.0, 0.5, 1.0])
    model = compiled(LOSSES.SparseCategoricalCrossentropy(from_logits=True))
    plain = made(model, x, y)
    weighted = made(model, x, y, sample_weight=weight)
    arguments = plain.params, plain.fixed, 1, 0
    np.testing.assert_allclose(
        weighted.nll(weighted.data, *arguments),
        weight * plain.nll(plain.data, *arguments),
        rtol=1e-6,
    )
    # As `fit` has it.
    np.testing.assert_allclose(
        weighted.training_loss(weighted.data, *arguments)[0],
        model.evaluate(x, y, batch_size=6, sample_weight=weight, verbose=0),
        rtol=1e-5,
    )
    with pytest.raises(ValueError, match="With `sample_weight` the loss must"):
        made(
            model,
            x,
            y,
            lambda y_true, y_pred: tf.reduce_mean(y_pred),
            sample_weight=weight,
        )


def test_weights_of_examples_go_with_values_that_have_further_axes(rng):
    x, y = rng.normal(size=(2, 6, 3, 2))
    weight = np.arange(6.0)
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.Dense(2)])
    model.compile("sgd", "mae")
    found = made(model, x, y, per_example=False, sample_weight=weight)
    loss, *_ = found.training_loss(found.data, found.params, found.fixed, 1, 0)
    errors = np.abs(y - model(x).numpy()).mean(axis=(1, 2))
    np.testing.assert_allclose(loss, np.mean(weight * errors), rtol=1e-5)


def test_weights_of_positions_are_those_of_likelihood_losses(rng):
    x, y = rng.normal(size=(5, 3, 2)), rng.integers(0, 2, (5, 3))
    weight = rng.uniform(size=(5, 3))
    weight[0], weight[:, 2] = 0.0, 0.0
    y[:, 2] = -1  # padding, of no weight
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.Dense(2)])
    model.compile("sgd", losses.CategoricalNLL())
    found = made(model, x, y, sample_weight=weight)
    arguments = found.data, found.params, found.fixed, 1, 0
    log_probs = tf.nn.log_softmax(model(x))
    log_probs = tf.where(y == 1, log_probs[..., 1], log_probs[..., 0])
    expected = -np.sum(weight * log_probs, axis=1)
    np.testing.assert_allclose(found.nll(*arguments), expected, rtol=1e-5)
    np.testing.assert_allclose(
        found.training_loss(*arguments)[0],
        model.evaluate(x, y, batch_size=5, sample_weight=weight, verbose=0),
        rtol=1e-5,
    )
    mean = keras.Sequential([model, keras.layers.Flatten()])
    mean.build((None, 3, 2))
    with pytest.raises(ValueError, match=r"value for each weight, \(2, 3\)"):
        made(mean, x, np.zeros((5, 6)), "mae", sample_weight=weight)


def test_masked_positions_do_not_count_whatever_they_weigh(rng):
    x = rng.normal(size=(5, 3, 2)).astype("float32")
    x[:, 2] = 0.0
    y = np.full((5, 3), 1)
    y[:, 2], y[4, 0] = -1, -1
    weight = np.arange(15.0).reshape(5, 3)
    weight[4, 0] = 0.0
    model = masked()
    model.compile("sgd", losses.CategoricalNLL())
    found = made(model, x, y, sample_weight=weight)
    nll = found.nll(found.data, found.params, found.fixed, 1, 0)
    log_probs = tf.nn.log_softmax(model(x))[..., 1]
    expected = -np.sum(weight[:, :2] * log_probs[:, :2], axis=1)
    np.testing.assert_allclose(nll, expected, rtol=1e-5)
    weight[4, 0] = 1.0
    with pytest.raises(ValueError, match="class numbers in .* -1, 1 such"):
        made(model, x, y, sample_weight=weight)


def test_training_loss_is_that_of_training_mode(rng):
    x = rng.normal(size=(6, 2)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(1, kernel_regularizer="l2"),
        ]
    )
    model.compile(loss="mse")
    found = made(model, x, np.zeros((6, 1)))
    nll, fixed, penalty = found.training_loss(
        found.data, found.params, found.fixed, 1, 0
    )
    for before, now in zip(found.fixed, found.view.fixed(), strict=True):
        np.testing.assert_array_equal(before, now)
    outputs = model(x, training=True)
    np.testing.assert_allclose(nll, np.mean(np.square(outputs)), rtol=1e-5)
    np.testing.assert_allclose(penalty, sum(model.losses), rtol=1e-6)
    for after, variable in zip(fixed, found.view.fixed_variables, strict=True):
        np.testing.assert_allclose(after, variable, rtol=1e-5)


def masked():
    inputs = keras.Input((3, 2))
    outputs = keras.layers.Dense(2)(keras.layers.Masking()(inputs))
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x": np.ones((5, 4))}, r"expects inputs of shape.*\(5, 4\)"),
        ({"y": np.ones((4, 3))}, "same number of examples"),
        ({"y": np.ones((5, 2))}, r"cannot be evaluated.*y of shape \(5, 2\)"),
        (
            {"loss": "sparse_categorical_crossentropy", "y": np.full(5, 3)},
            r"in \[0, 3\).*from 3 to 3",
        ),
        ({"loss": lambda y, p: keras.ops.zeros((7,))}, r"shape \(7,\) for 2"),
        (
            {"loss": lambda y, p: keras.ops.square(p)},
            "one value for each example",
        ),
        (
            {
                "model": masked(),
                "x": np.ones((5, 3, 2)),
                "y": np.ones((5, 3, 2)),
                "loss": "mse",
            },
            r"are masked, which only .*tfr.losses",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        made(**options)


def test_a_loss_may_have_further_axes_where_no_sum_is_needed():
    def loss(y_true, y_pred):
        return keras.ops.square(y_true - y_pred)

    with pytest.raises(ValueError, match="one value for each example"):
        made(loss=loss)
    assert made(loss=loss, per_example=False).head_nll.shape == (2, 3)


def test_weights_that_are_not_finite_are_refused():
    model = compiled("mse")
    model.layers[-1].bias.assign([np.nan, 0.0, 0.0])
    with pytest.raises(ValueError, match="weights of the model .*diverge"):
        made(model)


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        LOSSES.SparseCategoricalCrossentropy(from_logits=True),
    ],
)
@pytest.mark.parametrize("label", [-1, 3])
def test_class_numbers_must_be_classes(loss, label, y_pred):
    loss = keras.losses.get(loss)
    objective.check_targets(loss, np.array([0, 2, 1]), y_pred)
    with pytest.raises(ValueError, match=rf"in \[0, 3\).*3 outputs.*{label}"):
        objective.check_targets(loss, np.array([0, label, 1]), y_pred)
    # Of another loss they are no class numbers.
    objective.check_targets(keras.losses.get("mse"), np.array([9]), y_pred)


def test_labels_that_the_loss_ignores_are_no_class_numbers():
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=-1)
    y_pred = np.full((3, 3), 1.0 / 3.0)
    objective.check_targets(loss, np.array([0, -1, 2]), y_pred)
    objective.check_targets(loss, np.array([-1, -1]), y_pred)
    with pytest.raises(ValueError, match=r"in \[0, 3\).*from 0 to 7"):
        objective.check_targets(loss, np.array([0, -1, 7]), y_pred)
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=2)
    objective.check_targets(loss, np.array([0, 1, 2]), y_pred[:, :2])


def test_ignored_labels_have_no_part_in_an_objective():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=-1
    )
    y = np.array([0, -1, 2])
    made = functional.Objective(
        functional.WeightView(model), np.ones((3, 2)), y, loss
    )
    nll = made.nll(made.data, made.params, made.fixed, 0, 0).numpy()
    np.testing.assert_array_equal(nll == 0.0, y == -1)


def test_masked_positions_do_not_count(rng):
    x = rng.normal(size=(5, 3, 2)).astype("float32")
    x[:, 2], x[3] = 0.0, 0.0
    y = np.where(np.any(x, axis=-1), 1, -1)
    loss = losses.CategoricalNLL()
    model = masked()
    model.compile("sgd", loss)
    for per_example in (True, False):
        found = made(model, x, y, per_example=per_example)
        arguments = found.data, found.params, found.fixed, 1, 0
        nll = found.nll(*arguments)
        log_probs = tf.nn.log_softmax(model(x))[..., 1]
        expected = -np.sum(np.where(y == 1, log_probs, 0.0), axis=-1)
        np.testing.assert_allclose(nll, expected, rtol=1e-5)
        assert nll[3] == 0.0
        # As `fit` has it.
        np.testing.assert_allclose(
            found.training_loss(*arguments)[0],
            model.evaluate(x, y, batch_size=5, verbose=0),
            rtol=1e-5,
        )


def test_masks_that_a_training_would_ignore_are_refused():
    data = {"x": np.ones((5, 3, 2)), "y": np.ones((5, 3, 2))}
    with pytest.raises(ValueError, match="are masked"):
        made(masked(), **data, loss="mse", per_example=False)
