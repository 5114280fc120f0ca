"""One call of `keras.utils.set_random_seed` makes a script reproducible."""

import concurrent.futures
import json
import pathlib
import subprocess
import sys

import pytest

from tests.support import seeded_script

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]
# Draw nothing, or have members that are fixed.
FIXED = {
    *(
        f"initialize {n}"
        for n in ("Heuristic", "Uninformative", "XavierNormal")
    ),
    *(
        f"{method} {name}"
        for method in ("predict", "predict_proba", "sample", "summarize")
        for name in ("deep_ensemble", "temperature")
    ),
}


def run(seed):
    """Runs the script in a process of its own."""
    done = subprocess.run(
        [sys.executable, seeded_script.__file__, str(seed)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=seeded_script.environment(ROOT),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs():
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [*pool.map(run, (1, 1))]


def test_a_script_gives_the_same_bits_in_each_process(runs):
    first, again = runs
    assert {n: v for n, v in first.items() if again[n] != v} == {}
    assert len(first) > 60


def test_two_calls_in_one_script_differ(runs):
    same = {name for name, (one, two) in runs[0].items() if one == two}
    assert same == FIXED
