"""Figures of papers."""

import pytest

from tfp_refine.experiments import published


def find(dataset="yacht", model="mlp", hidden=(50,), batch_norm=False):
    kind = "regression" if dataset in published.UCI else "images"
    return {
        (f.system, f.metric): f.value
        for f in published.find(dataset, kind, model, hidden, batch_norm)
    }


def test_regression_of_one_layer():
    assert find() == {
        ("vi", "nll"): 1.749,
        ("refined_vi", "nll"): 1.626,
        ("deep_ensemble", "moment_matched_nll"): 1.18,
        ("deep_ensemble", "rmse"): 1.58,
        ("mc_dropout", "nll"): 1.55,
        ("mc_dropout", "rmse"): 1.11,
    }
    assert find(hidden=(50, 50)) == find(dataset="digits") == {}


def test_each_figure_is_with_its_paper():
    def sources(dataset, model, hidden, batch_norm, kind="images"):
        found = published.find(dataset, kind, model, hidden, batch_norm)
        return {f.system: f.source for f in found}

    assert sources("yacht", "mlp", (50,), False, "regression") == {
        "vi": "Havasi et al., 2021, Table 1",
        "refined_vi": "Havasi et al., 2021, Table 1",
        "deep_ensemble": "Lakshminarayanan et al., 2017, Table 1",
        "mc_dropout": "Gal and Ghahramani, 2016, as in the former",
    }
    assert sources("mnist", "lenet5_caffe", (50,), False) == {
        "ffg": "Louizos and Welling, 2017, Table 2",
        "mnf": "Louizos and Welling, 2017, Table 2",
    }
    (source,) = set(sources("mnist", "mlp", (400, 400), False).values())
    assert source == "Tomczak et al., 2021, Table 1"
    (source,) = set(sources("cifar10", "lenet5", (50,), False).values())
    assert source == "Havasi et al., 2021, Tables 2 and 3"


def test_figures_are_of_the_model_that_the_paper_has():
    assert find("mnist", hidden=(100, 100)) == {}
    assert find("mnist", "lenet5", hidden=(400, 400)) == {
        ("vi", "nll"): 0.032,
        ("refined_vi", "nll"): 0.025,
    }


@pytest.mark.parametrize(
    ("dataset", "expected"),
    [
        ("boston", (2.874, 2.851, 2.41, 3.28, 2.46, 2.97)),
        ("concrete", (3.138, 3.131, 3.06, 6.03, 3.04, 5.23)),
        ("energy", (0.749, 0.707, 1.38, 2.09, 1.99, 1.66)),
    ],
)
def test_figures_are_as_printed(dataset, expected):
    assert tuple(find(dataset).values()) == expected


def test_priors_have_the_names_of_systems():
    found = find("mnist", hidden=(400, 400))
    assert found["cm", "nll"] == 0.047
    assert found["cmv", "nll"] == 0.049
    assert found["cv", "nll"] == 0.068
    assert found["vi_fv", "nll"] == 0.052
    assert found["vi_bd", "nll"] == 0.092
    assert found["vi", "nll"] == 0.094
    accuracies = {
        system: value
        for (system, metric), value in found.items()
        if metric == "accuracy"
    }
    assert accuracies == {
        "vi": 0.9758, "vi_fv": 0.9833, "vi_bd": 0.9757, "cm": 0.9866,
        "cmv": 0.9855, "cv": 0.9787,
    }  # fmt: skip


def test_images():
    assert find("mnist", "lenet5") == {
        ("vi", "nll"): 0.032,
        ("refined_vi", "nll"): 0.025,
    }
    assert find("mnist", "lenet5_caffe") == {
        ("ffg", "accuracy"): 0.991,
        ("mnf", "accuracy"): 0.993,
    }
    assert find("cifar10", "lenet5") == {
        ("vi", "nll"): 0.815,
        ("vi", "accuracy"): 0.723,
        ("refined_vi", "nll"): 0.768,
        ("refined_vi", "accuracy"): 0.735,
    }
    assert find("cifar10", "resnet20") == {
        ("vi", "nll"): 0.465,
        ("vi", "accuracy"): 0.842,
        ("refined_vi", "nll"): 0.432,
        ("refined_vi", "accuracy"): 0.858,
    }
    assert find("cifar10", "resnet20", batch_norm=True) == {
        ("refined_vi", "nll"): 0.423,
        ("refined_vi", "accuracy"): 0.856,
    }


def test_a_table_with_classes_has_nothing_of_a_regression():
    assert published.find("concrete", "table", "mlp", (50,), False) == []
