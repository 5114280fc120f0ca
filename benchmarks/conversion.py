"""Seconds to convert a network, and to its first training step.

Builds `keras.applications.MobileNetV3Small` and `EfficientNetB0` (random
weights, nothing is downloaded) and the tiny Vision Transformer of
`tfp_refine.models`, converts them by `to_bayesian`, and takes steps of `fit`
(batch 2) with each, the deterministic one first. A first step includes the
tracing and TensorFlow's optimization of the graph; later ones do not. Each
network has a process of its own.

  python benchmarks/conversion.py

Seconds are CPU seconds of all threads, which other programs disturb less.
"""

import argparse
import time

import _memory
import keras
import numpy as np
import tensorflow as tf

import tfp_refine as tfr

_BATCH, _CLASSES = 2, 10


def _mobile_net(size):
    return keras.applications.MobileNetV3Small(
        (size, size, 3), weights=None, classes=_CLASSES
    )


def _efficient_net(size):
    return keras.applications.EfficientNetB0(
        input_shape=(size, size, 3), weights=None, classes=_CLASSES
    )


def _vision_transformer(size):
    del size  # a model for small images
    return tfr.models.VisionTransformer(
        (32, 32, 3), _CLASSES, variational="none"
    )


_NETWORKS = {
    "MobileNetV3Small": _mobile_net,
    "EfficientNetB0": _efficient_net,
    "VisionTransformer": _vision_transformer,
}


def _seconds(function):
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def _steps(model, steps):
    """Returns the seconds of one step, of three, and the mean of some more."""
    x = np.zeros((_BATCH, *model.input_shape[1:]), np.float32)
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(),
        jit_compile=False,
    )
    data = tf.data.Dataset.from_tensors((x, np.arange(_BATCH))).repeat()
    options = tf.data.Options()
    options.autotune.enabled = False
    data = data.with_options(options)

    def fit(count):
        return _seconds(
            lambda: model.fit(
                data, steps_per_epoch=count, verbose=0, shuffle=False
            )
        )[0]

    first = fit(1)
    return first, first + fit(2), fit(steps) / steps


def _run(name, flags):
    """Returns the printed row of a network."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    # Work that TensorFlow does once in a process.
    _steps(keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)]), 1)
    built, model = _seconds(lambda: _NETWORKS[name](flags.size))
    first, three, later = _steps(model, flags.steps)
    converted, bayesian = _seconds(
        lambda: tfr.models.to_bayesian(
            model, num_train_examples=1000, estimator=flags.estimator
        )
    )
    random = _steps(bayesian, flags.steps)
    pairs = zip((first, three, later), random, strict=True)
    cells = [built, converted, *(cell for pair in pairs for cell in pair)]
    ratio = (converted + random[0]) / (built + first)
    return " ".join(f"{cell:10.2f}" for cell in [*cells, ratio])


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--networks", nargs="+", choices=_NETWORKS, default=[*_NETWORKS]
    )
    parser.add_argument("--estimator", default="flipout")
    parser.add_argument("--size", type=int, default=64, help="of images")
    parser.add_argument("--steps", type=int, default=5)
    flags = parser.parse_args()
    heads = ["build", "convert"]
    for head in ("1st step", "3 steps", "a step"):
        heads += [head, "converted"]
    print(" " * 18, *(f"{head:>10s}" for head in [*heads, "ratio"]))
    for name in flags.networks:
        (text,) = _memory.results(_run, [(name, flags)])
        print(f"{name:18s}", text, flush=True)


if __name__ == "__main__":
    main()
