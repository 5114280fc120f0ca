"""Members and layers on a GPU: time and memory of a step.

LeNet-5 (batch 256) and the hybrid ResNet-20 (batch 64) on images of CIFAR's
shape. First a training step by `fit`: with deterministic layers, and with each
of our estimators. Then a step of refinement, M members together: "map", one
after another or side by side; "vmap", each operation for all; "batched", the
same for a few members at a time; and the choice of `mapping="auto"`. Memory is
the most that TensorFlow held on the device, which it reports for GPUs alone.

  python benchmarks/gpu.py

Without a GPU it takes small sizes, to show that it runs.
"""

import argparse
import functools

import keras
import numpy as np
import tensorflow as tf
from _timing import side_by_side

import tfp_refine as tfr
from tfp_refine.datasets import batches
from tfp_refine.functional import executor
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import settings as settings_lib
from tfp_refine.refinement import state as state_lib

_NETWORKS = {
    "LeNet-5": (tfr.models.LeNet5, 256),
    "ResNet-20": (tfr.models.ResNet20, 64),
}
_LAYERS = {
    "Reparameterization": (
        tfr.layers.Conv2DReparameterization,
        tfr.layers.DenseReparameterization,
    ),
    "LocalReparameterization": (
        tfr.layers.Conv2DLocalReparameterization,
        tfr.layers.DenseLocalReparameterization,
    ),
    "Flipout": (tfr.layers.Conv2DFlipout, tfr.layers.DenseFlipout),
}


def _arguments():
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--networks", nargs="+", choices=_NETWORKS, default=[*_NETWORKS]
    )
    parser.add_argument(
        "--members", nargs="+", type=int,
        default=[1, 10, 50] if has_gpu else [2],
        help="numbers of members together",
    )  # fmt: skip
    parser.add_argument(
        "--batched", type=int, default=10 if has_gpu else 1,
        help='members at a time of "batched"',
    )  # fmt: skip
    parser.add_argument(
        "--batch_size", type=int, default=None if has_gpu else 8,
        help="examples in a step; 256 and 64 on a GPU",
    )  # fmt: skip
    parser.add_argument(
        "--image_size", type=int, default=32 if has_gpu else 8,
        help="height and width of an image",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=int, default=50 if has_gpu else 2,
        help="steps of a measurement",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=5 if has_gpu else 1,
        help="measurements, in turn, of which the median is printed",
    )  # fmt: skip
    return parser.parse_args()


def _compiled(model):
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,  # as members are, which these steps are beside
    )
    return model


def _data(batch_size, image_size):
    rng = np.random.default_rng(0)
    shape = (4 * batch_size, image_size, image_size, 3)
    x = rng.standard_normal(shape, dtype=np.float32)
    return x, rng.integers(0, 10, size=len(x))


def _measure(functions, rounds):
    """Returns the seconds and the peak memory (MiB) of each function.

    They are `None` for one that fails, as for want of memory, and says why;
    peaks are where TensorFlow does not report them.
    """
    seconds, peaks = {}, {}
    for name, function in functions.items():
        try:
            _reset_peak()
            function()
            peaks[name] = _peak()
            seconds[name] = 0.0
        except (tf.errors.OpError, TypeError, ValueError) as error:
            print(f"{name}: {error}", flush=True)
            peaks[name] = seconds[name] = None
    fits = {k: functions[k] for k, value in seconds.items() if value == 0.0}
    return {**seconds, **side_by_side(fits, rounds)}, peaks


def _reset_peak():
    if tf.config.list_physical_devices("GPU"):
        tf.config.experimental.reset_memory_stats("GPU:0")


def _peak():
    if not tf.config.list_physical_devices("GPU"):
        return None
    return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20


