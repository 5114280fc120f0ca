"""Work that is killed, not even asked to stop, ends with the same posterior."""

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
if method == "refine":
    dense = tfr.layers.DenseReparameterization
model = keras.Sequential(
    [keras.Input((3,)), dense(8, activation="tanh"), dense(2)]
)
if method == "refine":
    tfr.layers.set_num_train_examples(model, 64)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss)
options = {"checkpoint_dir": folder, "seed": 1, "verbose": 0}
if method == "refine":
    made = tfr.refine(
        model, x, y, num_members=3, steps=3000, batch_size=16, **options
    )
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
METHODS = ("refine", "deep_ensemble", "swag", "cyclical_sghmc", "nuts")


def start(method, folder, result):
    return subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            _PROGRAM,
            method,
            folder,
            result,
        ],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_killed_method_continues_to_the_same_bits(method, tmp_path):
    folder = tmp_path / "checkpoint"
    whole, continued = tmp_path / "whole.npy", tmp_path / "continued.npy"
    process = start(method, "", str(whole))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors

    process = start(method, str(folder), str(continued))
    deadline = time.monotonic() + 300
    while not list(folder.glob("*.ckpt")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not continued.exists()

    process = start(method, str(folder), str(continued))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    np.testing.assert_array_equal(np.load(whole), np.load(continued))
