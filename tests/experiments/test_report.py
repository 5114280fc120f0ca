"""Reports of results that are made up, one number for each figure."""

import re

import numpy as np
import pandas as pd
import pytest

from tfp_refine import plotting
from tfp_refine.experiments import bench
from tfp_refine.experiments import compare
from tfp_refine.experiments import report
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.harness import tables

TITLES = {
    "map": "MAP",
    "vi": "VI",
    "refined": "refined VI",
    "nuts": "NUTS on Laplace, last layer",
}
CLASSES = {
    "nll": 0.5,
    "accuracy": 0.8,
    "ece": 0.1,
    "brier": 0.3,
    "aurc": 0.05,
    "entropy": 0.4,
    "mutual_information": 0.1,
    "unseen/shuffled/auroc": 0.75,
    "unseen/shuffled/fpr95": 0.5,
    "unseen/shuffled/auroc_entropy": 0.7,
    "unseen/shuffled/fpr95_entropy": 0.6,
    "unseen/shuffled/entropy": 1.2,
    "fit_seconds": 3.0,
    "num_steps": 200.0,
}
CLASSES |= {
    f"shift/{shift}/{strength}/{metric}": value
    for shift, strength in (
        ("rotation", 90), ("rotation", 15), ("flipped_pixels", 0.1)
    )
    for metric, value in {"nll": 1.5, "accuracy": 0.4, "ece": 0.2}.items()
}  # fmt: skip
OF_REGRESSION = {
    "nll": 1.5,
    "moment_matched_nll": 1.6,
    "rmse": 1.2,
    "crps": 0.6,
    "coverage": 0.94,
    "calibration_error": 0.02,
    "elbo": -900.0,
    "aleatoric": 1.0,
}
SHAPES = {
    "calibration": {
        "counts": [0, 10],
        "accuracy": [None, 0.8],
        "confidence": [None, 0.9],
        "edges": [0.0, 0.5, 1.0],
    },
    "entropies": {"test": [0.1, 0.2, 0.3]},
    "unseen_entropies": {"shuffled": [1.0, 1.2]},
    "curve": {"step": [10, 20], "loss": [3.0, 2.0], "val_nll": [1.0, 0.9]},
}
OF_VARIATIONAL = {
    "weights": {
        "hidden, kernel": {"loc": [0.0, 1.0], "scale": [0.1, 0.2]},
        "hidden, bias": {"loc": [0.0], "scale": [0.1]},
    },
    "pruning": {
        "layers": {
            "hidden": {
                "loc": [0.0, 1.0],
                "scale": [0.1, 0.2],
                "bias_loc": [],
                "bias_scale": [],
            }
        },
        "prior_variances": {"hidden": 1.0},
        "curve": {"removed": [0, 1], "nll": [0.5, 0.7], "pruned": 1},
    },
}
STAIRCASE = {
    "steps": [10],
    "trace_step": [5, 10],
    "trace_elbo": [[-9.0, -8.0], [-9.5, -8.2]],
    "elbo_init": [-10.0, -10.0],
    "elbo_conditioned": [[-9.0], [-9.5]],
    "elbo_aux": [[-8.0], [-8.2]],
    "kept": [[0], [0]],
}


