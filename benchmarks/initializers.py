"""Cost of I-BLM: beside an epoch, and against batch, width and image size.

Times of the initialization and of training steps, in turn in one process; an
epoch is that of 60000 examples. Then the regression of the units of one dense
layer against the rows of a mini-batch, against both rows and fan-in, and where
the rows are fewer than the inputs: linear, cubic, and linear. Last, the peak
memory of a convolution's initialization against the size of its images, in
processes of their own (Linux).

  python benchmarks/initializers.py
"""

import functools
import time

import _memory
import keras
import numpy as np
from _timing import side_by_side

import tfp_refine as tfr
from tfp_refine.datasets import batches
from tfp_refine.math import linear_regression

_N, _STEPS, _EPOCH = 4096, 10, 60000
_NETWORKS = {
    "MLP 784-100-100-100-100-100-10": ((784,), 64),
    "LeNet-5 20-50-500, 28x28x1": ((28, 28, 1), 128),
    "ResNet-20 hybrid, 32x32x3": ((32, 32, 3), 128),
}
_UNITS = 64


def _model(network):
    shape, _ = _NETWORKS[network]
    common = {"num_train_examples": _EPOCH, "seed": 0}
    if network.startswith("MLP"):
        model = tfr.models.MLP(shape, 10, hidden=(100,) * 5, **common)
    elif network.startswith("LeNet"):
        model = tfr.models.LeNet5(
            shape, 10, widths=(20, 50, 500), padding="valid", **common
        )
    else:
        model = tfr.models.ResNet20(shape, 10, **common)
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
        steps_per_execution=_STEPS,
    )
    return model


def _data(shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_N, *shape)).astype(np.float32)
    return x, rng.integers(0, 10, size=_N)


def _beside_an_epoch():
    for network, (shape, batch_size) in _NETWORKS.items():
        model, (x, y) = _model(network), _data(shape)
        seconds = side_by_side(
            {
                "I-BLM": functools.partial(
                    tfr.initializers.IBLM(seed=0, verbose=False), model, x, y
                ),
                "steps": functools.partial(
                    model.fit,
                    batches.training_batches(x, y, batch_size, seed=0),
                    steps_per_epoch=_STEPS,
                    verbose=0,
                    shuffle=False,
                ),
            },
            rounds=3,
        )
        epoch = seconds["steps"] / _STEPS * _EPOCH / batch_size
        print(
            f"{network:32s}{seconds['I-BLM']:8.1f} s, an epoch {epoch:8.1f} s"
            f"   ({seconds['I-BLM'] / epoch:.2f})"
        )


def _regression(rows, fan_in):
    """Returns a function that fits units, each to rows of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_UNITS, rows, fan_in)).astype(np.float32)
    y = rng.normal(size=(rows, _UNITS)).astype(np.float32)
    return lambda: linear_regression.fit(x, y, 0.1, 1.0)


def _growth(title, cases):
    print(title)
    seconds = side_by_side(
        {case: _regression(*case) for case in cases}, rounds=3
    )
    base = next(iter(seconds.values()))
    for (rows, fan_in), value in seconds.items():
        print(
            f"  {rows:6d} rows, fan-in {fan_in:6d}: {value * 1e3:8.0f} ms "
            f"({value / base:.1f})"
        )


def _initialize_convolution(size):
    """Initializes a 3x3 convolution of 64 channels, a fan-in of 576."""
    if size is None:
        return
    inputs = keras.Input((size, size, 64))
    x = tfr.layers.Conv2DFlipout(64, 3, padding="same")(inputs)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, tfr.layers.DenseFlipout(10)(x))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, size, size, 64)).astype(np.float32)
    y = np.arange(128) % 10
    begin = time.perf_counter()
    tfr.initializers.IBLM(seed=0, verbose=False)(model, x, y)
    print(
        f"  {size:4d} x {size}: inputs {x.nbytes / 2**20:6.0f} MiB, all patches"
        f" {9 * x.nbytes / 2**20:7.0f} MiB, {time.perf_counter() - begin:5.1f}"
        " s",
        flush=True,
    )


def main():
    _beside_an_epoch()
    _growth(
        f"{_UNITS} units, more rows than inputs:",
        [(1024, 256), (2048, 256), (4096, 256)],
    )
    _growth(
        "wider, with twice as many rows as inputs:",
        [(512, 256), (1024, 512), (2048, 1024)],
    )
    _growth("fewer rows than inputs:", [(128, 1024), (128, 2048), (128, 4096)])
    print("peak memory of a convolution:")
    sizes = [16, 32, 64]
    idle, *peaks = _memory.peaks(
        _initialize_convolution, [(None,), *((size,) for size in sizes)]
    )
    for size, peak in zip(sizes, peaks, strict=True):
        print(f"  {size:4d} x {size}: {peak - idle:6.0f} MiB")


if __name__ == "__main__":
    main()
