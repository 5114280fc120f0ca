"""Step time of the dense layers, beside Dense and beside tfp.layers.

Trains a 784-400-400-10 classifier by `fit`, batch 128: each of our layers and
`keras.layers.Dense` under Keras 3, each of TensorFlow Probability's and its
`Dense` under tf_keras, on the same TensorFlow and in turn.

  python benchmarks/layers.py
"""

import keras
import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
import tf_keras
from _timing import side_by_side

import tfp_refine as tfr

_BATCH, _STEPS, _N = 128, 50, 60000
_NAMES = ("Reparameterization", "LocalReparameterization", "Flipout")


def _dataset():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_BATCH, 784)).astype(np.float32)
    y = rng.integers(0, 10, size=_BATCH)
    options = tf.data.Options()
    options.autotune.enabled = False
    return tf.data.Dataset.from_tensors((x, y)).repeat().with_options(options)


def _training(framework, layer, **arguments):
    """Returns a function that runs some training steps."""
    model = framework.Sequential(
        [
            framework.layers.InputLayer((784,)),
            layer(400, activation="relu", **arguments),
            layer(400, activation="relu", **arguments),
            layer(10, **arguments),
        ]
    )
    model.compile(
        optimizer=framework.optimizers.Adam(1e-3),
        loss=framework.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    dataset = _dataset()
    return lambda: model.fit(
        dataset, steps_per_epoch=_STEPS, verbose=0, shuffle=False
    )


def main():
    def scaled_kl(q, p, _):
        return tfp.distributions.kl_divergence(q, p) / _N

    functions = {
        "keras Dense": _training(keras, keras.layers.Dense),
        "tf_keras Dense": _training(tf_keras, tf_keras.layers.Dense),
    }
    for name in _NAMES:
        functions[f"ours {name}"] = _training(
            keras, getattr(tfr.layers, f"Dense{name}"), num_train_examples=_N
        )
        # TFP has a point estimate of the bias by default: give it a posterior.
        functions[f"tfp {name}"] = _training(
            tf_keras,
            getattr(tfp.layers, f"Dense{name}"),
            kernel_divergence_fn=scaled_kl,
            bias_divergence_fn=scaled_kl,
            bias_posterior_fn=tfp.layers.default_mean_field_normal_fn(),
            bias_prior_fn=tfp.layers.default_multivariate_normal_fn,
        )
    seconds = side_by_side(functions)
    print("ms per step (ratio to Dense of the same framework)")
    for name in ("Dense", *_NAMES):
        cells = []
        for framework, dense in (("ours", "keras"), ("tfp", "tf_keras")):
            label = f"{dense if name == 'Dense' else framework} {name}"
            milliseconds = seconds[label] / _STEPS * 1e3
            ratio = seconds[label] / seconds[f"{dense} Dense"]
            cells.append(f"{framework} {milliseconds:6.2f} ({ratio:.2f})")
        first = "keras Dense" if name == "Dense" else f"ours {name}"
        second = "tf_keras Dense" if name == "Dense" else f"tfp {name}"
        ratio = seconds[first] / seconds[second]
        print(f"{name:24s}{'   '.join(cells)}   ours/tfp {ratio:.2f}")


if __name__ == "__main__":
    main()
