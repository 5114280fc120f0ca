"""Training steps written by hand: what is left to gain.

Programs of a few lines in TensorFlow, with nothing but the arithmetic of each
estimator, its random numbers and Adam's fused kernel, beside `fit` of the same
network with the layers of this package, with its Adam; the times are printed
and their ratios to `fit` with `keras.layers.Dense`. They are a perceptron
784-400-400-10 (batch 128), as in `layers.py`, and the network of
`refinement.py`, 13-50-2 (batch 256): there with ten members in each product,
as a refinement could compute them, beside a member's step of `refine`.

  python benchmarks/by_hand.py --threads=1

With one thread, seconds are CPU seconds, which other programs disturb less.
"""

import argparse
import functools
import time

import keras
import numpy as np
import tensorflow as tf
from _timing import in_turn

import tfp_refine as tfr
from tfp_refine.datasets import batches

_N, _BATCH, _UNITS, _STEPS = 60000, 128, (784, 400, 400, 10), 50
_ROWS, _MEMBERS, _UCI_BATCH, _UCI_UNITS = 455, 10, 256, (13, 50, 2)
_MEMBER_STEPS = 1000
_BETAS = (0.9, 0.999)
_ESTIMATORS = ("Reparameterization", "LocalReparameterization", "Flipout")


class Layer:
    """Mean-field weights of a dense layer for each of some members."""

    def __init__(self, members, inputs, units, rng):
        self.shapes = ((members, inputs, units), (members, 1, units))
        values = [rng.normal(size=s) * inputs**-0.5 for s in self.shapes]
        self.locs = [tf.Variable(v, dtype=tf.float32) for v in values]
        self.raws = [tf.Variable(tf.fill(s, -5.0)) for s in self.shapes]

    @property
    def variables(self):
        return self.locs + self.raws

    def scales(self):
        return [tf.nn.softplus(raw) for raw in self.raws]

    def kl(self, scales):
        """Computes nats of all members, with a prior of N(0, 1)."""
        return sum(
            0.5 * tf.reduce_sum(scale**2 + loc**2 - 1.0)
            - tf.reduce_sum(tf.math.log(scale))
            for loc, scale in zip(self.locs, scales, strict=True)
        )

    def __call__(self, x, estimator, scales, seed):
        """Computes outputs `[M, B, units]` of inputs `[M, B, inputs]`."""
        draw = functools.partial(_normal, seed=seed)
        (kernel, bias), (kernel_scale, bias_scale) = self.locs, scales
        if estimator == "LocalReparameterization":
            variance = x**2 @ kernel_scale**2 + bias_scale**2
            mean = x @ kernel + bias
            return mean + tf.sqrt(variance) * draw(tf.shape(mean), part=0)
        noise = kernel_scale * draw(self.shapes[0], part=0)
        bias = bias + bias_scale * draw(self.shapes[1], part=1)
        if estimator == "Reparameterization":
            return x @ (kernel + noise) + bias
        mean = x @ kernel + bias
        inputs, outputs = (
            _signs(tf.shape(v), seed, part)
            for part, v in enumerate((x, mean), 2)
        )
        return mean + outputs * ((inputs * x) @ noise)


def _normal(shape, seed, part):
    return tf.random.stateless_normal(shape, seed + [0, part], alg="philox")


