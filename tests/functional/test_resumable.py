import numpy as np
import pytest

from tfp_refine.functional import resumable

_ARRAYS = {"a": np.arange(3), "b": np.array([[True]])}


def test_arrays_come_back(tmp_path):
    def checkpoint():
        return resumable.Checkpoint(
            tmp_path / "x", "refinement", {"seed": 1, "members": (0, 1)}
        )

    assert checkpoint().load() is None
    checkpoint().save(_ARRAYS)
    loaded = checkpoint().load()
    assert loaded.keys() == _ARRAYS.keys()
    for name, value in _ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], value)


def test_works_of_several_names_share_a_folder(tmp_path):
    for name in ("refinement", "deep_ensemble"):
        checkpoint = resumable.Checkpoint(tmp_path, name, {"name": name})
        checkpoint.save({"a": np.array(name)})
    for name in ("refinement", "deep_ensemble"):
        checkpoint = resumable.Checkpoint(tmp_path, name, {"name": name})
        assert checkpoint.load()["a"] == name


def test_a_folder_in_use_by_another_process_is_refused(tmp_path):
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / ".refinement.lock").open("w") as file:
        print(12345, file=file, flush=True)
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="pid 12345.*`checkpoint_dir`"):
            resumable.Checkpoint(tmp_path, "refinement", {})
        resumable.Checkpoint(tmp_path, "deep_ensemble", {}).save(_ARRAYS)
    resumable.Checkpoint(tmp_path, "refinement", {}).save(_ARRAYS)


def test_a_damaged_file_is_named(tmp_path):
    checkpoint = resumable.Checkpoint(tmp_path, "refinement", {})
    checkpoint.save(_ARRAYS)
    (file,) = tmp_path.glob("*.ckpt")
    file.write_bytes(file.read_bytes()[:100])
    message = f"'{file}' cannot be read.* Remove it to start anew"
    with pytest.raises(ValueError, match=message):
        checkpoint.load()


def test_a_checkpoint_of_other_work_is_refused_with_all_differences(tmp_path):
    depends_on = {"seed": 1, "steps": 5, "loss": "mse"}
    resumable.Checkpoint(tmp_path, "deep_ensemble", depends_on).save(_ARRAYS)
    other = resumable.Checkpoint(
        tmp_path, "deep_ensemble", {**depends_on, "seed": 2, "steps": 6}
    )
    with pytest.raises(ValueError, match="a different deep ensemble") as error:
        other.load()
    assert "seed: 1 there, 2 now; steps: 5 there, 6 now" in str(error.value)
    assert "loss" not in str(error.value)


@pytest.mark.parametrize(
    ("saved", "now", "difference"),
    [
        (
            {"seed": 1, "decay": "a"},
            {"seed": 1},
            "'a' there, nothing now",
        ),
        ({"seed": 1}, {"seed": 1, "decay": None}, "nothing there, None now"),
    ],
)
def test_a_setting_of_one_side_alone_is_a_difference(
    tmp_path, saved, now, difference
):
    resumable.Checkpoint(tmp_path, "work", saved).save(_ARRAYS)
    with pytest.raises(ValueError, match=f"differ in decay: {difference}"):
        resumable.Checkpoint(tmp_path, "work", now).load()


def _opened(directory, arrays, **settings):
    return resumable.open_checkpoint(directory, "work", settings, arrays)


def test_without_a_folder_there_is_no_checkpoint():
    assert _opened(None, {}) is None


@pytest.mark.parametrize(
    ("x", "settings"),
    [
        ([np.ones(3), {"b": np.zeros(3)}], {}),
        ([np.ones(3), {"b": np.ones(2)}], {}),
        ([np.ones(3), {"b": np.ones(3, np.float32)}], {}),
        ([np.ones(3), {"b": np.ones(3)}], {"seed": 2}),
    ],
)
def test_work_on_other_arrays_is_other_work(tmp_path, x, settings):
    arrays = {"x": [np.ones(3), {"b": np.ones(3)}]}
    _opened(tmp_path, arrays, seed=1).save(_ARRAYS)
    assert _opened(tmp_path, arrays, seed=1).load() is not None
    with pytest.raises(ValueError, match="They differ in (x|seed): "):
        _opened(tmp_path, {"x": x}, **{"seed": 1, **settings}).load()


def test_rounded_numbers_forgive_the_last_digits():
    exact = np.array([1.0, 2e-9])
    assert resumable.rounded(exact) == resumable.rounded(exact * (1 + 1e-6))
    assert resumable.rounded(exact) != resumable.rounded(exact * 1.01)
    assert len(resumable.rounded(np.array(3.0))) == 1


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="`checkpoint_dir` must be a folder"):
        resumable.check_folder(tmp_path / "file" / "below")
    assert resumable.check_folder(str(tmp_path / "new" / "one")).is_dir()


def test_a_checkpoint_needs_a_seed():
    with pytest.raises(ValueError, match="`checkpoint_dir` needs a `seed`"):
        resumable.check_seed(None, "folder")
    assert resumable.check_seed(3, "folder") == 3
    assert isinstance(resumable.check_seed(None, None), int)
    with pytest.raises(ValueError, match="must not be negative"):
        resumable.check_seed(-1, None)
