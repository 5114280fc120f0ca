"""What the comparison measures, against other computations of it."""

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics

from tfp_refine import datasets
from tfp_refine import layers
from tfp_refine.experiments import compare_evaluation
from tfp_refine.experiments import fitted as fitted_lib

S, N, C = 5, 60, 4
HISTORY = [
    {"step": 10, "loss": 2.0, "val_nll": 1.5, "seconds": 0.1},
    {"step": 20, "loss": 1.0, "val_nll": 0.5, "seconds": 0.1},
]


def fitted(draws, **options):
    return fitted_lib.Fitted(
        draws, **({"num_steps": 70, "num_numbers": 300} | options)
    )


@pytest.fixture
def regression(rng):
    """Means, standard deviations and targets, standardized."""
    loc = rng.normal(size=(S, N, 1))
    scale = rng.uniform(0.3, 1.5, size=(S, N, 1))
    return loc, scale, rng.normal(size=(N, 1))


@pytest.fixture
def regression_result(regression):
    loc, scale, y = regression
    outputs = np.concatenate([loc, np.log(np.expm1(scale))], axis=-1)
    data = SimpleNamespace(
        num_classes=None,
        test=(np.zeros((N, 2)), y),
        scaler=datasets.Standardizer(np.array([7.0]), np.array([20.0])),
    )
    history = [{"step": 10, "loss": 2.0, "seconds": 0.1}]
    return compare_evaluation.evaluate(
        fitted(lambda x: outputs, history=history), data
    )