def _signs(shape, seed, part):
    """Draws -1 or 1 for each number, 16 of each integer."""
    words = tf.random.stateless_uniform(
        [*tf.unstack(shape)[:-1], -(-shape[-1] // 16), 1],
        seed + [0, part],
        maxval=2**16,
        dtype=tf.int32,
        alg="philox",
    )
    bits = tf.bitwise.right_shift(words, tf.range(16)) & 1
    bits = tf.reshape(bits, tf.concat([shape[:-1], [-1]], 0))
    return tf.cast(2 * bits[..., : shape[-1]] - 1, tf.float32)


def by_hand(estimator, units, members, x, y, nll, steps):
    """Returns a function that takes some steps, on the same batch."""
    rng = np.random.default_rng(0)
    layers = [
        Layer(members, *sizes, rng)
        for sizes in zip(units, units[1:], strict=False)
    ]
    variables = [v for layer in layers for v in layer.variables]
    slots = [[tf.Variable(tf.zeros_like(v)) for v in variables] for _ in _BETAS]
    count = tf.Variable(0)
    x = tf.repeat(tf.constant(x)[None], members, axis=0)

    def step():
        count.assign_add(1)
        with tf.GradientTape() as tape:
            outputs, kl = x, 0.0
            for number, layer in enumerate(layers):
                scales = layer.scales()
                seed = tf.stack([count, 10 * number])
                outputs = layer(outputs, estimator, scales, seed)
                if number < len(layers) - 1:
                    outputs = tf.nn.relu(outputs)
                kl += layer.kl(scales) / _N
            # A mean of the examples for each member, in one sum.
            loss = tf.reduce_mean(nll(y, outputs)) * members + kl
        gradients = tape.gradient(loss, variables)
        powers = [beta ** tf.cast(count, tf.float32) for beta in _BETAS]
        for variable, m, v, gradient in zip(
            variables, *slots, gradients, strict=True
        ):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle, m=m.handle, v=v.handle,
                beta1_power=powers[0], beta2_power=powers[1], lr=1e-3,
                beta1=_BETAS[0], beta2=_BETAS[1], epsilon=1e-7, grad=gradient,
            )  # fmt: skip

    @tf.function
    def run():
        for _ in tf.range(steps):
            step()

    return run


def _fit(make, x, y):
    model = keras.Sequential([keras.Input(_UNITS[:1])])
    for units in _UNITS[1:-1]:
        model.add(make(units, activation="relu"))
    model.add(make(_UNITS[-1]))
    model.compile(
        tfr.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    data = tf.data.Dataset.from_tensors((x, y)).repeat().with_options(options)
    return lambda: model.fit(
        data, steps_per_epoch=_STEPS, verbose=0, shuffle=False
    )


def _perceptron(rounds, clock):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_BATCH, _UNITS[0])).astype(np.float32)
    y = rng.integers(0, _UNITS[-1], size=_BATCH)

    def nll(y, logits):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits[0])

    functions = {"Dense": _fit(keras.layers.Dense, x, y)}
    for estimator in _ESTIMATORS:
        layer = functools.partial(
            getattr(tfr.layers, f"Dense{estimator}"), num_train_examples=_N
        )
        functions[f"Dense{estimator}"] = _fit(layer, x, y)
        functions[f"{estimator} by hand"] = by_hand(
            estimator, _UNITS, 1, x, y, nll, _STEPS
        )
    times = in_turn(functions, rounds, clock)
    print("784-400-400-10: ms a step, times keras.layers.Dense")
    for name, seconds in times.items():
        ratio = np.median(seconds / times["Dense"])
        milliseconds = np.median(seconds) / _STEPS * 1e3
        print(f"  {name:32s}{milliseconds:8.2f}{ratio:8.2f}", flush=True)


def _members(rounds, clock):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_ROWS, 13)).astype(np.float32)
    y = np.sin(x[:, :1])
    model = tfr.models.MLP((13,), noise_scale=1.0, num_train_examples=_ROWS)
    loss = tfr.losses.HeteroscedasticGaussianNLL()
    model.compile(keras.optimizers.Adam(1e-3), loss)
    batch = next(
        iter(batches.training_batches(x, y, _UCI_BATCH, seed=0).take(1))
    )

    def nll(y, outputs):
        loc, scale = outputs[..., :1], tf.nn.softplus(outputs[..., 1:])
        return 0.5 * ((y - loc) / scale) ** 2 + tf.math.log(scale)

    def refine(steps):
        return lambda: tfr.refine(
            model, x, y, num_members=_MEMBERS, variance_ratios=(0.7,),
            steps=steps, batch_size=_UCI_BATCH, seed=0, verbose=0,
        )  # fmt: skip

    functions = {
        "short": refine(_MEMBER_STEPS),
        "long": refine(3 * _MEMBER_STEPS),
    }
    for estimator in ("LocalReparameterization", "Reparameterization"):
        functions[estimator] = by_hand(
            estimator, _UCI_UNITS, _MEMBERS, *batch, nll, _MEMBER_STEPS
        )
    times = in_turn(functions, rounds, clock)
    # The difference of two runs is steps alone, without tracing.
    refined = np.median(times.pop("long") - times.pop("short")) / 2
    print("13-50-2, ten members: ms a member's step")
    found = {"refine": refined} | {
        f"{name} by hand": np.median(seconds) for name, seconds in times.items()
    }
    for name, seconds in found.items():
        milliseconds = seconds / _MEMBER_STEPS / _MEMBERS * 1e3
        print(f"  {name:32s}{milliseconds:8.3f}", flush=True)


def main():
    """Prints both tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    _perceptron(arguments.rounds, clock)
    _members(arguments.rounds, clock)


if __name__ == "__main__":
    main()
