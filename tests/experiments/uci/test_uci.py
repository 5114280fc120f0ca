"""The UCI experiment, on a part of a table and for some steps."""

import runpy
import sys

import numpy as np
import pandas as pd
import pytest

from tfp_refine import posteriors
from tfp_refine.experiments import bench
from tfp_refine.experiments import uci

SHORT = {
    "dataset": "yacht",
    "systems": ("vi", "longer", "refined"),
    "seeds": 2,
    "likelihood": "homoscedastic",
    "learning_rate": 1e-3,
    "learning_rate_schedule": "constant",
    "train_steps": 60,
    "refine_steps": 5,
    "num_members": 3,
    "variance_ratios": ("0.7", "0.5"),
    "num_samples": 12,
    "hidden": (8,),
    "segments": 1,
    "progress": False,
}
LISTS = ("systems", "variance_ratios", "hidden")
DEEP = SHORT | {
    "hidden": (4,),
    "train_steps": 20,
    "segments": 1,
    "systems": ("vi",),
    "seeds": 1,
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("uci")
    return uci.run(uci.Config(output_dir=str(path), **SHORT))


def values_of(results):
    return {
        (row.system, row.seed, row.metric): row.value
        for row in results.rows.itertuples()
        if row.metric not in ("fit_seconds", "memory")
    }


@pytest.mark.slow
def test_every_system_is_measured_in_every_split(finished):
    assert finished.reasons == {}
    counts = finished.rows.groupby(["system", "seed"])["metric"].agg(set)
    assert set(counts.index) == {
        (name, seed) for name in ("vi", "longer", "refined") for seed in (0, 1)
    }
    for metrics in counts:
        assert {"nll", "rmse", "crps", "elbo", "num_steps"} <= metrics


def test_figures_are_in_original_units(tmp_path):
    config = SHORT | {"systems": ("vi",), "seeds": 1}
    results = uci.run(uci.Config(output_dir=str(tmp_path), **config))
    # Yacht's resistance has a standard deviation of 15: a model that has
    # learned little has an error of that size, and a likelihood to match.
    found = results.rows.set_index("metric")["value"]
    assert 5 < found["rmse"] < 20
    assert 2.5 < found["nll"] < 5.0
    # In standardized units it would be 246 * log(15) = 666 nats more.
    assert -246 * 8 < found["elbo"] < -246 * 4


@pytest.mark.slow
def test_refinement_and_control_take_the_same_steps(finished):
    steps = finished.rows[finished.rows["metric"] == "num_steps"]
    steps = steps.groupby("system")["value"].first()
    assert steps.to_dict() == {"vi": 60, "longer": 90, "refined": 90}


@pytest.mark.slow
def test_splits_differ(finished):
    nll = finished.rows[finished.rows["metric"] == "nll"]
    assert nll["value"].nunique() == len(nll)


@pytest.mark.slow
def test_the_printed_table_follows_from_results_csv(finished):
    text = (finished.path / "report.md").read_text()
    rows = pd.read_csv(finished.path / "results.csv")
    nll = rows[rows["metric"] == "nll"].groupby("system")["value"]
    for name, title in finished.titles.items():
        mean, spread = nll.mean()[name], nll.std()[name]
        start = f"| {title} | {mean:.4f} ± {spread:.4f} |"
        assert start in text.replace("**", "")


@pytest.mark.slow
def test_staircase_is_drawn_and_the_ensemble_saved(finished):
    (path,) = finished.path.glob("seed_1/refined_*/fit/ensemble.posterior")
    assert posteriors.load_posterior(path).num_members == 3
    png = finished.path / "staircase_refined.png"
    assert png.stat().st_size > 10000
    staircase = finished.details["refined"][0]["staircase"]
    mean = np.mean(staircase["elbo_init"])
    rows = finished.rows.set_index(["system", "seed", "metric"])["value"]
    np.testing.assert_allclose(mean, rows["refined", 0, "elbo_init"])


@pytest.mark.slow
def test_the_same_command_reports_again_and_runs_nothing(
    finished, monkeypatch, capsys
):
    path = finished.path
    before = {p: p.stat().st_mtime_ns for p in path.rglob("*.keras")}
    records = {p: p.read_bytes() for p in path.glob("seed_*/**/*.json")}
    flags = [f"--{k}={v}" for k, v in SHORT.items() if k not in LISTS]
    lists = [
        "--systems=vi,longer,refined", "--variance_ratios=0.7,0.5",
        "--hidden=8",
    ]  # fmt: skip
    monkeypatch.setattr(
        sys, "argv", ["uci", *flags, *lists, f"--output_dir={path}"]
    )
    with pytest.raises(SystemExit) as exited:
        runpy.run_module("tfp_refine.experiments.uci", run_name="__main__")
    assert exited.value.code in (0, None)
    text = capsys.readouterr().out
    assert "refined VI" in text
    assert "seeds won" in text
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*.keras")} == before
    assert {p: p.read_bytes() for p in path.glob("seed_*/**/*.json")} == records


def test_one_depth_is_run_in_the_folder_itself(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.Bench, "run", lambda self, show: self.config)
    config = uci.Config(output_dir=str(tmp_path), depths=(2,), **DEEP)
    found = uci.run(config)
    assert (found.hidden, found.depths) == ((4, 4), ())
    assert found.output_dir == str(tmp_path)


@pytest.mark.slow
def test_one_depth_is_the_same_as_as_many_layers(tmp_path):
    one = uci.Config(output_dir=str(tmp_path / "a"), depths=(2,), **DEEP)
    two = uci.Config(
        output_dir=str(tmp_path / "b"), **(DEEP | {"hidden": (4, 4)})
    )
    assert values_of(uci.run(one)) == values_of(uci.run(two))


@pytest.mark.slow
def test_depths_are_compared(tmp_path, capsys):
    config = uci.Config(output_dir=str(tmp_path), depths=(1, 2), **DEEP)
    results = uci.run(config)
    assert list(results) == [1, 2]
    assert [r.config.hidden for r in results.values()] == [(4,), (4, 4)]
    table = capsys.readouterr().out
    for depth, of_depth in results.items():
        assert of_depth.path == tmp_path / f"depth_{depth}"
        nll = of_depth.rows.set_index("metric")["value"]["nll"]
        assert f"VI, depth {depth}" in table
        assert f"{nll:.4f}" in table
    assert (tmp_path / "depths.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dataset": "iris"}, "--dataset must be of the kind regression"),
        ({"dataset": "bostn"}, "for images. Did you mean boston[?]"),
        ({"dataset": "boston"}, "--data_dir"),
        ({"depths": (1, 2), "hidden": (8, 4)}, "--depths needs one width"),
        ({"depths": (1, 1)}, "--depths"),
        ({"split_kind": "given"}, "given"),
        ({"variance_ratios": ("0.7", "1.5")}, "--variance_ratios.*1.5"),
        ({"variance_ratios": ("0.7*none",)}, "--variance_ratios.*none"),
        ({"variance_ratios": ("0.7*0",)}, "--variance_ratios.*0.7.0"),
        ({"epochs": 2, "train_steps": 20}, "--epochs or --train_steps"),
        ({"rotations": (15.0,)}, "--rotations has no meaning"),
    ],
)
def test_wrong_configurations_are_explained(tmp_path, values, message):
    path = tmp_path / "new"
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        uci.run(uci.Config(output_dir=str(path), **values))
    assert not path.exists()


