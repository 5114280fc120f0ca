import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import two_heads
from tfp_refine import functional
from tfp_refine import losses
from tfp_refine.functional import links
from tfp_refine.functional import several_outputs

FACTORS = [2.0, 0.25]
FORMS = ["dict", "list", "tuple"]


def made(model, *given, loss=None, **options):
    view = functional.WeightView(model)
    return functional.Objective(view, *given, loss=loss, **options)


def mean_loss(made):
    """Returns the loss of a training step with all examples."""
    return made.training_loss(made.data, made.params, made.fixed, 1, 0)[0]


# Each form of outputs with each of losses, and with weights or without.
@pytest.mark.parametrize(
    ("outputs", "losses_in", "weighted"),
    [
        pytest.param(
            outputs,
            losses_in,
            weighted,
            marks=[pytest.mark.slow] * ((i + j) % 3 or (i > 0) != weighted),
        )
        for i, outputs in enumerate(FORMS)
        for j, losses_in in enumerate(FORMS)
        for weighted in (False, True)
    ],
)
def test_the_sum_is_that_of_fit(outputs, losses_in, weighted, rng):
    x, label, size = two_heads.data(rng)
    model = two_heads.make_model(outputs)
    known = [*two_heads.losses_of().values()]
    model.compile(
        "sgd",
        two_heads.in_form(losses_in, known),
        loss_weights=two_heads.in_form(losses_in, FACTORS),
    )
    y = two_heads.in_form(outputs, [label, size])
    weights = rng.uniform(size=(2, two_heads.NUM)) if weighted else None
    if weighted:
        weights = two_heads.in_form(outputs, [*weights])
    found = made(model, x, y, sample_weight=weights)
    expected = model.evaluate(
        x, y, batch_size=len(x), sample_weight=weights, verbose=0
    )
    np.testing.assert_allclose(mean_loss(found), expected[0], rtol=1e-5)
    # Other ways to say the same.
    for form in FORMS:
        again = made(
            model,
            x,
            two_heads.in_form(form, [label, size]),
            sample_weight=weights,
        )
        np.testing.assert_array_equal(mean_loss(again), mean_loss(found))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["mae", keras.losses.MeanAbsoluteError()])
def test_one_loss_serves_all_outputs_as_in_fit(loss, rng):
    x, _, size = two_heads.data(rng)
    inputs = keras.Input((2,))
    heads = [keras.layers.Dense(2)(inputs) for _ in range(2)]
    model = keras.Model(inputs, heads)
    model.compile("sgd", loss)
    expected = model.evaluate(x, [size, -size], batch_size=len(x), verbose=0)
    for given in (None, loss):
        found = made(model, x, [size, -size], loss=given, per_example=False)
        np.testing.assert_allclose(mean_loss(found), expected[0], rtol=1e-5)
    with pytest.raises(ValueError, match="mean over the 2 outputs"):
        made(model, x, [size, -size])


def test_a_function_takes_all_outputs_at_once_unless_compiled(rng):
    x, label, size = two_heads.data(rng)
    model = two_heads.make_model("list")

    def of_both(y_true, y_pred):
        first, second = two_heads.losses_of().values()
        return first.call(y_true[0], y_pred[0]) + second.call(
            y_true[1], y_pred[1]
        )

    summed = made(model, x, [label, size], loss=two_heads.losses_of())
    whole = made(model, x, [label, size], loss=of_both)
    np.testing.assert_allclose(mean_loss(whole), mean_loss(summed), rtol=1e-6)
    # Its loss weights are of the losses that a model was compiled with.
    model.compile("sgd", two_heads.losses_of(), loss_weights=FACTORS)
    again = made(model, x, [label, size], loss=two_heads.losses_of())
    np.testing.assert_array_equal(mean_loss(again), mean_loss(summed))

    def of_one(y_true, y_pred):
        return tf.reduce_sum(tf.abs(y_pred), axis=-1)

    model.compile("sgd", of_one)
    sums = sum(np.abs(output).sum() for output in model(x))
    np.testing.assert_allclose(
        mean_loss(made(model, x, [label, size])), sums / len(x), rtol=1e-5
    )


def test_the_loss_weight_of_one_output_counts(rng):
    x, _, size = two_heads.data(rng)
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(2, name="size")(inputs))
    for loss_weights in (0.5, [0.5], {"size": 0.5}):
        loss = losses.GaussianNLL()
        if isinstance(loss_weights, dict):
            loss = {"size": loss}
        model.compile("sgd", loss, loss_weights=loss_weights)
        np.testing.assert_allclose(
            mean_loss(made(model, x, size)),
            model.evaluate(x, size, batch_size=len(x), verbose=0),
            rtol=1e-5,
        )


def test_outputs_without_a_loss_do_not_count(rng):
    x, label, size = two_heads.data(rng)
    for form in FORMS:
        model = two_heads.make_model(form)
        loss = {"label": losses.CategoricalNLL(), "size": None}
        alone = made(
            keras.Model(model.inputs, model.outputs[0]),
            x,
            label,
            loss=losses.CategoricalNLL(),
        )
        for given in (loss, {"label": loss["label"]}, [*loss.values()]):
            for y in ([label, size], {"label": label}, [label]):
                found = made(model, x, y, loss=given)
                np.testing.assert_allclose(
                    mean_loss(found), mean_loss(alone), rtol=1e-6
                )


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_subclassed_models_are_called_to_see_their_outputs(form, rng):
    x, label, size = two_heads.data(rng)
    model = two_heads.Subclassed(form)
    model(x)
    known = [*two_heads.losses_of().values()]
    y = two_heads.in_form(form, [label, size])
    model.compile("sgd", two_heads.in_form(form, known), loss_weights=FACTORS)
    found = made(model, x, y)
    expected = model.evaluate(x, y, batch_size=len(x), verbose=0)
    np.testing.assert_allclose(mean_loss(found), expected[0], rtol=1e-5)
    names = two_heads.NAMES if form == "dict" else ("0", "1")
    assert found.link == links.Links(names, (links.Link("softmax", True), None))


