"""Experiments that are killed at random moments end with the same rows.

`TFP_REFINE_KILLS=20` kills each of them 20 times; 3 times by default.
"""

import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

pytestmark = pytest.mark.slow

_KILLS = int(os.environ.get("TFP_REFINE_KILLS", "3"))
_SMALL = ("--num_samples=10", "--num_members=2", "--num_eval_samples=2")
_FLAGS = {
    "uci": ("--seeds=2", "--train_steps=20000", "--refine_steps=400", *_SMALL),
    "image": (
        "--model=mlp", "--hidden=16", "--train_steps=4000",
        "--refine_steps=200", *_SMALL,
    ),
    "compare": (
        "--dataset=iris", "--seeds=1", "--train_steps=4000",
        "--systems=map,vi,deep_ensemble,swag,laplace,flows,nuts",
        "--nuts_samples=50", "--nuts_warmup=50", *_SMALL,
    ),
    "laplace": (
        "--model=mlp", "--train_steps=2000", "--nuts_samples=50",
        "--nuts_warmup=50", "--systems=map,laplace,flows,nuts",
        "--tasks=comparison,integration", *_SMALL,
    ),
    "initialization": (
        "--dataset=yacht", "--seeds=1", "--train_steps=2000",
        "--systems=lsuv,iblm", "--tasks=curves", *_SMALL,
    ),
    "uncertainty": (
        "--model=mlp", "--hidden=16", "--train_steps=1000",
        "--systems=map,ffg", "--cubic_steps=2000",
        "--tasks=unseen,attack,cubic", *_SMALL,
    ),
    "four_modes": ("--num_members=20", "--refine_steps=2000"),
}  # fmt: skip
# Metrics that a restart changes.
_OF_TIME = "seconds|memory"


def start(name, folder):
    return subprocess.Popen(
        [
            sys.executable, "-m", f"tfp_refine.experiments.{name}",
            *_FLAGS[name], f"--output_dir={folder}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def rows(folder):
    found = pd.read_csv(folder / "results.csv")
    return found[~found["metric"].str.contains(_OF_TIME)].reset_index(drop=True)


@pytest.mark.parametrize("name", _FLAGS)
def test_killed_experiments_end_with_the_same_rows(name, tmp_path):
    begin = time.monotonic()
    process = start(name, tmp_path / "whole")
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    duration = time.monotonic() - begin
    expected = rows(tmp_path / "whole")
    rng = random.Random(name)
    kills = attempts = 0
    ended = False
    # An attempt is one folder: killed until it gets to its end.
    while kills < _KILLS or not ended:
        folder = tmp_path / f"killed_{attempts}"
        process = start(name, folder)
        try:
            wait = rng.uniform(0.3, 0.9) * duration if kills < _KILLS else None
            _, errors = process.communicate(timeout=wait)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
            ended = False
            continue
        assert process.returncode == 0, errors
        pd.testing.assert_frame_equal(rows(folder), expected, check_exact=True)
        attempts += 1
        ended = True