def test_defaults_are_those_that_did_best_on_validation_data():
    config = uci.Config()
    assert {"refined", "refined_ensemble"} < {*config.systems}
    filled = config.with_defaults(config.after_data("regression", (6,), 246))
    assert (filled.train_steps, filled.batch_size) == (20000, 128)
    assert (filled.hidden, filled.prior_scale) == ((50,), "1.0")
    assert filled.likelihood == "heteroscedastic"
    assert filled.learning_rate_schedule == "cosine"
    short = uci.Config(epochs=7)
    filled = short.with_defaults(short.after_data("regression", (6,), 1024))
    assert filled.train_steps == 7 * 8


@pytest.mark.slow
def test_multiplicative_flows_are_trained(tmp_path):
    config = uci.Config(
        output_dir=str(tmp_path),
        **SHORT
        | {
            "seeds": 1,
            "systems": ("vi", "mnf"),
            "train_steps": 1500,
            "mnf_flow_units": 5,
            "mnf_auxiliary_units": 5,
            "learning_rate": 3e-3,
        },
    )
    rows = uci.run(config).rows
    mnf = rows[rows["system"] == "mnf"].set_index("metric")["value"]
    assert mnf["rmse"] < 12  # the standard deviation of the target is 15
    assert np.isfinite(mnf["elbo"])


@pytest.mark.slow
def test_data_that_changed_are_noticed(tmp_path):
    folder = tmp_path / "data" / "mine" / "data"
    folder.mkdir(parents=True)
    (folder / "index_features.txt").write_text("0\n")
    (folder / "index_target.txt").write_text("1\n")
    config = uci.Config(
        **DEEP
        | {
            "dataset": "mine",
            "data_dir": str(tmp_path / "data"),
            "output_dir": str(tmp_path / "out"),
        }
    )
    rows = [f"{x} {x}" for x in range(20)]
    (folder / "data.txt").write_text("\n".join(rows))
    uci.run(config)
    rows = [f"{x} {2.0 * x + x % 3}" for x in range(20)]
    (folder / "data.txt").write_text("\n".join(rows))
    with pytest.raises(ValueError, match="differ in data: "):
        uci.run(config)
