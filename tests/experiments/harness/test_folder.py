import dataclasses
import json
import math
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import folder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(config_lib.Config):
    """Configuration.

    Training:
        seed: Seed.
        hidden: Units.
        rate: Rate.
    """

    seed: int = 0
    hidden: tuple[int, ...] = (50,)
    rate: float | None = None


def make(path, decides=None, experiment="uci", **values):
    config = Config(**values)
    decides = config.to_json() if decides is None else decides
    return folder.Folder(path, experiment, config, decides)


ROWS = [
    ("yacht", "refined(vi, num_members=5)", 0, "nll", 0.1 + 0.2),
    ("yacht", "map", 0, "unseen/boats/auroc", math.nan),
    ("yacht", "map", 3, "rmse", math.inf),
]


def test_results_have_one_schema(tmp_path):
    with make(tmp_path / "a" / "b", rate=0.1) as of:
        of.write_results(ROWS, config=Config(rate=0.5), extra={"a": np.ones(1)})
    text = (tmp_path / "a" / "b" / "results.json").read_text()
    results = json.loads(text, parse_constant=pytest.fail)
    assert list(results) == [
        "schema", "experiment", "config", "versions", "date", "machine",
        "seeds", "rows", "notes",
    ]  # fmt: skip
    assert (results["schema"], results["experiment"]) == (1, "uci")
    assert results["config"] == {
        "seed": {"value": 0, "type": "int"},
        "hidden": {"value": [50], "type": "tuple[int, ...]"},
        "rate": {"value": 0.5, "type": "float | None"},
    }
    assert results["versions"].keys() >= {
        "tfp_refine", "python", "tensorflow", "tensorflow_probability",
        "keras", "numpy", "pandas",
    }  # fmt: skip
    assert results["machine"]["processors"] >= 1
    assert results["date"].endswith("+00:00")
    assert results["seeds"] == [0, 3]
    assert [row["value"] for row in results["rows"]] == [0.1 + 0.2, None, None]
    assert results["notes"] == {"a": [1.0]}


def test_results_are_read_by_pandas_as_they_were_written(tmp_path):
    with make(tmp_path) as of:
        results = of.write_results(ROWS)
    assert results.path == tmp_path
    read = pd.read_csv(tmp_path / "results.csv")
    pd.testing.assert_frame_equal(
        read, results.rows, check_dtype=False, rtol=1e-15
    )


def test_a_record_is_computed_once_and_equal_when_it_is_read_again(tmp_path):
    calls = []

    def compute():
        calls.append(1)
        return {"a": np.arange(2), "b": (1, math.inf), "c": np.float32(0.5)}

    with make(tmp_path) as of:
        first = of.once("split_0/vi", compute)
    with make(tmp_path) as of:
        again = of.once("split_0/vi", compute)
    assert calls == [1]
    assert first == again
    assert first.pop("seconds") >= 0.0
    assert first == {"a": [0, 1], "b": [1, math.inf], "c": 0.5}


@pytest.mark.parametrize(
    "text",
    ['{"a": 1', "[1]", '{"a": 1}', '{"a": 1, "crc32": 1}', "", "\xff",
     "[" * 10**5],
)  # fmt: skip
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "a.json").write_text(text, encoding="latin-1")
    with (
        make(tmp_path) as of,
        pytest.raises(
            ValueError, match=r"a\.json' is damaged: .* Remove this file"
        ),
    ):
        of.once("a", dict)


@pytest.mark.slow
def test_a_changed_record_is_refused(tmp_path):
    path = tmp_path / "a.json"
    with make(tmp_path) as of:
        record = of.once("a", lambda: {"a": [1.25, math.nan], "b": {"1": "x"}})
        whole = path.read_bytes()
        for position in range(8 * len(whole)):
            damaged = bytearray(whole)
            damaged[position // 8] ^= 1 << position % 8
            path.write_bytes(damaged)
            try:
                found = of.once("a", dict)
            except folder.DamagedError:
                continue
            assert repr(found) == repr(record)  # spaces have changed


def test_a_record_that_fails_leaves_nothing(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with make(tmp_path) as of:
        with pytest.raises(KeyboardInterrupt):
            of.once("a", interrupted)
        with pytest.raises(TypeError, match="Not for JSON"):
            of.once("a", lambda: {"a": object()})
        assert of.once("a", lambda: {"a": 1})["a"] == 1


def test_a_folder_of_another_configuration_is_refused(tmp_path):
    with make(tmp_path, {"seed": 1, "data": "ab", "rate": 0.1}, rate=0.1):
        pass
    now = {"seed": 1, "data": "cd", "rate": 0.5, "hidden": [9]}
    with (
        pytest.raises(ValueError, match="another configuration") as error,
        make(tmp_path, now),
    ):
        pass
    assert str(error.value).endswith(
        'They differ in data: "cd" now, "ab" there; --rate: 0.5 now, 0.1 '
        "there; --hidden: [9] now, null there"
    )
    with (
        pytest.raises(ValueError, match='experiment: "image" now, "uci" there'),
        make(tmp_path, {}, experiment="image"),
    ):
        pass
    with make(tmp_path, {"seed": 1, "data": "ab", "rate": 0.1}):
        pass  # An entry that failed has left no lock.


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"experiment": "uci"}'])
def test_a_folder_of_a_damaged_configuration_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with (
        pytest.raises(ValueError, match=r"config\.json' is damaged.*--output"),
        make(tmp_path),
    ):
        pass


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(ValueError, match="Received: --output_dir=.*file/x"),
        make(tmp_path / "file" / "x"),
    ):
        pass


# Without the root of the package, which imports every room and TensorFlow.
_HOLD = """
import sys, types
root = types.ModuleType("tfp_refine")
root.__path__ = ["tfp_refine"]
sys.modules["tfp_refine"] = root
from tfp_refine.experiments.harness import folder
config = types.SimpleNamespace(to_json=dict)
with folder.Folder(sys.argv[1], "uci", config, {}):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_belongs_to_one_process_until_that_is_killed(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        for _ in range(2):  # Being refused does not free it.
            with (
                pytest.raises(ValueError, match=f"pid {holder.pid}\\."),
                make(tmp_path, {}),
            ):
                pass
        holder.kill()
        holder.wait()
        with make(tmp_path, {}) as of:
            assert of.once("a", dict).keys() == {"seconds"}


def test_a_digest_differs_where_arrays_do():
    zeros = np.zeros((2, 3))
    digests = {
        folder.digest(*arrays)
        for arrays in (
            [zeros], [zeros.T], [zeros.astype("f4")], [zeros + 1], [zeros] * 2
        )
    }  # fmt: skip
    assert len(digests) == 5
    assert folder.digest(zeros.T) == folder.digest(np.zeros((3, 2)))


def test_values_that_are_not_finite_are_counted():
    assert folder.finite([1.0, 2.0], "draws").tolist() == [1.0, 2.0]
    with pytest.raises(FloatingPointError, match="2 of 3 .* its draws are not"):
        folder.finite([1.0, math.nan, math.inf], "draws")
