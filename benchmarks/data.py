"""Memory that training data take, and the speed of saved arrays.

Memory: how far a process rises above what it had before the inputs were made
(200 MB of float32), as a multiple of their size, the caller's array included.
Speed: 400 MB of arrays in the format of posteriors, in turn with `dd`, which
writes as many zeros to the same disk.

  python benchmarks/data.py [FOLDER]
"""

import pathlib
import subprocess
import sys
import tempfile

import keras
import numpy as np
from _timing import in_turn

import tfp_refine as tfr
from tfp_refine.experiments.harness import memory
from tfp_refine.functional import files

_N, _FEATURES = 50000, 1000
_CASES = {
    "refine": lambda model, x, y: tfr.refine(
        model, x, y, num_members=2, variance_ratios=(0.5,), steps=2,
        num_eval_samples=1, verbose=0,
    ),
    "elbo": lambda model, x, y: tfr.elbo(model, x, y, num_samples=1),
    "deep_ensemble": lambda model, x, y: tfr.ensembles.deep_ensemble(
        tfr.models.to_deterministic(model), x, y, num_members=2, steps=2,
        loss=model.loss, verbose=0,
    ),
    "LastLayerLaplace": lambda model, x, y: tfr.laplace.LastLayerLaplace(
        tfr.models.to_deterministic(model), "classification"
    ).fit(x, y, verbose=0),
    "predict": lambda model, x, y: tfr.predict(model, x, 2),
}  # fmt: skip


def _inputs(num_examples):
    rng = np.random.default_rng(0)
    x = np.empty([num_examples, _FEATURES], np.float32)
    for row in range(0, num_examples, 1000):  # a part at a time
        x[row : row + 1000] = rng.standard_normal((1000, _FEATURES))
    return x, rng.integers(0, 3, num_examples)


def _memory():
    model = tfr.models.MLP((_FEATURES,), 3, hidden=(8,), num_train_examples=_N)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    print("peak memory, times the size of the inputs")
    for name, function in _CASES.items():
        function(model, *_inputs(2000))
        with memory.Peak() as peak:
            x, y = _inputs(_N)
            function(model, x, y)
        print(f"  {name:18s}{peak.mebibytes * 2**20 / x.nbytes:6.2f}")
        del x


def _speed(folder):
    rng = np.random.default_rng(0)
    arrays = {str(i): rng.random((10**7, 5), np.float32) for i in range(2)}
    megabytes = sum(value.nbytes for value in arrays.values()) / 1e6
    path, other = pathlib.Path(folder, "ours"), pathlib.Path(folder, "dd")
    copy = ["dd", "if=/dev/zero", f"of={other}", "bs=1M", "conv=fsync"]
    copy.append(f"count={megabytes * 1e6 / 2**20:.0f}")
    seconds = in_turn(
        {
            "write": lambda: files.write(path, "benchmark", {}, arrays),
            "read": lambda: files.read(path),
            "dd": lambda: subprocess.run(copy, check=True, capture_output=True),
        },
        rounds=5,
    )
    print("MB/s, median and range")
    for name, values in seconds.items():
        low, middle, high = np.quantile(megabytes / values, (0.0, 0.5, 1.0))
        print(f"  {name:6s}{middle:8.0f} ({low:.0f} to {high:.0f})")


def main():
    """Prints both tables."""
    _memory()
    with tempfile.TemporaryDirectory(dir=(*sys.argv[1:], None)[0]) as folder:
        _speed(folder)


if __name__ == "__main__":
    main()
