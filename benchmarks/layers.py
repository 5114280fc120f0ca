"""Step time of the layers, beside Keras' own and beside tfp.layers.

Trains a 784-400-400-10 perceptron (batch 128) and LeNet-5 (32x32x3, batch 256)
by `fit`: with each of our estimators and with deterministic layers under Keras
3, with TensorFlow Probability's layers and deterministic ones under tf_keras,
all on the same TensorFlow and in turn. TFP has no local reparameterization for
convolutions.

  python benchmarks/layers.py
"""

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from _timing import side_by_side

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


def _dataset(batch_size, shape):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch_size, *shape)).astype(np.float32)
    y = rng.integers(0, 10, size=batch_size)
    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensors((x, y)).repeat().with_options(options)


def _training(framework, network, dense, conv):
    """Returns a function that runs some training steps."""
    make, batch_size, shape, steps = _NETWORKS[network]
    model = framework.Sequential(make(framework, dense, conv))
    model.compile(
        optimizer=framework.optimizers.Adam(1e-3),
        loss=framework.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
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


def _measure(network):
    functions = {
        ("ours", "deterministic"): _training(
            keras, network, keras.layers.Dense, keras.layers.Conv2D
        ),
        ("tfp", "deterministic"): _training(
            tf_keras, network, tf_keras.layers.Dense, tf_keras.layers.Conv2D
        ),
    }
    for estimator, (dense, conv) in _OURS.items():
        functions["ours", estimator] = _training(
            keras,
            network,
            _bound(tfr.layers, dense, num_train_examples=_N),
            _bound(tfr.layers, conv, num_train_examples=_N),
        )
    for estimator, (dense, conv) in _TFP.items():
        if network == "LeNet-5" and conv is None:
            continue
        functions["tfp", estimator] = _training(
            tf_keras,
            network,
            _bound(tfp.layers, dense, **_tfp_arguments()),
            _bound(tfp.layers, conv or dense, **_tfp_arguments()),
        )
    return side_by_side(functions)


def main():
    for network, (_, _, _, steps) in _NETWORKS.items():
        seconds = _measure(network)
        print(f"{network}: ms per step (ratio to deterministic layers)")
        for estimator in ("deterministic", *_OURS):
            cells = [f"{estimator:24s}"]
            for side in ("ours", "tfp"):
                if (side, estimator) not in seconds:
                    continue
                time = seconds[side, estimator]
                ratio = time / seconds[side, "deterministic"]
                cells.append(f"{side} {time / steps * 1e3:6.2f} ({ratio:.2f})")
            if ("tfp", estimator) in seconds:
                ratio = seconds["ours", estimator] / seconds["tfp", estimator]
                cells.append(f"ours/tfp {ratio:.2f}")
            print("   ".join(cells))


if __name__ == "__main__":
    main()
