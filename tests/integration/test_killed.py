"""Work that is stopped in any way continues to the same posterior.

`TFP_REFINE_KILLS=20` stops each method 20 times; once by default.
"""

import functools
import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

_PROGRAM = """
import pathlib, sys
import keras
import numpy as np
import tfp_refine as tfr
from tfp_refine.refinement import loop

method, folder, result = sys.argv[1:]
folder = folder or None
loop.Loop.save_every = loop.Loop.save_ratio = 0.0
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 3)).astype("float32")
y = (x[:, 0] + 0.3 * rng.normal(size=64) > 0.0).astype("int32")
keras.utils.set_random_seed(1)
dense = keras.layers.Dense
if method in ("refine", "callback"):
    dense = tfr.layers.DenseReparameterization
model = keras.Sequential(
    [keras.Input((3,)), dense(8, activation="tanh"), dense(2)]
)
if method in ("refine", "callback"):
    tfr.layers.set_num_train_examples(model, 64)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss)
options = {"checkpoint_dir": folder, "seed": 1, "verbose": 0}
if method == "refine":
    made = tfr.refine(
        model, x, y, num_members=3, steps=3000, batch_size=16, **options
    )
elif method == "callback":
    callback = tfr.RefinementCallback(
        x, y, num_members=3, steps=3000, batch_size=16, **options
    )
    model.fit(x, y, epochs=20, verbose=0, callbacks=[callback])
    made = callback.ensemble
elif method == "laplace_refine":
    saved = pathlib.Path(folder or ".") / "laplace.posterior"
    if folder and saved.exists():
        laplace = tfr.load_posterior(saved)
    else:
        laplace = tfr.laplace.LastLayerLaplace(model, "classification")
        laplace.fit(x, y, verbose=0)
        if folder:
            saved.parent.mkdir(exist_ok=True)
            laplace.save(saved)
    made = laplace.refine(x, y, epochs=300, seed=1, verbose=0)
elif method == "deep_ensemble":
    made = tfr.ensembles.deep_ensemble(
        model, x, y, num_members=3, steps=20000, batch_size=16, **options
    )
elif method == "swag":
    made = tfr.ensembles.swag(
        model, x, y, num_snapshots=10, steps_per_snapshot=4000, rank=5,
        batch_size=16, **options
    )
elif method == "cyclical_sghmc":
    made = tfr.sampling.cyclical_sghmc(
        model, x, y, num_cycles=2, samples_per_cycle=3, steps_per_cycle=20000,
        steps_per_sample=2000, batch_size=16, **options
    )
elif method == "nuts":
    laplace = tfr.laplace.LastLayerLaplace(model, "classification")
    laplace.fit(x, y, verbose=0)
    made = tfr.sampling.nuts_last_layer(
        laplace, num_chains=2, num_warmup=500, num_samples=500,
        jit_compile=False, **options
    )
np.save(result, made.predict(x, 20, seed=1))
"""
METHODS = (
    "refine",
    "callback",
    "deep_ensemble",
    "swag",
    "cyclical_sghmc",
    "nuts",
    "laplace_refine",
)
RESUMABLE = METHODS[:-1]

_KILLS = int(os.environ.get("TFP_REFINE_KILLS", "1"))


def start(method, folder, result, before=None, first=""):
    """Starts the program, after `first` and, in its process, `before`."""
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            first + _PROGRAM,
            method,
            folder,
            result,
        ],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
    )


def run(method, folder, result):
    process = start(method, str(folder), str(result))
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return np.load(result)


def wait_for(process, folder, pattern):
    deadline = time.monotonic() + 600
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Returns what a method makes without an interruption."""

    @functools.cache
    def result(method):
        return run(method, "", tmp_path_factory.mktemp(method) / "whole.npy")

    return result


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_killed_method_continues_to_the_same_bits(
    method, whole, tmp_path, attacks
):
    rng = random.Random(method)
    kills = attempt = 0
    # An attempt is one folder: stopped until it gets to its end.
    while kills < _KILLS:
        folder, attempt = tmp_path / f"folder_{attempt}", attempt + 1
        result, sent = folder.with_suffix(".npy"), []
        while not result.exists():
            process = start(method, str(folder), str(result))
            stopped = kills < _KILLS
            if stopped:
                wait_for(process, folder, "[!.]*")
                time.sleep(rng.expovariate(2.0) if kills else 0.0)
                sent.append(
                    rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
                    if kills
                    else signal.SIGKILL
                )
                process.send_signal(sent[-1])
                attacks.tried(sent[-1].name, method)
                kills += 1
            _, errors = process.communicate(timeout=600)
            assert stopped or process.returncode == 0, errors
        np.testing.assert_array_equal(whole(method), np.load(result))
        assert not list(folder.glob(".*.tmp"))
        for one in sent:
            attacks.survived(one.name, method)


@pytest.mark.slow
def test_a_second_process_on_the_folder_is_refused(whole, tmp_path):
    folder, result = tmp_path / "folder", tmp_path / "result.npy"
    first = start("refine", str(folder), str(result))
    wait_for(first, folder, ".*.lock")
    first.send_signal(signal.SIGSTOP)
    second = start("refine", str(folder), str(result))
    _, errors = second.communicate(timeout=600)
    first.send_signal(signal.SIGCONT)
    assert f"in use by another process, pid {first.pid}" in errors
    _, errors = first.communicate(timeout=600)
    assert first.returncode == 0, errors
    np.testing.assert_array_equal(whole("refine"), np.load(result))


def _small_disk():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.slow
@pytest.mark.parametrize("method", RESUMABLE)
def test_a_full_disk_is_named_and_work_continues(method, whole, tmp_path):
    folder, result = tmp_path / "folder", tmp_path / "result.npy"
    process = start(method, str(folder), str(result), _small_disk)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert f"Cannot write '{folder}" in errors
    assert [path.suffix for path in folder.iterdir()] == [".lock"]
    np.testing.assert_array_equal(whole(method), run(method, folder, result))


_SLOW_DISK = """
import os, time
fsync = os.fsync
os.fsync = lambda file: (time.sleep(0.5), fsync(file))
"""
_JUMPING_CLOCK = """
import itertools, time
hours = itertools.cycle([0, -1e6, 1e6, 3600, -3600])
now = time.time
time.time = lambda: now() + next(hours)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", RESUMABLE)
@pytest.mark.parametrize(
    "before", [_SLOW_DISK, _JUMPING_CLOCK], ids=["slow_disk", "jumping_clock"]
)
def test_slow_disks_and_clocks_that_jump_change_nothing(
    before, method, whole, tmp_path
):
    result = tmp_path / "result.npy"
    process = start(method, str(tmp_path / "folder"), str(result), first=before)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    np.testing.assert_array_equal(whole(method), np.load(result))


_READ_ONLY_DISK = """
import errno, os, pathlib, tempfile

def refuse(*arguments, **options):
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))

tempfile.TemporaryFile = refuse
_open = pathlib.Path.open
pathlib.Path.open = lambda path, mode="r", *arguments: (
    refuse() if "x" in mode or "w" in mode else _open(path, mode, *arguments)
)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", RESUMABLE)
def test_a_read_only_disk_is_named(method, tmp_path):
    folder = tmp_path / "folder"
    result = str(tmp_path / "result.npy")
    process = start(method, str(folder), result, first=_READ_ONLY_DISK)
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "ValueError: `checkpoint_dir` must be a folder" in errors
    assert f"{folder}" in errors
    assert "Read-only file system" in errors
