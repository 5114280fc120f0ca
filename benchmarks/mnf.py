"""Step time and memory of multiplicative normalizing flows.

Layers with flows beside those with local reparameterization, in an MLP
784-400-400-10 (batch 128) and in LeNet-5 (20-50-500, 28x28x1, batch 100). Times
are measured in turn in one process; memory is the peak of a process of its own,
above that of a process that only imports TensorFlow (Linux).

  python benchmarks/mnf.py
"""

import functools

import _memory
import keras
import numpy as np
from _timing import side_by_side

import tfp_refine as tfr
from tfp_refine.datasets import batches

_N, _STEPS = 1024, 20
_LOCAL = {
    "layer": tfr.layers.DenseLocalReparameterization,
    "conv": tfr.layers.Conv2DLocalReparameterization,
}
_MNF = {"layer": tfr.layers.DenseMNF, "conv": tfr.layers.Conv2DMNF}
_LAYERS = {"local reparameterization": _LOCAL, "MNF": _MNF}
_NETWORKS = {"MLP": ((784,), 128), "LeNet-5": ((28, 28, 1), 100)}


def _model(network, layers):
    shape, _ = _NETWORKS[network]
    common = {"num_train_examples": _N, "seed": 0}
    if network == "MLP":
        model = tfr.models.MLP(
            shape, 10, hidden=(400, 400), layer=layers["layer"], **common
        )
    else:
        model = tfr.models.LeNet5(
            shape,
            10,
            widths=(20, 50, 500),
            padding="valid",
            conv_layer=layers["conv"],
            dense_layer=layers["layer"],
            **common,
        )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
        steps_per_execution=_STEPS,
    )
    return model


def _training(network, layers):
    """Returns a function that runs some steps, and the model."""
    shape, batch_size = _NETWORKS[network]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_N, *shape)).astype(np.float32)
    y = rng.integers(0, 10, size=_N)
    model = _model(network, layers)
    return functools.partial(
        model.fit,
        batches.training_batches(x, y, batch_size, seed=0),
        steps_per_epoch=_STEPS,
        verbose=0,
        shuffle=False,
    ), model


def _train(network, name):
    """Trains, unless there is no network."""
    if network is not None:
        training, _ = _training(network, _LAYERS[name])
        training()


def main():
    for network, (_, batch_size) in _NETWORKS.items():
        made = {name: _training(network, c) for name, c in _LAYERS.items()}
        seconds = side_by_side({name: run for name, (run, _) in made.items()})
        cases = [(None, None), *((network, name) for name in _LAYERS)]
        idle, *peaks = _memory.peaks(_train, cases)
        print(f"{network}, batch {batch_size}")
        base = None
        for (name, (_, model)), peak in zip(made.items(), peaks, strict=True):
            row = (
                seconds[name] / _STEPS * 1e3,
                peak - idle,
                model.count_params() / 1e6,
            )
            base = base or row
            print(
                f"{name:26s}{row[0]:8.2f} ms a step ({row[0] / base[0]:.2f})"
                f"{row[1]:8.0f} MiB ({row[1] / base[1]:.2f})"
                f"{row[2]:8.2f} million weights ({row[2] / base[2]:.2f})"
            )


if __name__ == "__main__":
    main()
