"""Figures of papers."""

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


def test_priors_have_the_names_of_systems():
    found = find("mnist", hidden=(400, 400))
    assert found["cm", "nll"] == 0.047
    assert found["cmv", "nll"] == 0.049
    assert found["cv", "nll"] == 0.068
    assert found["vi_fv", "nll"] == 0.052
    assert found["vi_bd", "nll"] == 0.092
    assert found["vi", "accuracy"] == 0.9758


def test_images():
    assert find("mnist", "lenet5") == {
        ("vi", "nll"): 0.032,
        ("refined_vi", "nll"): 0.025,
    }
    assert find("mnist", "lenet5_caffe") == {
        ("ffg", "accuracy"): 0.991,
        ("mnf", "accuracy"): 0.993,
    }
    assert ("vi", "nll") in find("cifar10", "resnet20")
    assert find("cifar10", "resnet20", batch_norm=True) == {
        ("refined_vi", "nll"): 0.423,
        ("refined_vi", "accuracy"): 0.856,
    }


def test_a_table_with_classes_has_nothing_of_a_regression():
    assert published.find("concrete", "table", "mlp", (50,), False) == []
