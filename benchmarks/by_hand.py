"""Training steps written by hand: what is left to gain.

Programs of a few lines in TensorFlow, with nothing but the arithmetic of each
estimator, its random numbers and Adam's fused kernel, beside `fit` of the same
network with the layers of this package, with its Adam; the times are printed
and their ratios to `fit` with the layers of Keras. They are the networks of
`layers.py`, a perceptron (784-400-400-10, batch 128) and LeNet-5 (32x32x3,
batch 256), that of `refinement.py`, 13-50-2 (batch 256): there with ten
members in each product, as a refinement could compute them, beside a member's
step of `refine`; and that of `ensembles.py`, 13-50-1 (batch 100), without
posteriors, ten networks in each product, beside `deep_ensemble` and ten runs
of `fit` in one long epoch.

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
from tfp_refine.math import philox

_N, _BATCH, _UNITS, _STEPS = 60000, 128, (784, 400, 400, 10), 50
_IMAGES, _IMAGE_SHAPE, _IMAGE_STEPS = 256, (32, 32, 3), 8
_FILTERS, _LENET_UNITS = (3, 6, 16, 120), (8 * 8 * 120, 84, 10)
_ROWS, _MEMBERS, _UCI_BATCH, _UCI_UNITS = 455, 10, 256, (13, 50, 2)
_MEMBER_STEPS = 1000
_NETWORK_BATCH, _NETWORK_UNITS = 100, (13, 50, 1)
_BETAS = (0.9, 0.999)
_ESTIMATORS = ("Reparameterization", "LocalReparameterization", "Flipout")


class Dense:
    """Mean-field weights of a dense layer for each of some members."""

    def __init__(self, members, inputs, units, rng):
        self._set_up((members, inputs, units), (members, 1, units), inputs, rng)

    def _set_up(self, kernel_shape, bias_shape, fan_in, rng):
        self.shapes = kernel_shape, bias_shape
        values = [rng.normal(size=s) * fan_in**-0.5 for s in self.shapes]
        self.locs = [tf.Variable(v, dtype=tf.float32) for v in values]
        self.raws = [tf.Variable(tf.fill(s, -5.0)) for s in self.shapes]

    def product(self, x, kernel):
        return x @ kernel

    def sign_shape(self, x):
        """Returns the shape of the signs that Flipout draws for `x`."""
        return tf.shape(x)

    def variables(self, estimator):
        return self.locs + (self.raws if estimator else [])

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
        """Computes outputs, `[M, B, units]` of inputs `[M, B, inputs]`.

        Without an estimator, weights are the means.
        """
        draw = functools.partial(_normal, seed=seed)
        (kernel, bias), (kernel_scale, bias_scale) = self.locs, scales
        if estimator is None:
            return self.product(x, kernel) + bias
        if estimator == "LocalReparameterization":
            variance = self.product(x**2, kernel_scale**2) + bias_scale**2
            mean = self.product(x, kernel) + bias
            return mean + tf.sqrt(variance) * draw(mean.shape, part=0)
        noise = kernel_scale * draw(self.shapes[0], part=0)
        bias = bias + bias_scale * draw(self.shapes[1], part=1)
        if estimator == "Reparameterization":
            return self.product(x, kernel + noise) + bias
        mean = self.product(x, kernel) + bias
        inputs, outputs = (
            _signs(self.sign_shape(v), seed, part)
            for part, v in enumerate((x, mean), 2)
        )
        return mean + outputs * self.product(inputs * x, noise)


class Convolution(Dense):
    """Mean-field weights of a convolution 5x5: images `[B, H, W, C]`."""

    def __init__(self, inputs, filters, rng):
        self._set_up((5, 5, inputs, filters), (filters,), 25 * inputs, rng)

    def product(self, x, kernel):
        return tf.nn.conv2d(x, kernel, 1, "SAME")

    def sign_shape(self, x):
        return [tf.shape(x)[0], 1, 1, x.shape[-1]]


def _pooled(x):
    return tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, "SAME")


def _flat(x):
    return tf.nn.relu(tf.reshape(x, [1, x.shape[0], -1]))


def _normal(shape, seed, part):
    # Half the time of `tf.random.stateless_normal`, as in the layers.
    return philox.box_muller(shape, seed + [0, part])


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


def by_hand(estimator, layers, functions, x, y, nll, steps, members=1):
    """Returns a function that takes some steps, on the same batch.

    `functions` are called on the outputs of the layers.
    """
    variables = [v for layer in layers for v in layer.variables(estimator)]
    slots = [[tf.Variable(tf.zeros_like(v)) for v in variables] for _ in _BETAS]
    count, x = tf.Variable(0), tf.constant(x)

    def step():
        count.assign_add(1)
        with tf.GradientTape() as tape:
            outputs, kl = x, 0.0
            for number, layer in enumerate(layers):
                scales = layer.scales()
                seed = tf.stack([count, 10 * number])
                outputs = layer(outputs, estimator, scales, seed)
                outputs = functions[number](outputs)
                if estimator:
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
        return loss

    @tf.function
    def run():
        # As `fit` reports the loss, which TensorFlow would not compute else.
        total = 0.0
        for _ in tf.range(steps):
            total += step()
        return total / steps

    return run


def _denses(units, members, rng):
    """Returns layers, and the functions of their outputs."""
    layers = [
        Dense(members, *sizes, rng)
        for sizes in zip(units, units[1:], strict=False)
    ]
    return layers, [tf.nn.relu] * (len(layers) - 1) + [tf.identity]


def _lenet5(rng):
    layers, functions = _denses(_LENET_UNITS, 1, rng)
    convolutions = [
        Convolution(*sizes, rng)
        for sizes in zip(_FILTERS, _FILTERS[1:], strict=False)
    ]
    return convolutions + layers, [_pooled, _pooled, _flat, *functions]


def _fit_dense(dense, conv, x, y):
    del conv  # there are none
    layers = [dense(units, activation="relu") for units in _UNITS[1:-1]]
    return _fit([*layers, dense(_UNITS[-1])], x, y, _STEPS)


def _fit_lenet5(dense, conv, x, y):
    convolve = functools.partial(
        conv, kernel_size=5, padding="same", activation="relu"
    )
    pool = functools.partial(keras.layers.MaxPooling2D, 2, padding="same")
    layers = [
        *(convolve(_FILTERS[1]), pool(), convolve(_FILTERS[2]), pool()),
        *(convolve(_FILTERS[3]), keras.layers.Flatten()),
        *(dense(_LENET_UNITS[1], activation="relu"), dense(_LENET_UNITS[2])),
    ]
    return _fit(layers, x, y, _IMAGE_STEPS)


def _fit(layers, x, y, steps):
    model = keras.Sequential([keras.Input(x.shape[1:]), *layers])
    model.compile(
        tfr.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    data = tf.data.Dataset.from_tensors((x, y)).repeat().with_options(options)
    return lambda: model.fit(
        data, steps_per_epoch=steps, verbose=0, shuffle=False
    )


def _classifiers(title, shape, steps, fit, make, rounds, clock):
    """Prints the times of `fit` and of steps by hand of one network."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    y = rng.integers(0, 10, size=len(x))

    def nll(y, logits):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits[0])

    keras_name = "layers of Keras"
    functions = {keras_name: fit(keras.layers.Dense, keras.layers.Conv2D, x, y)}
    for estimator in _ESTIMATORS:
        kinds = (
            functools.partial(
                getattr(tfr.layers, f"{kind}{estimator}"),
                num_train_examples=_N,
            )
            for kind in ("Dense", "Conv2D")
        )
        functions[estimator] = fit(*kinds, x, y)
        inputs = x if x.ndim > 2 else x[None]  # of the one member
        functions[f"{estimator} by hand"] = by_hand(
            estimator, *make(rng), inputs, y, nll, steps
        )
    times = in_turn(functions, rounds, clock)
    print(f"{title}: ms a step, times the layers of Keras")
    for name, seconds in times.items():
        ratio = np.median(seconds / times[keras_name])
        milliseconds = np.median(seconds) / steps * 1e3
        print(f"  {name:32s}{milliseconds:8.2f}{ratio:8.2f}", flush=True)