def test_each_output_has_its_mask(rng):
    inputs = keras.Input((3, 2))
    masked = keras.layers.Masking()(inputs)
    tags = keras.layers.Dense(2, name="tags")(masked)
    value = keras.layers.Dense(1, name="value")(keras.layers.Flatten()(inputs))
    model = keras.Model(inputs, {"tags": tags, "value": value})
    x = rng.normal(size=(5, 3, 2)).astype("float32")
    x[:, 2] = 0.0
    y = {"tags": np.full((5, 3), -1), "value": rng.normal(size=(5, 1))}
    y["tags"][:, :2] = 1
    loss = {"tags": losses.CategoricalNLL(), "value": losses.GaussianNLL()}
    weights = {"tags": rng.uniform(size=(5, 3)), "value": rng.uniform(size=5)}
    model.compile("sgd", loss)
    for given in (None, weights):
        found = made(model, x, y, sample_weight=given)
        outputs = model(x)
        log_probs = tf.nn.log_softmax(outputs["tags"])[..., 1].numpy()
        squares = 0.5 * (y["value"] - outputs["value"]) ** 2
        density = -(squares + 0.5 * np.log(2 * np.pi)).numpy()[:, 0]
        one = {"tags": np.ones((5, 3)), "value": 1.0}
        given = given or one
        expected = np.sum((given["tags"] * log_probs)[:, :2], axis=1)
        expected += given["value"] * density
        np.testing.assert_allclose(
            found.nll(found.data, found.params, found.fixed, 1, 0),
            -expected,
            rtol=1e-5,
        )
    y["tags"][2, 0] = 7
    with pytest.raises(ValueError, match=r"in \[0, 2\).*7, 1 such"):
        made(model, x, y)
    y["tags"][2, 0] = 1
    keras_loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    with pytest.raises(ValueError, match="outputs of the output 'tags'.* mask"):
        made(
            model,
            x,
            y | {"tags": y["tags"] % 2},
            loss=loss | {"tags": keras_loss},
        )


ONES = np.ones(two_heads.NUM)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"loss": ["mse"]},
            r"`loss` must have .*\['label', 'size'\].*1 values",
        ),
        ({"loss": {"a": "mse"}}, r"`loss` must have .*names \['a'\]"),
        ({"loss": {"label": None}}, "a loss for one of the outputs"),
        ({"y": ONES}, "`y` must have a value for each output.*Tensor"),
        ({"y": [ONES] * 3}, "`y` must have .*3 values"),
        ({"y": {"label": ONES}}, "`y` must have .*none for 'size'"),
        ({"y": {"label": ONES, "b": ONES}}, r"`y` .*names \['b', 'label'\]"),
        ({"sample_weight": {"label": ONES}}, "`sample_weight` .*for 'size'"),
        ({"sample_weight": [ONES] * 3}, "`sample_weight` must have .*3 values"),
        (
            {"sample_weight": np.ones((two_heads.NUM, 2))},
            r"of positions must be given for each output.*\(12, 2\)",
        ),
        ({"class_weight": {1: 2.0}}, "`class_weight` is for models of one"),
    ],
)
@pytest.mark.parametrize("form", ["dict", "list"])
def test_what_fits_no_output_is_refused(form, options, message, rng):
    x, label, size = two_heads.data(rng)
    given = {
        "y": two_heads.in_form(form, [label, size]),
        "loss": two_heads.losses_of(),
    }
    with pytest.raises(ValueError, match=message):
        made(two_heads.make_model(form), x, **(given | options))


@pytest.mark.parametrize("factor", [-1.0, float("nan"), "a"])
def test_loss_weights_are_numbers(factor, rng):
    x, label, size = two_heads.data(rng)
    model = two_heads.make_model("list")
    known = [*two_heads.losses_of().values()]
    model.compile("sgd", known, loss_weights=[1.0, factor])
    with pytest.raises(ValueError, match="`loss_weights` must be finite num"):
        made(model, x, [label, size])


def test_a_loss_that_is_no_sum_is_named_by_its_output(rng):
    x, label, size = two_heads.data(rng)
    loss = two_heads.losses_of() | {"size": keras.losses.MeanSquaredError()}
    with pytest.raises(ValueError, match="mean over the 2 outputs"):
        made(two_heads.make_model(), x, [label, size], loss=loss)
    loss["size"] = lambda y_true, y_pred: y_pred
    with pytest.raises(ValueError, match="loss of the output 'size' must ret"):
        made(two_heads.make_model(), x, [label, size], loss=loss)


def test_names_are_those_that_a_model_knows():
    names = several_outputs.names_of
    model = two_heads.make_model("list")
    assert names(model, model.output) == two_heads.NAMES
    assert names(model, {"b": 1, "a": 2}) == ("a", "b")
    assert names(None, [1, [2, 3]]) == ("0", "1", "2")
    head = model.get_layer("label").output
    twice = keras.Model(model.inputs, [head, head])
    assert names(twice, twice.output) == ("0", "1")
    sequence = keras.Sequential([keras.Input((2,)), model.get_layer("label")])
    assert names(sequence, sequence.outputs[0]) == ("label",)
