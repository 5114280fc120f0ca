"""Experiments that are killed at random moments end with the same rows.

`TFP_REFINE_KILLS=20` kills each of them 20 times; 3 times by default.
"""

import contextlib
import math
import multiprocessing
import os
import pathlib
import random
import runpy
import sys

import pandas as pd
import pytest

pytestmark = pytest.mark.slow

_KILLS = int(os.environ.get("TFP_REFINE_KILLS", "3"))
_SMALL = ("--num_samples=10", "--num_members=2", "--num_eval_samples=2")
_FLAGS = {
    "uci": ("--seeds=1", "--train_steps=500", "--refine_steps=50", *_SMALL),
    "image": (
        "--model=mlp", "--hidden=16", "--train_steps=500", "--refine_steps=50",
        *_SMALL,
    ),
    "compare": (
        "--dataset=iris", "--seeds=1", "--train_steps=500",
        "--systems=map,vi,deep_ensemble,swag,laplace,flows,nuts",
        "--flow_epochs=5", "--nuts_samples=20", "--nuts_warmup=20", *_SMALL,
    ),
    "laplace": (
        "--model=mlp", "--hidden=8", "--train_steps=200", "--flow_epochs=1",
        "--nuts_samples=4", "--nuts_warmup=4",
        "--systems=map,laplace,flows,nuts", "--tasks=comparison,integration",
        *_SMALL,
    ),
    "initialization": (
        "--dataset=yacht", "--seeds=1", "--hidden=20", "--train_steps=300",
        "--systems=lsuv,iblm", "--tasks=curves", *_SMALL,
    ),
    "uncertainty": (
        "--model=mlp", "--hidden=16", "--train_steps=200",
        "--systems=map,ffg", "--cubic_steps=200",
        "--tasks=unseen,attack,cubic", *_SMALL,
    ),
    "four_modes": ("--num_members=20", "--refine_steps=500"),
}  # fmt: skip
# Metrics that a restart changes.
_OF_TIME = "seconds|memory"


@pytest.fixture(scope="module")
def start():
    """Starts experiments as `python -m` does, in forks of one server.

    It has imported TensorFlow, so that kills fall into work, not into imports.
    """
    server = multiprocessing.get_context("forkserver")
    names = ("report_figures", "standard", "tasks")
    server.set_forkserver_preload(
        [f"tfp_refine.experiments.{name}" for name in names]
    )

    def start_one(name, folder):
        module = f"tfp_refine.experiments.{name}"
        argv = [module, *_FLAGS[name], f"--output_dir={folder}"]
        process = server.Process(
            target=runpy.run_module, args=(module, None, "__main__")
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", argv)  # which the process takes
            process.start()
        return process

    return start_one


def follow(process, limit=math.inf):
    """Waits for the end, or a limit of CPU seconds; returns these seconds."""
    seconds = 0.0
    while process.is_alive() and seconds < limit:
        with contextlib.suppress(OSError, IndexError):  # it has ended
            stat = pathlib.Path(f"/proc/{process.pid}/stat").read_text()
            user, system = stat.rpartition(")")[2].split()[11:13]
            seconds = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        process.join(0.02)
    return seconds


def rows(folder):
    found = pd.read_csv(folder / "results.csv")
    return found[~found["metric"].str.contains(_OF_TIME)].reset_index(drop=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("name", _FLAGS)
def test_killed_experiments_end_with_the_same_rows(name, start, tmp_path):
    process = start(name, tmp_path / "whole")
    duration = follow(process)
    assert process.exitcode == 0
    expected = rows(tmp_path / "whole")
    rng = random.Random(name)
    kills = attempts = 0
    ended = False
    # An attempt is one folder: killed until it gets to its end.
    while kills < _KILLS or not ended:
        folder = tmp_path / f"killed_{attempts}"
        process = start(name, folder)
        share = rng.uniform(0.0, 0.6) if kills < _KILLS else math.inf
        follow(process, share * duration)
        ended = not process.is_alive()
        if ended:
            assert process.exitcode == 0
            pd.testing.assert_frame_equal(
                rows(folder), expected, check_exact=True
            )
            attempts += 1
        else:
            process.kill()
            process.join()
            kills += 1
