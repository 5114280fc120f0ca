"""The Laplace experiment, run as users run it, and its flags."""

import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.support import experiment_command
from tfp_refine import datasets
from tfp_refine.experiments import laplace_integration

QUICK = (
    "--train_steps=60", "--checkpoint_steps=20", "--num_samples=20",
    "--flow_lengths=1,3", "--refine_epochs=2", "--nuts_warmup=30",
    "--nuts_samples=20", "--nuts_chains=2", "--toy_steps=50",
    "--shift_examples=50", "--noprogress",
)  # fmt: skip
COMMAND = experiment_command.Command("laplace", *QUICK)
SYSTEMS = [
    "map", "temperature", "laplace", "refined_1", "refined_3",
    "from_scratch_1", "from_scratch_3", "nuts",
]  # fmt: skip


def digits(directory, *flags):
    return (
        f"--output_dir={directory}", "--task=comparison", "--model=mlp",
        "--hidden=8", "--rotations=30", "--learning_rate=0.02", *flags,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("laplace")
    process = COMMAND.run(*digits(directory))
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_each_system_is_evaluated(finished):
    directory, output = finished
    results = experiment_command.results(directory)["results"]["comparison"]
    assert list(results) == SYSTEMS
    for system, result in results.items():
        # Two epochs from N(0, I) lead nowhere.
        least = 0.05 if system.startswith("from_scratch") else 0.4
        assert least < result["accuracy"] <= 1.0
        assert 0.0 < result["nll"] < np.inf
        assert list(result["unseen"]) == ["turned", "shuffled"]
        for scores in result["unseen"].values():
            assert 0.0 <= scores["fpr95"] <= 1.0
        (shift,) = result["shifts"]
        assert (shift["shift"], shift["strength"]) == ("rotation", 30.0)
        assert ("mmd" in result) == (system != "temperature")
        assert ("elbo" in result) == (
            system not in ("map", "temperature", "nuts")
        )
        assert result["seconds"] > 0.0
    assert results["temperature"]["accuracy"] == results["map"]["accuracy"]
    assert results["laplace"]["elbo"] > results["from_scratch_1"]["elbo"]
    for name in ("reliability", "entropies", "shifts", "flow_length"):
        assert (directory / f"{name}.png").stat().st_size > 10000
    assert "MMD to NUTS" in output
    assert "raise --nuts_warmup" in output  # with 20 samples


@pytest.mark.slow
def test_distances_are_least_for_the_reference_itself(finished):
    results = experiment_command.results(finished[0])["results"]["comparison"]
    mmd = {name: r["mmd"] for name, r in results.items() if "mmd" in r}
    assert mmd["nuts"] < mmd["laplace"] < mmd["map"]


@pytest.mark.slow
def test_other_flags_of_an_evaluation_make_nothing_anew(finished):
    directory, _ = finished
    before = {p: p.stat().st_mtime for p in directory.glob("posteriors/*")}
    process = COMMAND.run(
        *digits(directory, "--num_samples=10", "--method=laplace,nuts")
    )
    assert process.returncode == 0, process.stderr
    after = {p: p.stat().st_mtime for p in directory.glob("posteriors/*")}
    assert after == before
    results = experiment_command.results(directory)["results"]["comparison"]
    assert list(results) == ["laplace", "nuts"]


@pytest.mark.slow
def test_flows_from_scratch_alone_and_what_was_lost_are_computed(tmp_path):
    flags = (
        f"--output_dir={tmp_path}", "--task=comparison", "--dataset=iris",
        "--method=from_scratch", "--flow_lengths=1",
    )  # fmt: skip
    process = COMMAND.run(*flags)
    assert process.returncode == 0, process.stderr
    (lost,) = tmp_path.glob("posteriors/from_scratch_1_*.posterior")
    lost.unlink()
    (tmp_path / "results.json").unlink()
    process = COMMAND.run(*flags)
    assert process.returncode == 0, process.stderr
    assert lost.exists()
    lost.write_bytes(b"cut off")
    process = COMMAND.run(*flags)
    assert process.returncode == 1
    assert "Remove the file to compute it anew" in process.stderr


@pytest.mark.slow
def test_distances_depend_on_all_that_the_reference_does():
    code = """
from absl import flags
from tfp_refine.experiments import laplace_flags, run_flags
flags.FLAGS(["x"])
laplace_flags.check()
names = set()
for name, value in (("hessian", "kron"), ("layers", "all"),
                    ("prior_precision", "3"), ("nuts_samples", 7)):
    names.add(laplace_flags.record_name("distances", "map"))
    flags.FLAGS[name].value = value
names.add(laplace_flags.record_name("distances", "map"))
assert len(names) == 5, names
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
def test_a_trained_model_is_taken_as_it_is(tmp_path):
    data = datasets.load_images("digits")
    x = data.x_train.astype(np.float32) / 255.0
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    model.fit(x, data.y_train, epochs=4, verbose=0)
    model.save(tmp_path / "mine.keras")
    flags = (
        f"--output_dir={tmp_path / 'out'}", "--task=comparison",
        f"--model={tmp_path / 'mine.keras'}", "--method=map,laplace",
        "--rotations=", "--unseen=shuffled", "--hessian=kron",
    )  # fmt: skip
    process = COMMAND.run(*flags, "--scaling=unit")
    assert process.returncode == 0, process.stderr
    results = experiment_command.results(tmp_path / "out")["results"]
    expected = model.evaluate(
        data.x_test.astype(np.float32) / 255.0, data.y_test, verbose=0
    )
    np.testing.assert_allclose(
        results["comparison"]["map"]["nll"], expected, rtol=1e-4
    )
    assert not (tmp_path / "out" / "training").exists()
    model.layers[-1].bias.assign_add(np.arange(10.0))
    model.save(tmp_path / "mine.keras")
    (message,) = COMMAND.messages([[*flags, "--scaling=unit"]])
    assert "holds results of other flags or data" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        ("--dataset=wine", "--layers=all"),
        ("--dataset=digits", "--model=gru", "--predictive=probit"),
    ],
    ids=["table_all_layers", "gru_rows"],
)
def test_tables_and_recurrent_networks_have_posteriors_too(tmp_path, flags):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--task=comparison", "--rotations=",
        "--method=map,laplace,refined", "--flow_lengths=1", "--hidden=8",
        "--unseen=shuffled", "--learning_rate=0.02", *flags,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results = experiment_command.results(tmp_path)["results"]["comparison"]
    assert list(results) == ["map", "laplace", "refined_1"]
    for result in results.values():
        assert result["accuracy"] > 0.5
        assert np.isfinite(result["nll"])


def write_texts(root):
    rng = np.random.default_rng(0)
    words = {
        "up": ["high", "rise", "lift", "top"],
        "down": ["low", "fall", "sink"],
    }
    for split, count in (("train", 60), ("test", 20)):
        for kind, own in words.items():
            folder = root / "mine" / split / kind
            folder.mkdir(parents=True)
            for number in range(count):
                text = rng.choice([*own, "and", "the"], size=6)
                (folder / f"{number}.txt").write_text(" ".join(text))


@pytest.mark.slow
def test_texts_of_a_folder_are_read(tmp_path):
    write_texts(tmp_path)
    process = COMMAND.run(
        f"--output_dir={tmp_path / 'out'}", f"--data_dir={tmp_path}",
        "--task=comparison", "--dataset=mine", "--kind=text", "--hidden=8",
        "--sequence_length=8", "--embedding=8", "--learning_rate=0.02",
        "--method=map,laplace", "--prior_precision=grid_search",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    results = experiment_command.results(tmp_path / "out")["results"]
    for result in results["comparison"].values():
        assert result["accuracy"] > 0.9
        assert list(result["unseen"]) == ["shuffled"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    directory = tmp_path_factory.mktemp("toy")
    process = experiment_command.Command("laplace", "--noprogress").run(
        f"--output_dir={directory}", "--task=toy", "--flow_lengths=5"
    )
    assert process.returncode == 0, process.stderr
    return directory, process.stdout


@pytest.mark.slow
def test_refinement_comes_three_times_closer_in_the_toy(toy):
    directory, output = toy
    results = experiment_command.results(directory)["results"]["toy"]
    mmd = {system: result["mmd"] for system, result in results.items()}
    assert list(mmd) == ["laplace", "vb", "refined_5", "nuts"]
    assert mmd["nuts"] < 3.0 * mmd["refined_5"] < mmd["laplace"] < mmd["vb"]
    assert results["refined_5"]["elbo"] > results["laplace"]["elbo"]
    assert "VB, factorized" in output
    assert (directory / "toy.png").stat().st_size > 10000


def test_errors_of_integration_are_as_known(monkeypatch):
    monkeypatch.setattr(laplace_integration, "_CASES", 3)
    binary, several = (
        laplace_integration.binary_errors(),
        laplace_integration.errors_of_classes(seed=0),
    )
    assert 0.015 < binary["max_probit"] < 0.0165
    means, scales = np.array(binary["means"]), np.array(binary["scales"])
    # A wide logit is a coin: the variance of its probability is nearly 1/4.
    assert 0.42 < binary["mc"][0][-1] < 0.5
    assert binary["mc"][0][0] < 1e-6
    assert (len(means), len(scales)) == np.shape(binary["probit"])
    rng = np.random.default_rng(0)
    draws = 1.0 / (1.0 + np.exp(-rng.normal(means[8], scales[12], 200000)))
    np.testing.assert_allclose(binary["mc"][8][12], draws.std(), rtol=0.02)
    assert [row["num_classes"] for row in several] == [2, 5, 10, 100]
    assert several[0]["mean_field"] < 0.017
    for row in several:
        assert row["mc 1000"] < row["mc 20"]


@pytest.mark.slow
def test_a_run_that_was_killed_ends_with_the_same_numbers(finished, tmp_path):
    COMMAND.kill_when(
        lambda: [*tmp_path.glob("posteriors/refined_1_*.posterior")],
        *digits(tmp_path),
    )
    process = COMMAND.run(*digits(tmp_path))
    assert process.returncode == 0, process.stderr
    ours, theirs = map(experiment_command.records, (tmp_path, finished[0]))
    assert ours
    for path, record in ours.items():
        assert record == theirs[path], path


def test_wrong_flags_are_explained_before_any_work(tmp_path):
    (tmp_path / "bad.keras").write_text("no model")
    keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]
    ).save(tmp_path / "three.keras")
    keras.Sequential([keras.Input((4,)), keras.layers.Dense(10)]).save(
        tmp_path / "four.keras"
    )
    keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3)]).save(
        tmp_path / "conv.keras"
    )
    cases = {
        "--task=seen": "--task must name some of comparison, toy, integration",
        "--method=swag": "--method must name some of map, temperature",
        "--flow_lengths=0": "--flow_lengths must hold positive numbers",
        "--flow_lengths=1,1": "--flow_lengths must hold each number once",
        "--flow_lengths=a": "--flow_lengths must be a comma-separated list",
        "--hidden=": "--hidden must hold positive numbers",
        "--prior_precision=0": "--prior_precision must be a positive number",
        "--prior_precision=wide": "marginal_likelihood or grid_search",
        "--validation_fraction=0": "--validation_fraction must be between",
        "--refine_learning_rate=0": "`--refine_learning_rate` must be a pos",
        "--prior_scale=0": "`--prior_scale` must be a positive finite number",
        "--model=vgg": "--model must be mlp",
        "--scaling=unit": "--scaling is for a trained --model",
        "--unseen=digits": "--unseen must name some of turned, shuffled",
        "--rotations=far": "--rotations must be a comma-separated list",
        "--dataset=boston": "`name` must be 'digits'",
        "--predictive=exact": "--predictive",
        f"--model={tmp_path / 'bad.keras'}": "the file of a Keras model",
        f"--model={tmp_path / 'none.keras'}": "the file of a Keras model",
        f"--model={tmp_path / 'three.keras'}": "each of 10 classes",
        f"--model={tmp_path / 'four.keras'}": "expects inputs of shape",
        f"--model={tmp_path / 'conv.keras'}": "Dense",
    }
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}", case] for case in cases]
    )
    for (case, expected), message in zip(cases.items(), messages, strict=True):
        assert expected in (message or ""), (case, message)
    cases = {
        ("--dataset=iris", "--unseen=mnist"): "some of shuffled. Received",
        ("--dataset=iris", "--model=lenet5"): "--kind=table has --model=mlp",
        ("--dataset=iris", "--model=gru"): "--model=gru is for images and",
        ("--dataset=trec", "--model=mlp"): "--kind=text has --model=gru",
    }
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}", *case] for case in cases]
    )
    for (case, expected), message in zip(cases.items(), messages, strict=True):
        assert expected in (message or ""), (case, message)