def maker(folder):
    """Returns a function that makes results of some systems."""

    def make_results(
        systems=("map", "vi", "refined"),
        metrics=CLASSES,
        seeds=2,
        kind="images",
        more=None,
        has_details=False,
        **values,
    ):
        """Each system is by 0.01 worse than the one before, in each seed."""
        given = compare.Config(seeds=seeds, **({"dataset": "digits"} | values))
        model = {"model": "mlp", "train_steps": 200, "batch_size": 64}
        config = given.with_defaults(
            {**model, "learning_rate": 0.01, "prior_scale": "fan_in"}
        )
        results = bench.Results("compare", kind, given, config, folder)
        results.titles = {name: TITLES.get(name, name) for name in systems}
        results.facts = dict.fromkeys(
            ("num_train", "num_validation", "num_test", "num_weights"), 7
        )
        rows = [
            ("digits", name, seed, metric, value + 0.01 * number + 0.1 * seed)
            for number, name in enumerate(systems)
            for seed in range(seeds)
            for metric, value in metrics.items()
        ]
        rows += [
            ("digits", name, 0, metric, value)
            for name, metric, value in more or ()
        ]
        results.rows = tables.frame(rows)
        of = {"vi": OF_VARIATIONAL, "refined": {"staircase": STAIRCASE}}
        results.details = {
            name: {
                seed: SHAPES | of.get(name, {}) if has_details else {}
                for seed in range(seeds)
            }
            for name in systems
        }
        return results

    return make_results


