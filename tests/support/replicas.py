"""Runs layers on two replicas and prints JSON; a process of its own.

Run as a script: TensorFlow splits the CPU only before it is first used.
"""

import json
import os
import sys

import keras
import numpy as np
import tensorflow as tf

import tfp_refine as tfr

NUM_EXAMPLES = 8


def cases():
    """Returns functions that make layers, by name, and their inputs."""
    rng = np.random.default_rng(0)
    table = rng.normal(size=(NUM_EXAMPLES, 3)).astype(np.float32)
    images = rng.normal(size=(NUM_EXAMPLES, 4, 4, 2)).astype(np.float32)
    words = rng.integers(0, 5, size=(NUM_EXAMPLES, 6))
    series = rng.normal(size=(NUM_EXAMPLES, 4, 2)).astype(np.float32)
    options = {"num_train_examples": NUM_EXAMPLES, "seed": 1}
    layers = tfr.layers
    return {
        "reparameterization": (
            lambda: layers.DenseReparameterization(2, **options),
            table,
        ),
        "local": (
            lambda: layers.DenseLocalReparameterization(2, **options),
            table,
        ),
        "flipout": (lambda: layers.DenseFlipout(2, **options), table),
        "convolution": (lambda: layers.Conv2DFlipout(2, 3, **options), images),
        "mnf": (lambda: layers.DenseMNF(2, **options), table),
        "embedding": (
            lambda: layers.EmbeddingReparameterization(5, 2, **options),
            words,
        ),
        "gru": (lambda: layers.GRUReparameterization(2, **options), series),
        "dropout": (lambda: layers.MCDropout(0.5, seed=1), table),
        "concrete": (
            lambda: layers.ConcreteDropout(
                keras.layers.Dense(2), initial_rate=0.5, **options
            ),
            table,
        ),
        "keras": (lambda: KerasNoise(seed=1), table),
    }


class KerasNoise(keras.layers.Layer):
    """Draws as layers of Keras do: the control."""

    def __init__(self, seed):
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, inputs):
        noise = keras.random.normal(inputs.shape, seed=self.seed_generator)
        return inputs + noise


def draws(strategy, make, inputs):
    """Calls a layer twice on each replica, all on the same inputs."""
    with strategy.scope():
        layer = make()
        layer.build(inputs.shape)

    @tf.function
    def call():
        return strategy.run(layer, args=(tf.constant(inputs),))

    return [
        [np.array(v).tolist() for v in strategy.experimental_local_results(y)]
        for y in (call(), call())
    ]


def training(strategy, sample, optimizer=keras.optimizers.SGD):
    """Trains a model for three steps, and tells its result."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype(np.float32)
    y = rng.normal(size=(NUM_EXAMPLES, 1)).astype(np.float32)
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [
                keras.Input((3,)),
                tfr.layers.DenseFlipout(4, "tanh", sample=sample, seed=1),
                tfr.layers.DenseLocalReparameterization(
                    1, sample=sample, seed=2
                ),
            ]
        )
        tfr.layers.set_num_train_examples(model, NUM_EXAMPLES)
        model.compile(optimizer(0.1), tfr.losses.GaussianNLL(scale=1.0))
    fit = model.fit(
        x, y, batch_size=NUM_EXAMPLES, epochs=3, shuffle=False, verbose=0
    )
    found = {
        "loss": fit.history["loss"],
        "weights": [w.tolist() for w in model.get_weights()],
        "evaluated": model.evaluate(x, y, verbose=0),
    }
    if sample:
        options = {"num_members": 2, "steps": 5, "seed": 1, "verbose": 0}
        ensemble = tfr.refine(model, x, y, **options)
        found["refined"] = ensemble.predict(x, num_samples=2, seed=1).tolist()
    return found


def ivon_step(strategy):
    """Takes a step of IVON, of a linear regression without a bias.

    Tells the weights and scales before and after, and the replicas' draws.
    """
    rng = np.random.default_rng(1)
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype(np.float32)
    y = rng.normal(size=(NUM_EXAMPLES, 1)).astype(np.float32)
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential(
            [keras.Input((3,)), keras.layers.Dense(1, use_bias=False)]
        )
        optimizer = tfr.optimizers.IVON(0.1, NUM_EXAMPLES, beta_2=0.9, seed=1)
        model.compile(optimizer, tfr.losses.GaussianNLL(scale=1.0))
        optimizer.build(model.trainable_variables)
    (kernel,) = model.trainable_variables
    draws = strategy.run(optimizer.draw, args=(kernel,))
    found = {
        "x": x.tolist(),
        "y": y.tolist(),
        "draws": [
            np.array(v).tolist()
            for v in strategy.experimental_local_results(draws)
        ],
        "before": kernel.numpy().tolist(),
    }
    model.fit(x, y, NUM_EXAMPLES, verbose=0, shuffle=False)
    return found | {
        "after": [
            np.array(v).tolist()
            for v in strategy.experimental_local_results(kernel.value)
        ],
        "scales": optimizer.scale_of(kernel).tolist(),
    }


def facts(num_replicas):
    """Returns all that is told of one number of replicas."""
    strategy = tf.distribute.MirroredStrategy(
        [f"/cpu:{i}" for i in range(num_replicas)]
    )
    return {
        "draws": {
            name: draws(strategy, make, inputs)
            for name, (make, inputs) in cases().items()
        },
        "means": training(strategy, sample=False),
        "sampled": training(strategy, sample=True),
        "adam": {
            "keras": training(strategy, False, keras.optimizers.Adam),
            "ours": training(strategy, False, tfr.optimizers.Adam),
        },
        "ivon": ivon_step(strategy),
    }


def environment(root):
    """Returns the environment that this script is to run in."""
    return os.environ | {"PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}


def main():
    """Prints the facts of one replica and of two."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    found = {str(n): facts(n) for n in (1, 2)} | {"repeated": facts(2)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
