"""Step time of the layers, beside those of Keras, TFP and keras-proba.

Trains a 784-400-400-10 perceptron (batch 128) and LeNet-5 (32x32x3, batch 256)
by `fit`, all on the same TensorFlow and in turn, and prints medians of ratios:

- to deterministic layers of Keras;
- to tfp.layers, under tf_keras;
- to keras-proba, if it is installed, without posteriors of the biases, which
  it has none of;
- with `tfr.optimizers.Adam` to with that of Keras;
- with `jit_compile=True` to without, also for deterministic layers.

TFP and keras-proba have no local reparameterization for convolutions.

  python benchmarks/layers.py --threads=1

With one thread, seconds are CPU seconds, which other programs disturb less.
"""

import argparse
import importlib.util
import time

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from _timing import in_turn

import tfp_refine as tfr

_N = 60000


def _mlp(framework, dense, conv):
    del conv  # there are none
    return [
        framework.layers.InputLayer((784,)),
        dense(400, activation="relu"),
        dense(400, activation="relu"),
        dense(10),
    ]


def _lenet5(framework, dense, conv):
    pool = framework.layers.MaxPooling2D
    return [
        framework.layers.InputLayer((32, 32, 3)),
        conv(6, 5, padding="same", activation="relu"),
        pool(2, padding="same"),
        conv(16, 5, padding="same", activation="relu"),
        pool(2, padding="same"),
        conv(120, 5, padding="same", activation="relu"),
        framework.layers.Flatten(),
        dense(84, activation="relu"),
        dense(10),
    ]


# Layers, batch size, input shape, steps of a measurement.
_NETWORKS = {
    "MLP": (_mlp, 128, (784,), 50),
    "LeNet-5": (_lenet5, 256, (32, 32, 3), 8),
}
_OURS = {
    "Reparameterization": (
        "DenseReparameterization",
        "Conv2DReparameterization",
    ),
    "LocalReparameterization": (
        "DenseLocalReparameterization",
        "Conv2DLocalReparameterization",
    ),
    "Flipout": ("DenseFlipout", "Conv2DFlipout"),
}
_TFP = {
    "Reparameterization": (
        "DenseReparameterization",
        "Convolution2DReparameterization",
    ),
    "LocalReparameterization": ("DenseLocalReparameterization", None),
    "Flipout": ("DenseFlipout", "Convolution2DFlipout"),
}
_PROBA = {**_OURS, "LocalReparameterization": _TFP["LocalReparameterization"]}


def _dataset(batch_size, shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch_size, *shape)).astype(np.float32)
    y = rng.integers(0, 10, size=batch_size)
    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensors((x, y)).repeat().with_options(options)


def _training(
    framework, network, dense, conv, jit_compile=False, optimizers=None
):
    """Returns a function that runs some training steps."""
    make, batch_size, shape, steps = _NETWORKS[network]
    model = framework.Sequential(make(framework, dense, conv))
    model.compile(
        optimizer=(optimizers or framework.optimizers).Adam(1e-3),
        loss=framework.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=jit_compile,
    )
    dataset = _dataset(batch_size, shape)
    return lambda: model.fit(
        dataset, steps_per_epoch=steps, verbose=0, shuffle=False
    )


def _bound(room, name, **arguments):
    """Returns a layer class with some arguments given."""
    layer = getattr(room, name)
    return lambda *a, **k: layer(*a, **k, **arguments)


def _tfp_arguments():
    def scaled_kl(q, p, _):
        return tfp.distributions.kl_divergence(q, p) / _N

    # TFP has a point estimate of the bias by default: give it a posterior.
    return {
        "kernel_divergence_fn": scaled_kl,
        "bias_divergence_fn": scaled_kl,
        "bias_posterior_fn": tfp.layers.default_mean_field_normal_fn(),
        "bias_prior_fn": tfp.layers.default_multivariate_normal_fn,
    }


def _functions(network):
    """Returns functions that train, by network and estimator."""
    plain = (keras, network, keras.layers.Dense, keras.layers.Conv2D)
    functions = {
        ("keras", None): _training(*plain),
        ("keras jit", None): _training(*plain, jit_compile=True),
    }

    def add(side, framework, room, names, how=None, **arguments):
        for estimator, (dense, conv) in names.items():
            if network == "LeNet-5" and conv is None:
                continue
            functions[side, estimator] = _training(
                framework,
                network,
                _bound(room, dense, **arguments),
                _bound(room, conv or dense, **arguments),
                **(how or {}),
            )

    ours = {"num_train_examples": _N}
    add("ours", keras, tfr.layers, _OURS, **ours)
    add("jit", keras, tfr.layers, _OURS, {"jit_compile": True}, **ours)
    adam = {"optimizers": tfr.optimizers}
    add("Adam", keras, tfr.layers, _OURS, adam, **ours)
    add("tfp", tf_keras, tfp.layers, _TFP, **_tfp_arguments())
    if importlib.util.find_spec("keras_proba"):
        import keras_proba.layers

        room = keras_proba.layers
        add("proba", keras, room, _PROBA, kl_weight=1.0 / _N)
        add("points", keras, tfr.layers, _PROBA, bias_posterior=None, **ours)
    return functions


# Ratios, by the heading: numerator and denominator.
_RATIOS = {
    "/ deterministic": ("ours", "keras"),
    "/ tfp.layers": ("ours", "tfp"),
    "/ keras-proba": ("points", "proba"),
    "tfr Adam": ("Adam", "ours"),
    "tfr Adam / tfp.layers": ("Adam", "tfp"),
    "jit_compile": ("jit", "ours"),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--networks", nargs="+", default=list(_NETWORKS), choices=_NETWORKS
    )
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    clock = time.process_time if options.threads == 1 else time.perf_counter
    for network in options.networks:
        steps = _NETWORKS[network][-1]
        times = in_turn(_functions(network), options.rounds, clock)
        base = np.median(times["keras", None]) / steps * 1e3
        jit = np.median(times["keras jit", None] / times["keras", None])
        print(
            f"{network}: deterministic {base:.2f} ms a step   "
            f"jit_compile {jit:.2f}"
        )
        for estimator in _OURS:
            milliseconds = np.median(times["ours", estimator]) / steps * 1e3
            cells = [f"{estimator:24s}{milliseconds:7.2f} ms"]
            for heading, (side, other) in _RATIOS.items():
                keys = (
                    (side, estimator),
                    (
                        other,
                        None if other == "keras" else estimator,
                    ),
                )
                if all(key in times for key in keys):
                    ratio = np.median(times[keys[0]] / times[keys[1]])
                    cells.append(f"{heading} {ratio:.2f}")
            print("   ".join(cells), flush=True)


if __name__ == "__main__":
    main()