@pytest.fixture
def make(tmp_path):
    """Function that makes results of some systems."""
    return maker(tmp_path)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Folder with the report of a classifier, with everything in it."""
    folder = tmp_path_factory.mktemp("full")
    report.show(maker(folder)(has_details=True))
    return folder


@pytest.fixture
def written(full):
    """The page of `full`."""
    return (full / "report.md").read_text()


@pytest.fixture
def no_figures(monkeypatch):
    """Leaves out the figures, which take seconds."""
    monkeypatch.setattr(page, "can_plot", lambda: False)


def sections(text):
    return re.findall("^## (.*)$", text, re.MULTILINE)


def drawn(monkeypatch, name):
    """Records the first argument of the calls of a function of `plotting`."""
    calls, draw = [], getattr(plotting, name)

    def record(first, *args, **options):
        calls.append(first)
        return draw(first, *args, **options)

    monkeypatch.setattr(plotting, name, record)
    return calls


@pytest.mark.usefixtures("no_figures")
def test_the_terminal_shows_what_pandas_finds_in_the_rows(make, capsys):
    results = make()
    report.show(results)
    text = capsys.readouterr().out
    frame = pd.DataFrame(results.rows)
    mean = frame.groupby(["system", "metric"])["value"].mean().unstack()
    spread = frame.groupby(["system", "metric"])["value"].std().unstack()
    for system, title in results.titles.items():
        cell = f"{mean.nll[system]:.4f} ± {spread.nll[system]:.4f}"
        assert re.search(f"^{title} +{cell}", text, re.MULTILINE), title
    assert re.search(r"^VI − MAP +\+0.0100 +0.0000 +0 of 2", text, re.MULTILINE)
    assert "digits (images): 7 train, 7 validation, 7 test examples" in text
    assert "report.html" in text


@pytest.mark.usefixtures("no_figures")
def test_refinements_are_compared_with_their_starts(make, capsys):
    """In the sentence are mean and standard error of paired differences."""
    systems = ("vi", "longer", "refined", "flows", "laplace")
    results = make(systems, seeds=4)
    # By how much each seed is better than that of VI.
    gains = np.array([0.5, 0.7, 0.6, 0.8])
    nll = results.rows["metric"] == "nll"
    values = {
        name: results.rows.loc[nll & (results.rows["system"] == name), "value"]
        for name in systems
    }
    refined = values["vi"].to_numpy() - gains
    results.rows.loc[values["refined"].index, "value"] = refined
    # Hardly better than training for as long.
    behind = np.array([0.1, -0.1, 0.1, -0.06])
    results.rows.loc[values["longer"].index, "value"] = refined + behind
    report.show(results)
    text = " ".join(capsys.readouterr().out.split())
    error = np.std(gains, ddof=1) / 2.0
    assert (
        "refined VI has a lower test NLL than VI, by 0.6500 (standard error "
        f"{error:.4f}), lower on 4 of 4 seeds." in text
    )
    assert (
        "refined VI and longer do not differ clearly in test NLL: -0.0100 "
        f"(standard error {np.std(behind, ddof=1) / 2.0:.4f}), lower on 2 of 4 "
        "seeds." in text
    )
    # By 0.01, and on every seed alike.
    assert "flows has a lower test NLL than laplace, by 0.0100" in text
    assert "than flows" not in text


@pytest.mark.usefixtures("no_figures")
def test_one_seed_has_no_differences(make, capsys):
    report.show(make(seeds=1))
    text = capsys.readouterr().out
    assert "VI − MAP" not in text
    assert "test NLL than" not in text
    assert "One seed: differences may be due to chance." in text


@pytest.mark.usefixtures("no_figures")
def test_columns_are_those_of_the_kind_of_data(make, capsys):
    report.show(make())
    of_classes = capsys.readouterr().out
    report.show(make(metrics=OF_REGRESSION, kind="regression"))
    of_numbers = capsys.readouterr().out
    for names, text, other in (
        ("accuracy ECE Brier AURC", of_classes, of_numbers),
        ("RMSE CRPS ELBO coverage Gaussian", of_numbers, of_classes),
    ):
        for name in names.split():
            assert re.search(rf"\b{name}\b", text), name
            assert not re.search(rf"\b{name}\b", other), name


@pytest.mark.slow
def test_the_page_has_all_sections_in_order(written):
    assert sections(written) == [
        "Comparison",
        "Predictions",
        "Away from the training data",
        "Training",
        "Costs",
        "Systems",
    ]


@pytest.mark.usefixtures("no_figures")
def test_sections_without_results_are_left_out(make, tmp_path):
    report.show(make(metrics={"nll": 1.0}))
    text = (tmp_path / "report.md").read_text()
    assert sections(text) == ["Comparison", "Predictions", "Systems"]


@pytest.mark.slow
def test_results_without_test_metrics_are_reported(make, tmp_path):
    metrics = {"unseen/shuffled/auroc": 0.75, "of_its_own": 1.0}
    report.show(make(metrics=metrics, has_details=True))
    text = (tmp_path / "report.md").read_text()
    assert "|  | AUROC, shuffled |" in text
    assert "|  | of its own |" in text
    assert not (tmp_path / "nll.png").exists()
    assert (tmp_path / "entropies.png").exists()


@pytest.mark.usefixtures("no_figures")
def test_the_page_has_the_command_as_it_was_given(make, tmp_path):
    report.show(make(hidden=(8,), train_steps=30))
    text = (tmp_path / "report.md").read_text()
    assert (
        "`python -m tfp_refine.experiments.compare --dataset=digits "
        "--hidden=8 --train_steps=30`" in text
    )
    assert "trained for 30 steps of 64 examples" in text
    assert "with a learning rate of 0.01, falling to 0 as a cosine" in text


def test_tables_away_from_the_training_data(written):
    assert "|  | AUROC, shuffled | FPR95, shuffled |" in written
    assert "AUROC (entropy), shuffled" in written
    assert "NLL of test data, by the strength of rotation (degrees):" in written
    assert (
        "Accuracy of test data, by the strength of flipped pixels (fraction):"
        in written
    )
    # 15 before 90: not as they came, and not as texts.
    assert "|  | 15 | 90 |" in written


def test_every_figure_is_drawn(written, full):
    names = {
        "entropies", "learning_curves", "nll", "posterior_vi", "posteriors",
        "pruning", "reliability", "shifts", "staircase_refined",
    }  # fmt: skip
    assert {path.stem for path in full.glob("*.png")} == names
    assert set(re.findall(r"!\[(\w+)\]", written)) == names
    text = (full / "report.html").read_text()
    assert text.count("data:image/png;base64,") == len(names)


@pytest.mark.slow
def test_figures_get_what_their_functions_take(make, monkeypatch):
    calls = {
        name: drawn(monkeypatch, name)
        for name in ("ranking", "entropy_cdf", "shift_curves", "convergence",
                     "posterior_histograms", "pruning_curve")
    }  # fmt: skip
    report.show(make(has_details=True))
    found = {name: call for name, (call,) in calls.items()}
    np.testing.assert_allclose(found["ranking"]["VI"], [0.51, 0.61])
    assert set(found["entropy_cdf"]) == {"test", "shuffled"}
    assert found["entropy_cdf"]["shuffled"]["MAP"] == [1.0, 1.2]
    rotation = found["shift_curves"]["rotation"]["VI"]
    assert rotation["strength"] == [15.0, 90.0]
    assert set(found["shift_curves"]) == {"rotation", "flipped pixels"}
    np.testing.assert_allclose(rotation["nll"], [1.56, 1.56])
    assert len(found["convergence"]["MAP"]) == 2
    assert list(found["posterior_histograms"]) == ["hidden, kernel"]
    assert list(found["pruning_curve"]) == ["VI"]


def test_a_system_that_lacks_a_seed_is_not_drawn(make, monkeypatch, capsys):
    results = make()
    lacks = (results.rows["system"] == "vi") & (results.rows["seed"] == 1)
    results.rows = results.rows[~lacks]
    del results.details["vi"][1]
    results.reasons = {"vi": "failed. ValueError: It was NaN."}
    ranked = drawn(monkeypatch, "ranking")
    report.show(results)
    assert list(ranked[0]) == ["MAP", "refined VI"]
    text = capsys.readouterr().out
    assert "VI (1 of 2 seeds)" in text
    assert "VI: failed. ValueError: It was NaN." in text


@pytest.mark.slow
def test_of_many_systems_the_best_and_map_are_drawn(make, monkeypatch):
    bins = drawn(monkeypatch, "reliability_diagram")
    systems = ("vi", "cm", "cv", "cmv", "eb", "fv", "map")
    report.show(make(systems, has_details=True))
    assert list(bins[0]) == ["VI", "cm", "cv", "cmv", "MAP"]


@pytest.mark.slow
def test_long_titles_leave_room_for_the_figure(make, monkeypatch):
    shown, draw = [], plotting.ranking

    def record(*args, **options):
        shown.append(draw(*args, **options))
        return shown[0]

    monkeypatch.setattr(plotting, "ranking", record)
    results = make()
    results.titles["vi"] = (
        "Laplace, last layer, refined by flows (flow_base=standard_normal, "
        "flow_length=1)"
    )
    report.show(results)
    box = np.asarray(shown[0], object).flat[0].get_position()
    assert box.width > 0.4


def of_curves(results):
    """Leaves results only the curves of their details, and the NLL."""
    results.rows = results.rows[results.rows["metric"] == "nll"]
    for of_system in results.details.values():
        for of_seed in of_system.values():
            of_seed["curve"] = SHAPES["curve"]


def test_trainings_that_stopped_early_are_cut_to_the_shortest(
    make, monkeypatch
):
    curves = drawn(monkeypatch, "convergence")
    results = make()
    of_curves(results)
    longer = {"step": [10, 20, 30], "loss": [3, 2, 1], "val_nll": [1, 1, 1]}
    results.details["vi"][1] = {"curve": longer}
    report.show(results)
    assert [run["step"] for run in curves[0]["VI"]] == [[10, 20], [10, 20]]


def test_training_losses_are_drawn_where_there_is_no_other_curve(
    make, monkeypatch
):
    labels, draw = [], plotting.convergence

    def record(curves, of_metrics, **options):
        labels.append(list(of_metrics))
        return draw(curves, of_metrics, **options)

    monkeypatch.setattr(plotting, "convergence", record)
    results = make()
    of_curves(results)
    report.show(results)
    results.details["vi"][1] = {"curve": {"step": [1, 2], "loss": [3.0, 2.0]}}
    report.show(results)
    assert labels == [["val_nll"], ["loss"]]


@pytest.mark.usefixtures("no_figures")
def test_systems_that_are_missing_are_listed_with_the_reason(
    make, tmp_path, capsys
):
    results = make()
    results.titles["laplace"] = "Laplace"
    results.reasons = {"laplace": "not applied. It has no such likelihood."}
    report.show(results)
    text = (tmp_path / "report.md").read_text()
    assert sections(text)[-1] == "Systems that are missing"
    assert "| Laplace | not applied. It has no such likelihood. |" in text
    assert "Laplace: not applied." in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    ("r_hat", "is_noted"), [(1.005, False), (1.3, True), (np.nan, True)]
)
def test_chains_that_have_not_mixed_are_noted(make, capsys, r_hat, is_noted):
    report.show(make(("map", "nuts"), more=[("nuts", "max_r_hat", r_hat)]))
    note = f"last layer: the chains have not mixed (R-hat {r_hat:.2f}"
    text = " ".join(capsys.readouterr().out.split())
    assert (note in text) == is_noted
    assert text.count("have not mixed") == is_noted


@pytest.mark.usefixtures("no_figures")
def test_metrics_that_no_other_table_shows_are_diagnostics(make, tmp_path):
    report.show(make(more=[("vi", "of_its_own", 2.5)]))
    text = (tmp_path / "report.md").read_text()
    assert "## Fit diagnostics" in text
    assert "|  | of its own |" in text
    assert "| VI | 2.5000 |" in text


@pytest.mark.usefixtures("no_figures")
def test_a_metric_of_an_extra_section_is_no_diagnostic_too(make, tmp_path):
    results = make(more=[("vi", "mmd", 2.5), ("vi", "temperature", 1.5)])
    table = tables.summary(results.rows, ("mmd",), results.titles)
    report.show(results, [page.Section("Distances", [table])])
    text = (tmp_path / "report.md").read_text()
    diagnostics = text.split("## Fit diagnostics")[1].split("## ")[0]
    assert "temperature" in diagnostics
    assert "MMD" not in diagnostics


@pytest.mark.usefixtures("no_figures")
def test_published_figures_stand_beside_ours(make, tmp_path):
    results = make(
        metrics=OF_REGRESSION, kind="regression", dataset="yacht", seeds=1
    )
    report.show(results)
    text = (tmp_path / "report.md").read_text()
    assert (
        "| refined VI: NLL | 1.5200 | 1.626 | Havasi et al., 2021, Table 1 |"
        in text
    )
    assert "| VI: ELBO | -900.0 | -929 |" in text
    # Others are published too, but were not fitted.
    assert "mc_dropout" not in text


@pytest.mark.usefixtures("no_figures")
def test_systems_are_listed_with_their_papers(make, tmp_path):
    report.show(make(("map", "refined(cm)")))
    text = (tmp_path / "report.md").read_text()
    assert (
        "| refined(cm) | refined(cm) | refine, regularizers.CollapsedMeanKL, "
        "regularizers.GaussianKL | Havasi et al., 2021; Tomczak et al., 2021; "
        "Blundell et al., 2015 |" in text
    )


@pytest.mark.usefixtures("no_figures")
def test_sections_can_be_added_and_extended(make, tmp_path):
    extra = [
        page.Section("Attacks", ["One more."]),
        page.Section("Costs", ["All on one machine."]),
    ]
    report.show(make(), extra)
    text = (tmp_path / "report.md").read_text()
    assert sections(text)[-3:] == ["Costs", "Attacks", "Systems"]
    assert text.index("| MAP | 3") < text.index("All on one machine.")
    assert text.index("All on one machine.") < text.index("One more.")


@pytest.mark.usefixtures("no_figures")
def test_without_matplotlib_the_page_has_its_tables(make, tmp_path):
    report.show(make())
    assert not list(tmp_path.glob("*.png"))
    assert "| MAP |" in (tmp_path / "report.md").read_text()
