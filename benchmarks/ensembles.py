"""A deep ensemble at once, beside one `fit` after another.

Ten networks of one hidden layer of 50 units on 455 examples of 13 features
(batch 100), against ten runs of `model.fit`. Four ways to feed `fit`: arrays,
as a user would; with the input pipeline's tuner off, whose start often costs
more than the steps; in one long epoch, and that with `steps_per_execution=100`,
the fastest that `fit` can be.

  python benchmarks/ensembles.py
"""

import _timing
import keras
import numpy as np
import tensorflow as tf

import tfp_refine as tfr

_N, _BATCH, _STEPS, _MEMBERS = 455, 100, 2000, 10
# `fit` runs one in so many steps, and its time is multiplied.
_PART = 5


def _model(steps_per_execution=1):
    model = keras.Sequential(
        [
            keras.Input((13,)),
            keras.layers.Dense(50, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(
        keras.optimizers.Adam(1e-3),
        "mse",
        jit_compile=False,
        steps_per_execution=steps_per_execution,
    )
    return model


def main():
    """Prints the table."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_N, 13)).astype(np.float32)
    y = (np.sin(x[:, :1]) + 0.1 * rng.normal(size=(_N, 1))).astype(np.float32)
    options = tf.data.Options()
    options.autotune.enabled = False
    short = tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH)
    long_epoch = tfr.datasets.training_batches(x, y, _BATCH, seed=0)
    epochs = _STEPS // _PART // -(-_N // _BATCH)
    quiet = {"verbose": 0, "shuffle": False}
    like, naive, untuned, longest = (_model() for _ in range(4))
    together = _model(steps_per_execution=100)

    def at_once():
        tfr.ensembles.deep_ensemble(
            like, x, y, num_members=_MEMBERS, steps=_STEPS, batch_size=_BATCH,
            seed=0, verbose=0,
        )  # fmt: skip

    seconds = _timing.side_by_side(
        {
            "at once": at_once,
            "fit": lambda: naive.fit(
                x, y, batch_size=_BATCH, epochs=epochs, verbose=0
            ),
            "fit, tuner off": lambda: untuned.fit(
                short.with_options(options), epochs=epochs, **quiet
            ),
            "fit, one epoch": lambda: longest.fit(
                long_epoch, steps_per_epoch=_STEPS // _PART, **quiet
            ),
            "fit, 100 steps an execution": lambda: together.fit(
                long_epoch, steps_per_epoch=_STEPS // _PART, **quiet
            ),
        },
        rounds=3,
    )
    whole = seconds.pop("at once")
    print(f"{_MEMBERS} members of {_STEPS} steps")
    print(f"  at once, compilation included {whole:8.2f} s")
    for name, value in seconds.items():
        total = value * _PART * _MEMBERS
        print(f"  {name:30s}{total:8.2f} s{total / whole:8.1f}x")


if __name__ == "__main__":
    main()
