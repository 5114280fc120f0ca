"""Time and memory of IVON, beside Adam's.

Steps of `fit` of LeNet-5, of the wider one of Caffe (both batch 128, 28x28x1)
and of ResNet-20 (batch 128, 32x32x3) with Keras' Adam, ours and IVON, in turn:
their ratios are of one run. And the variables of each optimizer, in copies of
the weights.

  python benchmarks/ivon.py [--batch-size=128] [--cpu] [--network=LeNet-5]

`--cpu` counts the CPU seconds of all threads, where others use the machine.
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf
from _timing import in_turn

import tfp_refine as tfr

_OPTIMIZERS = {
    "Keras' Adam": lambda: keras.optimizers.Adam(1e-3),
    "our Adam": lambda: tfr.optimizers.Adam(1e-3),
    "IVON": lambda: tfr.optimizers.IVON(0.1, 50000),
}
_STEPS = {"LeNet-5": 50, "Caffe": 20, "ResNet-20": 3}


def _lenet5(*widths, padding):
    """Returns two convolutions of 5x5 and poolings, and dense layers."""
    first, second, *dense = widths
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(first, 5, padding=padding, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(second, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            *(keras.layers.Dense(units, activation="relu") for units in dense),
            keras.layers.Dense(10),
        ]
    )


def _resnet20():
    return tfr.models.ResNet20(
        (32, 32, 3), variational="none", batch_norm=True, l2=None
    )


# LeNet-5 as it was published, of 61,706 weights, and Caffe's, of 431,080.
_NETWORKS = {
    "LeNet-5": lambda: _lenet5(6, 16, 120, 84, padding="same"),
    "Caffe": lambda: _lenet5(20, 50, 500, padding="valid"),
    "ResNet-20": _resnet20,
}


def _training(model, optimizer, batch_size, steps):
    """Returns a function that runs some training steps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch_size, *model.input_shape[1:])).astype(np.float32)
    y = rng.integers(0, 10, size=batch_size)
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_tensors((x, y)).repeat()
    dataset = dataset.with_options(options)
    return lambda: model.fit(
        dataset, steps_per_epoch=steps, verbose=0, shuffle=False
    )


def _copies(model):
    """Returns the size of the optimizer's variables over the weights'."""

    def numbers(variables):
        return sum(int(np.prod(v.shape)) for v in variables)

    return numbers(model.optimizer.variables) / numbers(
        model.trainable_variables
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--network", choices=list(_NETWORKS))
    options = parser.parse_args()
    clock = time.process_time if options.cpu else time.perf_counter
    for name in [options.network] if options.network else _NETWORKS:
        models = {key: _NETWORKS[name]() for key in _OPTIMIZERS}
        steps = _STEPS[name]
        times = in_turn(
            {
                key: _training(models[key], make(), options.batch_size, steps)
                for key, make in _OPTIMIZERS.items()
            },
            clock=clock,
        )
        print(f"{name}, {models['IVON'].count_params():,} weights:")
        first = next(iter(times.values()))
        for key, seconds in times.items():
            print(
                f"  {key:12s} {np.median(seconds) / steps * 1e3:8.1f} ms a "
                f"step, {np.median(seconds / first):.2f} of Keras' Adam, "
                f"{_copies(models[key]):.2f} copies of the weights"
            )


if __name__ == "__main__":
    main()
