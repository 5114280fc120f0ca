"""Members and layers on a GPU: time and memory of a step.

A perceptron of 13 inputs and 50 units (batch 128), and LeNet-5 (256) and the
hybrid ResNet-20 (64) on images of CIFAR's shape. First a training step by
`fit`, all steps in one execution: with deterministic layers, and with each of
our estimators, without XLA and with it, which is Keras' choice on a GPU. Then
a step of refinement, M members together: "map", one after another or side by
side; "vmap", each operation for all; "batched", the same for a few members at
a time, again without XLA and with it; and the choice of `mapping="auto"`.
Memory is the most that TensorFlow held on the device, which it reports for GPUs
alone. The seconds of each first run, most of which are compilation, are printed
as it ends.

  python benchmarks/gpu.py

Without a GPU it takes small sizes, to show that it runs.
"""

import argparse
import functools
import sys
import time

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


def _mlp(
    input_shape,
    outputs,
    *,
    conv_layer=None,
    dense_layer=tfr.layers.DenseFlipout,
    **kwargs,
):
    del conv_layer
    return tfr.models.MLP(input_shape, outputs, layer=dense_layer, **kwargs)


# Of each, how it is made, its batch size, and the shape of an example unless
# that is an image.
_NETWORKS = {
    "MLP": (_mlp, 128, (13,)),
    "LeNet-5": (tfr.models.LeNet5, 256, None),
    "ResNet-20": (tfr.models.ResNet20, 64, None),
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
_PLAIN = "deterministic"
_TABLES = ("training", "refinement")


def _arguments():
    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--networks", nargs="+", choices=_NETWORKS, default=[*_NETWORKS]
    )
    parser.add_argument(
        "--tables", nargs="+", choices=_TABLES, default=[*_TABLES]
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
        help="examples in a step; 128, 256 and 64 on a GPU",
    )  # fmt: skip
    parser.add_argument(
        "--image_size", type=int, default=32 if has_gpu else 8,
        help="height and width of an image",
    )  # fmt: skip
    parser.add_argument(
        "--steps", type=int, default=200 if has_gpu else 2,
        help="steps of a measurement, divided among the members, with at "
        "least ten each",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=3 if has_gpu else 1,
        help="measurements, in turn, of which the median is printed",
    )  # fmt: skip
    return parser.parse_args()


def _compiled(model, steps, jit_compile=False):
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=steps,
        jit_compile=jit_compile,
    )
    return model


def _data(batch_size, shape):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4 * batch_size, *shape), dtype=np.float32)
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
            begin = time.monotonic()
            function()
            first = time.monotonic() - begin
            print(f"{name}: first {first:.1f} s", file=sys.stderr, flush=True)
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
    functions = {}
    for suffix, jit_compile in (("", False), (", XLA", True)):
        models = {
            name: make(
                x.shape[1:], 10, conv_layer=conv, dense_layer=dense,
                num_train_examples=len(x), seed=0,
            )
            for name, (conv, dense) in _LAYERS.items()
        }  # fmt: skip
        models[_PLAIN] = tfr.models.to_deterministic(models["Flipout"])
        for name in (_PLAIN, *_LAYERS):
            functions[name + suffix] = functools.partial(
                _compiled(models[name], flags.steps, jit_compile).fit,
                dataset,
                steps_per_epoch=flags.steps,
                verbose=0,
                shuffle=False,
            )
    seconds, peaks = _measure(functions, flags.rounds)
    return {k: v and v / flags.steps for k, v in seconds.items()}, peaks


def _refinement(make, x, y, batch_size, flags, num_members):
    """Measures steps of M members together, and finds the choice of "auto"."""
    steps = max(flags.steps // num_members, min(10, flags.steps))
    settings = settings_lib.Settings(
        num_members=num_members, variance_ratios=(0.7,), steps=steps,
        batch_size=batch_size, learning_rate=1e-3,
        learning_rate_decay="constant", keep_better=True, num_eval_samples=1,
        max_eval_examples=64, refine_deterministic=False, seed=0,
    )  # fmt: skip
    engines = {}
    for suffix, jit_compile in (("", False), (", XLA", True)):
        model = make(x.shape[1:], 10, num_train_examples=len(x), seed=0)
        model = _compiled(model, steps, jit_compile)
        objective = objective_lib.RefinementObjective(model, x, y, None, False)
        start = state_lib.RefinementState.begin(objective.starts, settings)
        constants = (objective.fixed, objective.data)
        for name, size in (
            ("map", num_members),
            ("vmap", num_members),
            ("batched", flags.batched),
        ):
            if name != "batched" or size < num_members:
                engines[name + suffix] = engine_lib.Engine(
                    objective,
                    settings,
                    size,
                    name != "map",
                    executor.LocalExecutor(constants),
                )

    def refine(engine):
        results = engine.run(
            start.members, start.moments, settings.members, 1e-3, 0, steps
        )
        return [result.state.params.numpy() for result in results]

    seconds, peaks = _measure(
        {
            name: functools.partial(refine, engine)
            for name, engine in engines.items()
        },
        flags.rounds,
    )
    seconds = {k: v and v / (steps * num_members) for k, v in seconds.items()}
    if None in (seconds["map, XLA"], seconds["vmap, XLA"]):
        return seconds, peaks, None
    choice = engine_lib.faster(
        engines["map, XLA"], engines["vmap, XLA"], settings, start
    )
    return seconds, peaks, "vmap" if choice.vectorized else "map"


def _row(name, seconds, peak, unit):
    """Prints the milliseconds of a step, its ratio to a unit, and memory."""
    if seconds is None:
        print(f"  {name:28s}  failed", flush=True)
        return
    ratio = "" if not unit else f"{seconds / unit:8.2f}"
    memory = "" if peak is None else f"{peak:10.0f} MiB"
    print(f"  {name:28s}{seconds * 1e3:10.3f} ms{ratio}{memory}", flush=True)


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
    print(f"steps {flags.steps}, rounds {flags.rounds}")
    for name in flags.networks:
        make, batch_size, shape = _NETWORKS[name]
        batch_size = flags.batch_size or batch_size
        image = (flags.image_size, flags.image_size, 3)
        x, y = _data(batch_size, shape or image)
        if "training" in flags.tables:
            seconds, peaks = _training(make, x, y, batch_size, flags)
            print(f"\n{name}, batch {batch_size}: a training step, and times "
                  "one of deterministic layers without XLA")  # fmt: skip
            unit = seconds[_PLAIN]
            for kind, value in seconds.items():
                _row(kind, value, peaks[kind], unit)
        if "refinement" not in flags.tables:
            continue
        print(f"\n{name}, batch {batch_size}: a step of a member of M, and "
              "times one of members that are mapped without XLA")  # fmt: skip
        for number in flags.members:
            seconds, peaks, choice = _refinement(
                make, x, y, batch_size, flags, number
            )
            unit = seconds["map"]
            for mapping, value in seconds.items():
                _row(f"M = {number}, {mapping}", value, peaks[mapping], unit)
            if choice is not None:
                print(f'  M = {number}: "auto" is "{choice}"', flush=True)


if __name__ == "__main__":
    main()
