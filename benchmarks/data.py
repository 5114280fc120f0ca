"""Memory that training data take, and the speed of saved arrays.

Memory: the rise of a process above its size before the inputs were made
(200 MB of float32), as a multiple of their size, the caller's array included.
Of members: the rise in a refinement of 1.4 million weights, one member at a
time, in bytes for each weight and member.
Speed: 400 MB of arrays in the format of posteriors, in turn with `dd`, which
writes as many zeros to the same disk.

  python benchmarks/data.py [FOLDER]

With `streams` in place of the folder: peak memory and time of work on datasets
that are generated as they are read, and larger than the library holds; each in
a process of its own, beside one that does the same with a hundredth.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

import keras
import numpy as np
import tensorflow as tf
from _memory import peaks
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
    model = tfr.models.MLP((_FEATURES,), 3, hidden=(8,))
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


def _members():
    x, y = _inputs(1000)
    model = tfr.models.MLP(
        (_FEATURES,), 3, hidden=(1400,), num_train_examples=1000
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    print("peak memory of a refinement, bytes a weight and member")
    for count in (2, 10, 20):
        with memory.Peak() as peak:
            refined = tfr.refine(
                model, x, y, num_members=count, members_per_batch=1,
                variance_ratios=(0.5,), steps=2, num_eval_samples=1, verbose=0,
            )  # fmt: skip
        size = count * refined.loc[0].size
        if count > 2:  # the first one compiles
            bytes_each = peak.mebibytes * 2**20 / size
            print(f"  {count:3d} members{bytes_each:10.0f}")


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


def _dataset(num_examples, num_features):
    """Returns a dataset whose batches are made when they are read."""

    def batch(number):
        seed = tf.stack([number, 0])
        x = tf.random.stateless_normal([1000, num_features], seed)
        return x, tf.reduce_sum(x[:, :4], axis=1, keepdims=True)

    return tf.data.Dataset.range(num_examples // 1000).map(batch)


def _mlp(num_examples, num_features, hidden):
    model = tfr.models.MLP(
        (num_features,), 1, hidden=(hidden,), num_train_examples=num_examples
    )
    model.compile(loss=tfr.losses.GaussianNLL(1.0))
    return model


def _laplace(num_examples):
    model = tfr.models.to_deterministic(_mlp(num_examples, 32, 64))
    tfr.laplace.LastLayerLaplace(model, "regression").fit(
        _dataset(num_examples, 32), batch_size=4096, verbose=0
    )


def _summarize(num_examples):
    x = _dataset(num_examples, 32).map(lambda x, y: x)
    tfr.summarize(_mlp(num_examples, 32, 16), x, 10)


def _refine(num_examples):
    tfr.refine(
        _mlp(num_examples, 1000, 32), _dataset(num_examples, 1000),
        num_members=2, variance_ratios=(0.5,), steps=100, num_eval_samples=1,
        verbose=0,
    )  # fmt: skip


# Function, examples, and bytes of each.
_STREAMS = {
    "Laplace": (_laplace, 10**7, 132),
    "summarize": (_summarize, 10**7, 128),
    "refine": (_refine, 500000, 4004),
}


def run_stream(name, part):
    """Does some work with a dataset, in a process of its own."""
    function, num_examples, _ = _STREAMS[name]
    begin = time.perf_counter()
    function(round(num_examples * part))
    print(f"    {time.perf_counter() - begin:.0f} s", flush=True)


def _streams():
    print("peak memory of a process, MiB: with 1% of the data, and all")
    for name, (_, num_examples, size) in _STREAMS.items():
        print(f"  {name}, {num_examples * size / 1e9:.1f} GB", flush=True)
        print("   ", *(f"{peak:.0f}" for peak in peaks(
            run_stream, [(name, 0.01), (name, 1.0)]
        )))  # fmt: skip


def main():
    """Prints all tables but that of streams, or that one."""
    if sys.argv[1:] == ["streams"]:
        _streams()
        return
    _memory()
    _members()
    with tempfile.TemporaryDirectory(dir=(*sys.argv[1:], None)[0]) as folder:
        _speed(folder)


if __name__ == "__main__":
    main()
