import json

import pytest

from tfp_refine.experiments import record


def test_results_hold_flags_versions_and_contents(tmp_path):
    folder = record.Folder(tmp_path / "new", {"seed": 1, "hidden": ["50"]}, {})
    folder.write_results(metrics={"vi": {"mll": -1.0}})
    results = json.loads((tmp_path / "new" / "results.json").read_text())
    assert results["flags"] == {"seed": 1, "hidden": ["50"]}
    assert results["metrics"]["vi"]["mll"] == -1.0
    assert results["versions"].keys() >= {"keras", "tensorflow", "python"}


def test_a_folder_with_damaged_flags_is_refused(tmp_path):
    record.Folder(tmp_path, {}, {"seed": 1})
    (tmp_path / "flags.json").write_text("{")
    with pytest.raises(ValueError, match=r"flags.json' is damaged"):
        record.Folder(tmp_path, {}, {"seed": 1})


def test_a_record_is_computed_once(tmp_path):
    folder = record.Folder(tmp_path, {}, {})
    calls = []

    def compute():
        calls.append(1)
        return {"a": 1}

    first = folder.once("split_0/vi", compute)
    again = record.Folder(tmp_path, {}, {}).once("split_0/vi", compute)
    assert len(calls) == 1
    assert first == again
    assert first["seconds"] >= 0


def test_a_record_that_was_cut_off_is_computed_again(tmp_path):
    folder = record.Folder(tmp_path, {}, {})
    (tmp_path / "a.json").write_text('{"a": 1')
    assert folder.once("a", lambda: {"a": 2})["a"] == 2


def test_folder_of_other_flags_is_refused(tmp_path):
    record.Folder(tmp_path, {}, {"seed": 1, "steps": 5})
    record.Folder(tmp_path, {}, {"seed": 1, "steps": 5})
    with pytest.raises(ValueError, match="--seed: 1 there, 2 now$"):
        record.Folder(tmp_path, {}, {"seed": 2, "steps": 5})


def test_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="--output_dir must be a folder"):
        record.Folder(tmp_path / "file" / "x", {}, {})


def test_flags_that_are_newer_than_a_folder_had_their_defaults(tmp_path):
    record.Folder(tmp_path, {}, {"steps": 3})
    newer = {"steps": 3, "flow_length": 2}
    record.Folder(tmp_path, {}, newer, defaults={"steps": 9, "flow_length": 2})
    with pytest.raises(ValueError, match="--flow_length: 1 there, 2 now"):
        record.Folder(tmp_path, {}, newer, defaults={"flow_length": 1})
    with pytest.raises(ValueError, match="--steps: 3 there, 4 now"):
        record.Folder(tmp_path, {}, {"steps": 4}, defaults={"steps": 4})
