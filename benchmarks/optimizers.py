"""Time of our Adam, beside that of Keras.

The update alone, for the weights of a variational 784-400-400-10 perceptron
and of ResNet-20, with and without XLA; then steps of `fit` of that perceptron
(batch 128), deterministic and with each of our estimators.

  python benchmarks/optimizers.py
"""

import keras
import numpy as np
import tensorflow as tf
from _timing import side_by_side

import tfp_refine as tfr

_CLASSES = {"Keras": keras.optimizers.Adam, "ours": tfr.optimizers.Adam}
_LAYERS = {
    "deterministic": keras.layers.Dense,
    "Reparameterization": tfr.layers.DenseReparameterization,
    "LocalReparameterization": tfr.layers.DenseLocalReparameterization,
    "Flipout": tfr.layers.DenseFlipout,
}
_UPDATES = 100
_STEPS = 30


def _perceptron(layer):
    model = keras.Sequential(
        [
            keras.Input((784,)),
            layer(400, activation="relu"),
            layer(400, activation="relu"),
            layer(10),
        ]
    )
    if layer is not keras.layers.Dense:
        tfr.layers.set_num_train_examples(model, 60000)
    return model


def _updating(optimizer, variables, jit_compile):
    """Returns a function that makes some updates."""
    optimizer.build(variables)
    gradients = [tf.random.normal(v.shape) for v in variables]

    @tf.function(jit_compile=jit_compile)
    def update():
        optimizer.apply(gradients, variables)

    return lambda: [update() for _ in range(_UPDATES)]


def _training(optimizer, model):
    """Returns a function that runs some training steps."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 784)).astype(np.float32)
    y = rng.integers(0, 10, size=128)
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
        dataset, steps_per_epoch=_STEPS, verbose=0, shuffle=False
    )


def _report(name, functions, repetitions):
    """Prints the times of one row, by optimizer."""
    times = side_by_side(functions)
    cells = [
        f"{key} {time / repetitions * 1e3:6.2f}" for key, time in times.items()
    ]
    ratio = times["ours"] / times["Keras"]
    print("   ".join([f"{name:32s}", *cells, f"ours/Keras {ratio:.2f}"]))


def main():
    print("The update alone, ms:")
    for name, make in {
        "perceptron": lambda: _perceptron(_LAYERS["Flipout"]),
        "ResNet-20": lambda: tfr.models.ResNet20((32, 32, 3)),
    }.items():
        for jit_compile in (False, True):
            functions = {
                key: _updating(
                    adam(1e-3), make().trainable_variables, jit_compile
                )
                for key, adam in _CLASSES.items()
            }
            _report(f"{name}, {jit_compile=!s}", functions, _UPDATES)
    print("A training step of the perceptron, ms:")
    for name, layer in _LAYERS.items():
        functions = {
            key: _training(adam(1e-3), _perceptron(layer))
            for key, adam in _CLASSES.items()
        }
        _report(name, functions, _STEPS)


if __name__ == "__main__":
    main()