def _training(make, x, y, batch_size, flags):
    """Measures training steps of each kind of layer."""
    dataset = batches.training_batches(x, y, batch_size, seed=0)
    variational = {
        name: make(
            x.shape[1:], 10, conv_layer=conv, dense_layer=dense,
            num_train_examples=len(x), seed=0,
        )
        for name, (conv, dense) in _LAYERS.items()
    }  # fmt: skip
    models = {
        "deterministic": tfr.models.to_deterministic(variational["Flipout"]),
        **variational,
    }
    return _measure(
        {
            name: functools.partial(
                _compiled(model).fit,
                dataset,
                steps_per_epoch=flags.steps,
                verbose=0,
                shuffle=False,
            )
            for name, model in models.items()
        },
        flags.rounds,
    )


def _refinement(make, x, y, batch_size, flags, num_members):
    """Measures steps of M members together, and finds the choice of "auto"."""
    model = _compiled(make(x.shape[1:], 10, num_train_examples=len(x), seed=0))
    objective = objective_lib.RefinementObjective(model, x, y, None, False)
    settings = settings_lib.Settings(
        num_members=num_members, variance_ratios=(0.7,), steps=flags.steps,
        batch_size=batch_size, learning_rate=1e-3,
        learning_rate_decay="constant", keep_better=True, num_eval_samples=1,
        max_eval_examples=64, refine_deterministic=False, seed=0,
    )  # fmt: skip
    start = state_lib.RefinementState.begin(objective.starts, settings)

    def refine(engine):
        results = engine.run(
            start.members, start.moments, settings.members, 1e-3, 0,
            flags.steps,
        )  # fmt: skip
        return [result.state.params.numpy() for result in results]

    constants = (objective.fixed, objective.data)
    seconds, peaks = _measure(
        {
            name: functools.partial(
                refine,
                engine_lib.Engine(
                    objective,
                    settings,
                    size,
                    vectorized,
                    executor.LocalExecutor(constants),
                ),
            )
            for name, size, vectorized in (
                ("map", num_members, False),
                ("vmap", num_members, True),
                ("batched", min(flags.batched, num_members), True),
            )
        },
        flags.rounds,
    )
    engine = engine_lib.make_engine(objective, settings, start)
    return seconds, peaks, "vmap" if engine.vectorized else "map"


def _row(name, seconds, peak, steps, unit):
    """Prints milliseconds, the ratio to a unit, and memory."""
    if seconds is None:
        print(f"  {name:26s}  no memory")
        return
    ratio = "" if not unit else f"{seconds / steps / unit:8.2f}"
    memory = "" if peak is None else f"{peak:10.0f} MiB"
    print(f"  {name:26s}{seconds / steps * 1e3:10.2f} ms{ratio}{memory}")


def main():
    """Prints the table."""
    flags = _arguments()
    devices = tf.config.list_physical_devices("GPU")
    for device in devices:
        details = tf.config.experimental.get_device_details(device)
        print(details.get("device_name", device.name))
    if not devices:
        print("No GPU: small sizes, whose times say nothing.")
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}")
    for name in flags.networks:
        make, batch_size = _NETWORKS[name]
        batch_size = flags.batch_size or batch_size
        x, y = _data(batch_size, flags.image_size)
        seconds, peaks = _training(make, x, y, batch_size, flags)
        unit = (seconds["deterministic"] or 0.0) / flags.steps
        print(f"\n{name}, batch {batch_size}: a training step, times one of "
              "deterministic layers, memory")  # fmt: skip
        for kind, value in seconds.items():
            _row(kind, value, peaks[kind], flags.steps, unit)
        print(f"{name}: a step of a member of M, times a training step of "
              "Flipout, memory")  # fmt: skip
        unit = (seconds["Flipout"] or 0.0) / flags.steps
        for number in flags.members:
            found, peaks, choice = _refinement(
                make, x, y, batch_size, flags, number
            )
            for mapping, value in found.items():
                _row(f"M = {number}, {mapping}", value, peaks[mapping],
                     flags.steps * number, unit)  # fmt: skip
            print(f'  M = {number}: "auto" is "{choice}"')


if __name__ == "__main__":
    main()