def _members(rounds, clock):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_ROWS, 13)).astype(np.float32)
    y = np.sin(x[:, :1])
    model = tfr.models.MLP((13,), noise_scale=1.0, num_train_examples=_ROWS)
    loss = tfr.losses.HeteroscedasticGaussianNLL()
    model.compile(keras.optimizers.Adam(1e-3), loss)
    inputs, targets = next(
        iter(batches.training_batches(x, y, _UCI_BATCH, seed=0).take(1))
    )
    inputs = tf.repeat(inputs[None], _MEMBERS, axis=0)

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
            estimator, *_denses(_UCI_UNITS, _MEMBERS, rng), inputs, targets,
            nll, _MEMBER_STEPS, _MEMBERS,
        )  # fmt: skip
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


def _ensemble(rounds, clock):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_ROWS, 13)).astype(np.float32)
    y = np.sin(x[:, :1])
    model = keras.Sequential(
        [
            keras.Input((13,)),
            keras.layers.Dense(_NETWORK_UNITS[1], activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-3), "mse", jit_compile=False)
    epoch = batches.training_batches(x, y, _NETWORK_BATCH, seed=0)
    inputs, targets = next(iter(epoch.take(1)))

    def train(steps):
        return lambda: tfr.ensembles.deep_ensemble(
            model, x, y, num_members=_MEMBERS, steps=steps,
            batch_size=_NETWORK_BATCH, seed=0, verbose=0,
        )  # fmt: skip

    functions = {
        "short": train(_MEMBER_STEPS),
        "long": train(5 * _MEMBER_STEPS),
        "fit, for one": lambda: model.fit(
            epoch, steps_per_epoch=_MEMBER_STEPS, verbose=0, shuffle=False
        ),
        "all by hand": by_hand(
            None, *_denses(_NETWORK_UNITS, _MEMBERS, rng),
            tf.repeat(inputs[None], _MEMBERS, axis=0), targets,
            lambda y, outputs: (outputs - y) ** 2, _MEMBER_STEPS, _MEMBERS,
        ),
    }  # fmt: skip
    times = in_turn(functions, rounds, clock)
    # The difference of two runs is steps alone, without tracing.
    steps = np.median(times.pop("long") - times["short"]) / 4
    found = {
        "ten runs of fit": _MEMBERS * np.median(times["fit, for one"]),
        "deep_ensemble, without tracing": steps,
        "deep_ensemble, 1000 steps": np.median(times["short"]),
        "by hand": np.median(times["all by hand"]),
    }
    print("13-50-1, ten networks: ms a step of all, how much faster than fit")
    for name, seconds in found.items():
        milliseconds = seconds / _MEMBER_STEPS * 1e3
        ratio = found["ten runs of fit"] / seconds
        print(f"  {name:32s}{milliseconds:8.3f}{ratio:8.1f}x", flush=True)


def main():
    """Prints all tables."""
    perceptron = functools.partial(_denses, _UNITS, 1)
    tables = {
        "perceptron": functools.partial(
            _classifiers, "784-400-400-10", (_BATCH, _UNITS[0]), _STEPS,
            _fit_dense, perceptron,
        ),
        "lenet5": functools.partial(
            _classifiers, "LeNet-5", (_IMAGES, *_IMAGE_SHAPE), _IMAGE_STEPS,
            _fit_lenet5, _lenet5,
        ),
        "refinement": _members,
        "ensemble": _ensemble,
    }  # fmt: skip
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--tables", nargs="+", default=list(tables), choices=tables
    )
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    clock = time.process_time if arguments.threads == 1 else time.perf_counter
    for name in arguments.tables:
        tables[name](arguments.rounds, clock)


if __name__ == "__main__":
    main()
