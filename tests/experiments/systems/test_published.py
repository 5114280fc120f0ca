"""Figures of papers."""

import pytest

from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import tables
from tfp_refine.experiments.systems import published
from tfp_refine.experiments.systems import registry

UCI = ("boston", "concrete", "energy", "yacht")
# All networks that papers have, and some more.
IMAGES = [
    {"dataset": "mnist", "model": "mlp", "hidden": (400, 400)},
    {"dataset": "mnist", "model": "lenet5"},
    {"dataset": "mnist", "model": "lenet5_caffe"},
    {"dataset": "cifar10", "model": "lenet5"},
    {"dataset": "cifar10", "model": "resnet20", "variational": "hybrid"},
]


def find(dataset="yacht", model="mlp", **values):
    kind = "regression" if dataset in UCI else "images"
    values = {"variational": "full"} | values
    config = fields.Bench(dataset=dataset, model=model, **values)
    return published.find(config, kind)


def values(*args, **options):
    return {(f.system, f.metric): f.value for f in find(*args, **options)}


def test_regression_of_one_layer():
    assert values() == {
        ("vi", "nll"): 1.749,
        ("vi", "elbo"): -929.0,
        ("refined", "nll"): 1.626,
        ("refined", "elbo"): -790.0,
        ("deep_ensemble", "moment_matched_nll"): 1.18,
        ("deep_ensemble", "rmse"): 1.58,
        ("mc_dropout", "nll"): 1.55,
        ("mc_dropout", "rmse"): 1.11,
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
    found = values(dataset)
    without_bounds = [v for (_, name), v in found.items() if name != "elbo"]
    assert tuple(without_bounds) == expected


def test_nothing_is_found_for_other_networks_and_data():
    assert find(hidden=(50, 50)) == []
    assert find("digits", hidden=(400, 400)) == []
    assert find("mnist", hidden=(100, 100)) == []
    assert find("mnist", "lenet5", augment="crop") == []
    assert find("mnist", "lenet5", classes=(0, 1)) == []
    assert find("mnist", "lenet5", variational="hybrid") == []
    config = fields.Bench(dataset="yacht", model="mlp")
    assert published.find(config, "table") == []


def test_each_figure_is_with_its_paper():
    assert {f.system: f.source for f in find()} == {
        "vi": "Havasi et al., 2021, Table 1",
        "refined": "Havasi et al., 2021, Table 1",
        "deep_ensemble": "Lakshminarayanan et al., 2017, Table 1",
        "mc_dropout": "Gal and Ghahramani, 2016, in Lakshminarayanan et al., "
        "2017, Table 1",
    }
    sources = [
        {figure.source for figure in find(**network)} for network in IMAGES
    ]
    assert sources == [
        {"Tomczak et al., 2021, Table 1"},
        {"Havasi et al., 2021, Tables 2 and 3"},
        {"Louizos and Welling, 2017, Table 2"},
        {"Havasi et al., 2021, Tables 2 and 3"},
        {"Havasi et al., 2021, Tables 2 and 3"},
    ]


def test_the_paper_s_vi_is_that_of_a_learned_prior_too():
    assert values("cifar10", "lenet5") == {
        (system, metric): value
        for systems, metric, value in (
            (("vi", "eb"), "nll", 0.815),
            (("vi", "eb"), "accuracy", 0.723),
            (("refined", "refined(eb)"), "nll", 0.768),
            (("refined", "refined(eb)"), "accuracy", 0.735),
        )
        for system in systems
    }


def test_batch_normalization_has_figures_of_its_own():
    network = {"dataset": "cifar10", "model": "resnet20"}
    network["variational"] = "hybrid"
    assert values(**network)["refined", "nll"] == 0.432
    assert values(**network, batch_norm=True) == {
        ("refined", "nll"): 0.423,
        ("refined", "accuracy"): 0.856,
        ("refined(eb)", "nll"): 0.423,
        ("refined(eb)", "accuracy"): 0.856,
    }


def test_figures_of_priors_and_posteriors():
    found = values("mnist", hidden=(400, 400))
    assert {s: v for (s, name), v in found.items() if name == "nll"} == {
        "vi": 0.094,
        "fv": 0.052,
        "bd": 0.092,
        "cm": 0.047,
        "cmv": 0.049,
        "cv": 0.068,
    }
    assert found["cm", "accuracy"] == 0.9866


def test_all_names_are_those_of_systems_and_metrics():
    found = [figure for name in UCI for figure in find(name)]
    found += [figure for network in IMAGES for figure in find(**network)]
    for figure in found:
        expression = registry.parse(figure.system, fields.Bench)
        assert registry.short(expression) == figure.system
        assert figure.metric in tables.METRICS