def test_regression_is_measured_in_the_units_of_the_data(
    regression, regression_result
):
    loc, scale, y = (20.0 * v for v in regression)
    densities = scipy.stats.norm(loc, scale).pdf(y).mean(axis=0)
    mean = loc.mean(axis=0)
    variance = np.mean(scale**2 + loc**2, axis=0) - mean**2
    matched = scipy.stats.norm(mean, np.sqrt(variance)).logpdf(y)
    expected = {
        "nll": -np.mean(np.log(densities)),
        "moment_matched_nll": -np.mean(matched),
        "rmse": np.sqrt(np.mean((y - mean) ** 2)),
        "epistemic": np.sqrt(np.mean(np.var(loc, axis=0))),
        "aleatoric": np.sqrt(np.mean(scale**2)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(
            regression_result[name], value, rtol=1e-5, err_msg=name
        )


def test_scores_of_distribution_functions_are_those_of_quadrature(
    regression, regression_result
):
    loc, scale, y = regression
    grid, step = np.linspace(-12.0, 12.0, 4801, retstep=True)
    cdf = scipy.stats.norm(loc, scale).cdf(grid).mean(axis=0)  # [N, G]
    crps = np.sum((cdf - (grid >= y)) ** 2, axis=-1) * step
    np.testing.assert_allclose(
        regression_result["crps"], 20.0 * crps.mean(), rtol=5e-3
    )
    at_target = scipy.stats.norm(loc, scale).cdf(y).mean(axis=0)[:, 0]
    inside = (at_target >= 0.025) & (at_target <= 0.975)
    np.testing.assert_allclose(regression_result["coverage"], inside.mean())
    levels = np.arange(1, 20) / 20
    below = [np.mean(at_target <= level) for level in levels]
    np.testing.assert_allclose(
        regression_result["calibration_error"],
        np.mean((below - levels) ** 2),
    )


def test_what_it_cost_is_told(regression_result):
    assert regression_result["num_draws"] == S
    assert regression_result["num_steps"] == 70.0
    assert regression_result["kilobytes"] == 1.2  # 300 numbers of 4 bytes
    assert regression_result["about"] == {}
    assert regression_result["curve"] == {"step": [10], "loss": [2.0]}


@pytest.fixture
def classes(rng):
    return SimpleNamespace(
        test=rng.normal(0.0, 2.0, size=(S, N, C)),
        other=rng.normal(0.0, 1.0, size=(S, 35, C)),
        labels=rng.integers(0, C, N),
    )


@pytest.fixture
def class_result(classes):
    """Of a system whose logits are its inputs."""

    def shifted():
        yield "rotation", 30.0, classes.test[0, :20]
        yield "rotation", 60.0, classes.test[0, :20] * 0.5

    data = SimpleNamespace(
        num_classes=C,
        test=(classes.test, classes.labels),
        unseen={"other": classes.other},
        shifted=shifted,
    )
    system = fitted(
        lambda x: np.asarray(x).reshape(-1, *x.shape[-2:]),
        about={"temperature": 2.0},
        history=HISTORY,
    )
    return compare_evaluation.evaluate(system, data)


def probabilities(logits):
    return scipy.special.softmax(logits, axis=-1).mean(axis=0)


def entropy(probs):
    return scipy.stats.entropy(probs, axis=-1)


def test_classes_are_measured_by_averaged_probabilities(classes, class_result):
    probs, labels = probabilities(classes.test), classes.labels
    each = entropy(scipy.special.softmax(classes.test, axis=-1))
    errors = (probs.argmax(axis=-1) != labels)[np.argsort(-probs.max(axis=-1))]
    expected = {
        "nll": sklearn.metrics.log_loss(labels, probs, labels=range(C)),
        "accuracy": np.mean(probs.argmax(axis=-1) == labels),
        "brier": np.mean(np.sum((probs - np.eye(C)[labels]) ** 2, axis=-1)),
        "entropy": entropy(probs).mean(),
        "mutual_information": np.mean(entropy(probs) - each.mean(axis=0)),
        "aurc": np.mean(np.cumsum(errors) / np.arange(1, N + 1)),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(
            class_result[name], value, rtol=1e-6, err_msg=name
        )


def test_the_calibration_error_is_that_of_the_bins(class_result):
    bins = class_result["calibration"]
    counts, accuracy, confidence = (
        np.nan_to_num(np.array(bins[name], float))
        for name in ("counts", "accuracy", "confidence")
    )
    assert counts.sum() == N
    np.testing.assert_allclose(
        class_result["ece"],
        np.sum(counts / N * np.abs(accuracy - confidence)),
    )


def test_unseen_data_are_told_by_their_confidence(classes, class_result):
    inside, outside = map(probabilities, (classes.test, classes.other))
    scores = np.concatenate([inside.max(axis=-1), outside.max(axis=-1)])
    is_inside = np.repeat([1, 0], [N, 35])
    found = class_result["unseen"]["other"]
    np.testing.assert_allclose(
        found["auroc"], sklearn.metrics.roc_auc_score(is_inside, scores)
    )
    false, true, _ = sklearn.metrics.roc_curve(
        is_inside, scores, drop_intermediate=False
    )
    np.testing.assert_allclose(found["fpr95"], false[np.argmax(true >= 0.95)])
    for name, probs in (("test", inside), ("other", outside)):
        np.testing.assert_allclose(
            class_result["entropies"][name], entropy(probs), rtol=1e-6
        )


def test_shifted_data_have_the_labels_of_the_first_examples(
    classes, class_result
):
    first, second = class_result["shifts"]
    assert (first["shift"], first["strength"]) == ("rotation", 30.0)
    assert (second["shift"], second["strength"]) == ("rotation", 60.0)
    labels = classes.labels[:20]
    for entry, factor in ((first, 1.0), (second, 0.5)):
        probs = probabilities(classes.test[:1, :20] * factor)
        np.testing.assert_allclose(
            [entry["nll"], entry["accuracy"], entry["entropy"]],
            [
                sklearn.metrics.log_loss(labels, probs, labels=range(C)),
                np.mean(probs.argmax(axis=-1) == labels),
                entropy(probs).mean(),
            ],
            rtol=1e-6,
        )
        assert 0.0 < entry["ece"] < 1.0


def test_the_course_of_a_training_is_kept(class_result):
    assert class_result["curve"] == {
        "step": [10, 20],
        "loss": [2.0, 1.0],
        "val_nll": [1.5, 0.5],
    }
    assert class_result["about"] == {"temperature": 2.0}


@pytest.mark.parametrize("bad", ["test", "unseen", "shifted"])
def test_predictions_that_are_not_finite_are_an_error(bad):
    inputs = {n: np.zeros((1, 3, C)) for n in ("test", "unseen", "shifted")}
    inputs[bad][0, 1, :2] = np.nan, np.inf
    data = SimpleNamespace(
        num_classes=C,
        test=(inputs["test"], np.zeros(3, int)),
        unseen={"other": inputs["unseen"]},
        shifted=lambda: [("fog", 1, inputs["shifted"])],
    )
    with pytest.raises(FloatingPointError, match="2 of 12 numbers"):
        compare_evaluation.evaluate(fitted(lambda x: x), data)


def test_weights_of_posteriors_are_shown_from_the_first_to_the_last(
    classes, rng
):
    model = keras.Sequential(
        [
            keras.Input((20,)),
            layers.DenseLocalReparameterization(
                30, num_train_examples=N, name="hidden"
            ),
            keras.layers.Dense(C, name="outputs"),
        ]
    )
    kernel = next(
        w for w in model.layers[0].variational_weights if w.name == "kernel"
    )
    data = SimpleNamespace(
        num_classes=C,
        test=(classes.test, classes.labels),
        unseen={},
        shifted=list,
    )
    found = compare_evaluation.evaluate(fitted(lambda x: x, model=model), data)[
        "weights"
    ]
    assert list(found) == ["hidden, kernel", "hidden, bias"]
    loc, scale = (
        keras.ops.convert_to_numpy(value).ravel()
        for value in (kernel.loc, kernel.scale)
    )
    shown = found["hidden, kernel"]
    assert len(shown["loc"]) == len(shown["scale"]) == 300  # of 600
    assert (shown["loc"][0], shown["loc"][-1]) == (loc[0], loc[-1])
    order = [np.flatnonzero(loc == value)[0] for value in shown["loc"]]
    assert np.all(np.diff(order) >= 1)
    np.testing.assert_allclose(shown["scale"], scale[order])
    assert len(found["hidden, bias"]["loc"]) == 30  # all of them
