"""What the compared systems are made of."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """What `tests.support.compare_facts` finds, in a process of its own."""
    process = subprocess.run(
        [
            sys.executable, "-m", "tests.support.compare_facts",
            str(tmp_path_factory.mktemp("facts")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("vi", "GaussianKL"),
        ("vi_bd", "GaussianKL"),
        ("vi_fv", "GaussianKL"),
        ("vi_iblm", "GaussianKL"),
        ("vi_eb", "EmpiricalBayesKL"),
        ("cm", "CollapsedMeanKL"),
        ("cv", "CollapsedVarianceKL"),
        ("cmv", "CollapsedMeanVarianceKL"),
        ("k_tied", "GaussianKL"),
        ("low_rank", "GaussianKL"),
        ("flipout", "GaussianKL"),
        ("fflu", "LogUniformKL"),
        ("ffg", "GaussianKL"),
        ("mnf", "GaussianKL"),
    ],
)
def test_priors_are_those_of_the_flags(facts, name, kind):
    network = facts["networks"][name]
    expected = {
        "GaussianKL": {"prior_scale": 0.5},
        "EmpiricalBayesKL": {"initial_prior_scale": 0.5},
        "CollapsedMeanKL": {"alpha_reg": 0.2},
        "CollapsedVarianceKL": {"shape": 0.7, "rate": 0.3},
        "CollapsedMeanVarianceKL": {"shape": 0.7, "rate": 0.3, "delta": 0.2},
        "LogUniformKL": {},
    }[kind]  # fmt: skip
    for part in ("kernel_regularizer", "bias_regularizer"):
        found, config = network[part]
        assert found == kind
        assert expected.items() <= config.items()
    assert network["num_train_examples"] == facts["num_train"]


def test_posteriors_are_those_of_the_papers(facts):
    pairs = {
        name: (facts["networks"][name]["kernel_posterior"][0],
               facts["networks"][name]["bias_posterior"][0])
        for name in ("vi", "vi_bd", "vi_fv", "cm", "k_tied", "low_rank")
    }  # fmt: skip
    field, fixed = "MeanFieldPosterior", "FixedVariancePosterior"
    assert pairs == {
        "vi": (field, field),
        "vi_bd": (field, field),
        "vi_fv": (fixed, fixed),
        "cm": (field, field),
        "k_tied": ("KTiedPosterior", field),
        "low_rank": ("LowRankPosterior", field),
    }
    for name in pairs:
        for part in ("kernel_posterior", "bias_posterior"):
            config = facts["networks"][name][part][1]
            assert config.get("initial_scale", config.get("scale")) == 0.05


def test_factors_of_the_divergence(facts):
    scales = {n: f["kl_scale"] for n, f in facts["networks"].items()}
    others = {"vi_bd": 0.5, "flipout": 0.1}
    for name, scale in scales.items():
        if scale is not None:
            assert scale == others.get(name, 1.0), name
    assert sum(scale is not None for scale in scales.values()) >= 14


def test_only_flipout_has_layers_of_flipout(facts):
    for name, network in facts["networks"].items():
        assert ("DenseFlipout" in network["layers"]) == (name == "flipout")


def test_flows_are_those_of_mnf_only(facts):
    assert facts["networks"]["ffg"]["flow_length"] == 0
    assert facts["networks"]["mnf"]["flow_length"] == 3


def test_weight_decay_is_that_of_the_prior(facts):
    for network in (facts["networks"]["map"], facts["regression"]):
        for part in ("kernel_regularizer", "bias_regularizer"):
            kind, config = network[part]
            assert kind == "L2"
            np.testing.assert_allclose(
                config["l2"], 0.5 / facts["num_train"] / 0.5**2, rtol=1e-6
            )


def test_only_concrete_dropout_learns_its_rates(facts):
    fixed, learned = (
        facts["networks"][name] for name in ("mc_dropout", "concrete_dropout")
    )
    assert fixed["layers"].count("MCDropout") == 1
    assert learned["layers"].count("ConcreteDropout") == 2
    np.testing.assert_allclose(
        fixed["drops"] + learned["drops"], 0.3, rtol=1e-5
    )


def test_learning_rates_fall_to_zero_as_a_cosine(facts):
    for network in facts["networks"].values():
        np.testing.assert_allclose(
            network["rates"], [0.02, 0.01, 0.0], rtol=1e-5, atol=1e-9
        )


def test_one_system_is_initialized_by_iblm_on_the_training_data(facts):
    assert facts["initialized_by_iblm"] == [[facts["num_train"]] * 2]


def test_each_repetition_and_stream_has_a_seed(facts):
    assert len(set(facts["seeds"])) == 6


def test_costs_of_bases_count_if_they_are_known(facts):
    assert facts["total"] == {"fit_seconds": 5.0, "unknown": None}


def test_networks_with_too_many_weights_have_no_posterior_of_all(facts):
    last, all_layers, sampled = facts["reasons"]
    assert last is None
    assert all_layers is None  # 403 of at most 403
    assert "has 403 weights, more than --max_sampled_weights=402" in sampled


def test_ensembles_are_trained_as_long_as_other_networks(facts):
    common = {
        "num_members": 3, "steps": 20, "batch_size": 16, "learning_rate": 0.02,
        "num_steps": 60, "num_numbers": 6, "learning_rate_decay": "cosine",
    }  # fmt: skip
    found = facts["ensembles"]
    for name, more in (
        ("deep_ensemble", {}),
        ("deep_ensemble_adversarial", {"adversarial_epsilon": 0.04}),
    ):
        without = {
            k: v for k, v in found[name].items() if k not in ("seed", "verbose")
        }
        assert without == common | more


def test_swag_has_its_flags(facts):
    found = facts["ensembles"]["swag"]
    expected = {
        "num_snapshots": 5, "rank": 4, "batch_size": 16, "learning_rate": 0.03
    }  # fmt: skip
    assert expected.items() <= found.items()
    epoch = facts["num_train"] // 16
    assert found["num_steps"] == 100 + 2 * 5 * epoch
    assert found["num_numbers"] == 6 + 6 + 24


def test_cyclical_sghmc_has_its_flags(facts):
    found = facts["ensembles"]["cyclical_sghmc"]
    expected = {
        "num_cycles": 2, "samples_per_cycle": 5, "steps_per_cycle": 10,
        # Half of a cycle is without noise.
        "steps_per_sample": 1, "temperature": 0.6, "learning_rate": 0.03,
        "batch_size": 16, "num_steps": 120, "num_numbers": 6,
    }  # fmt: skip
    assert expected.items() <= found.items()


def test_temperature_is_that_of_the_validation_data(facts):
    found = facts["temperature"]
    assert found["error"] < 1e-4
    one, other = found["temperatures"]
    np.testing.assert_allclose(one, other, rtol=1e-6)
    assert found["num_numbers"] == 8
    assert found["seconds"] is None


def test_longer_training_goes_on_for_the_steps_of_refinement(facts):
    assert facts["longer"] == {
        "steps": 3 * 2 * 4, "same": True, "num_steps": 124, "history": None
    }  # fmt: skip


def test_laplace_predicts_as_networks_do(facts):
    found = facts["laplace"]
    np.testing.assert_allclose(found["logits"], [[[0.5, 0.25]]])
    np.testing.assert_allclose(
        found["log_probs"], np.log([[[0.5, 0.25]]]), rtol=1e-6
    )
    one, other = found["asked"]
    assert one == other
    assert one[0] == 30


def test_laplace_of_all_layers_draws_linearized_outputs(facts):
    found = facts["laplace"]
    assert found["shape"] == [30, 1, 4]
    (raw,) = found["raw_noise"]
    np.testing.assert_allclose(math.log1p(math.exp(raw)), 0.7, rtol=1e-6)
    # Five standard errors of 20000 draws.
    np.testing.assert_allclose(found["mean"], [0.5, 0.25], atol=0.08)
    np.testing.assert_allclose(
        found["covariance"], [[4.0, 2.0], [2.0, 2.0]], atol=0.2
    )


def test_laplace_keeps_a_covariance_and_flows_are_added(facts):
    found = facts["laplace_sizes"]
    size = 51 * 3  # weights of the last layer
    assert found["sizes"] == [7 + size**2, 7 + size**2 + 11]
    # One batch of 128 an epoch, and 2000 of these.
    assert found["steps"] == [100, 2100]
    initial, best, precision = found["precisions"]
    assert initial != best
    np.testing.assert_allclose(precision, best, rtol=1e-4)


def row(report, head):
    return [line for line in report.splitlines() if line.startswith(head)]


def test_better_scores_are_bold_and_costs_are_not(facts):
    test, costs, unseen, *shifts, names = row(facts["report"], "| VI |")
    assert test == (
        "| VI | **0.100** | **0.9000** | **0.1000** | **0.1000** | "
        "**0.1000** | **0.940** |"
    )
    assert costs == "| VI | 2.0 |"
    assert unseen == "| VI | **0.900** | **0.100** |"
    assert shifts == [
        "| VI | **0.100** |",
        "| VI | **0.100** |",
        "| VI | **1.100** |",
        "| VI | **0.100** |",
    ]
    assert "regularizers.GaussianKL" in names
    assert "**" not in "".join(row(facts["report"], "| MAP |"))


def test_a_report_says_what_was_compared(facts):
    for part in (
        "Uncertainty on mnist",
        "108 training and 30 test examples; one repetition: how much chance",
        "mlp with 400, 400 hidden units, 402 weights",
        "20 steps of 16 examples by Adam",
        "NUTS, all layers: not applied. Too many.",
        "SWAG: failed. It became nan.",
    ):
        assert part in facts["report"]


def test_figures_of_papers_are_beside_ours(facts):
    assert (
        "| VI: NLL | 0.100 | 0.094 | Tomczak et al., 2021, Table 1 |"
        in (facts["report"])
    )
    assert "| VI: accuracy | 0.900 | 0.976 |" in facts["report"]
