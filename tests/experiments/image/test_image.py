"""The image experiment, on small digits and for some steps."""

import numpy as np
import pytest

from tfp_refine.experiments import image

SHORT = {
    "dataset": "digits",
    "model": "mlp",
    "hidden": (8, 8),
    "seeds": 1,
    "train_steps": 60,
    "learning_rate": 1e-2,
    "segments": 2,
    "refine_steps": 5,
    "num_members": 3,
    "variance_ratios": ("0.7",),
    "num_samples": 6,
    "num_eval_samples": 2,
    "shift_examples": 50,
    "progress": False,
}
AWAY = {
    "unseen": ("shuffled", "turned"),
    "rotations": (15.0, 90.0),
    "flipped_pixels": (0.1,),
}
CLASSES = {
    "nll",
    "accuracy",
    "ece",
    "brier",
    "aurc",
    "entropy",
    "mutual_information",
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("image")
    systems = ("eb", "vi", "refined(eb)")
    config = image.Config(
        output_dir=str(path), systems=systems, pruning=True, **SHORT, **AWAY
    )
    return image.run(config)


def of(results, system):
    rows = results.rows[results.rows["system"] == system]
    return rows.set_index("metric")["value"]


@pytest.mark.slow
def test_every_system_has_all_metrics(finished):
    assert finished.reasons == {}
    for system in ("eb", "vi", "refined(eb)"):
        found = of(finished, system)
        assert set(found.index) >= CLASSES | {
            "elbo", "nll_few_draws", "unseen/turned/auroc",
            "unseen/shuffled/fpr95", "shift/rotation/15/nll",
            "shift/flipped_pixels/0.1/accuracy",
        }  # fmt: skip
        assert 0.2 < found["accuracy"] <= 1.0
        assert found["nll"] < np.log(10)
        assert np.isfinite(found).all()


@pytest.mark.slow
def test_refinement_is_compared_with_the_bound_before(finished):
    found = of(finished, "refined(eb)")
    assert found["elbo_init"] < found["elbo"]
    assert found["elbo_standard_error"] > 0
    # Of a single posterior there is no such error.
    assert "elbo_standard_error" not in of(finished, "eb")


@pytest.mark.slow
def test_units_are_pruned_of_networks_with_posteriors_alone(finished):
    details = {n: d[0] for n, d in finished.details.items()}
    assert [n for n, of_n in details.items() if "pruning" in of_n] == [
        "eb", "vi"
    ]  # fmt: skip


@pytest.mark.slow
def test_units_are_pruned(tmp_path):
    config = image.Config(
        output_dir=str(tmp_path), systems=("vi",), pruning=True, **SHORT
    )
    results = image.run(config)
    pruning = results.details["vi"][0]["pruning"]
    assert list(pruning["layers"]) == ["hidden_0", "hidden_1", "outputs"]
    assert list(pruning["units"]) == ["hidden_0", "hidden_1"]
    curve = pruning["curve"]
    assert curve["removed"][0] == 0
    # With no unit removed, it is the network that the table shows.
    found = of(results, "vi")
    np.testing.assert_allclose(curve["nll"][0], found["nll"], rtol=1e-5)
    assert curve["nll"][-1] > curve["nll"][0]
    np.testing.assert_allclose(
        pruning["prior_variances"]["hidden_0"], 0.01, rtol=1e-5
    )
    assert found["pruned_units"] == sum(pruning["pruned"].values())


@pytest.mark.slow
def test_report_shows_what_was_asked_for(finished):
    text = (finished.path / "report.md").read_text()
    for figure in (
        "reliability", "entropies", "shifts", "learning_curves",
        "staircase_refined_eb", "posterior_eb", "posterior_vi", "pruning",
    ):  # fmt: skip
        assert f"![{figure}]" in text, figure
        assert (finished.path / f"{figure}.png").stat().st_size > 5000


@pytest.mark.slow
def test_other_unseen_data_are_measured_with_the_same_fit(finished):
    before = {p: p.stat().st_mtime_ns for p in finished.path.rglob("*.keras")}
    config = image.Config(
        output_dir=str(finished.path), systems=("vi",), **SHORT,
        unseen=("turned",),
    )  # fmt: skip
    again = of(image.run(config), "vi")
    assert "unseen/shuffled/auroc" not in again
    assert "shift/rotation/15/nll" not in again
    assert "pruned_units" not in again
    for metric in ("nll", "unseen/turned/auroc"):
        np.testing.assert_allclose(again[metric], of(finished, "vi")[metric])
    after = {p: p.stat().st_mtime_ns for p in finished.path.rglob("*.keras")}
    assert after == before


def test_defaults_depend_on_the_model_and_the_data():
    def fill(**values):
        config = image.Config(**values)
        shape = (28, 28, 1)
        return config.with_defaults(config.after_data("images", shape, 60000))

    assert fill().learning_rate == 3e-3
    assert fill(model="mlp").learning_rate == 1e-3
    assert (fill().train_steps, fill().batch_size) == (30000, 256)
    assert fill(epochs=2).train_steps == 2 * (60000 // 256)
    assert fill(model="resnet20").variational == "hybrid"
    assert (fill(model=None).model, fill(model=None).learning_rate) == (
        "lenet5", 3e-3
    )  # fmt: skip
    small = image.Config()
    small = small.with_defaults(small.after_data("images", (8, 8, 1), 1437))
    assert small.batch_size == 143
    assert small.train_steps == 500 * (1437 // 143)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dataset": "yacht"}, "--dataset must be of the kind images"),
        ({"model": "magic"}, "--model.*magic"),
        ({"flipped_pixels": (1.5,)}, "--flipped_pixels.*1.5"),
        ({"num_samples": 7, "systems": ("refined",)}, "multiple of"),
        ({"classes": (0, 11)}, "--classes"),
    ],
)
def test_wrong_configurations_are_explained(tmp_path, values, message):
    path = tmp_path / "new"
    with pytest.raises(ValueError, match=message):
        image.run(image.Config(output_dir=str(path), **(SHORT | values)))
    assert not path.exists()
