"""Long trainings in segments, which report, save and continue."""

import os
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine.functional import files
from tfp_refine.functional import layer_calls
from tfp_refine.functional import progress
from tfp_refine.functional import resumable
from tfp_refine.functional import seeds
from tfp_refine.functional import streams
from tfp_refine.functional import train as train_lib

# Segments between which Python shows, and saves, how far it is.
_SEGMENTS = 20


class Trajectory(NamedTuple):
    """Members at the end of their training, and on the way.

    Attributes:
        params: `[M, ...]` (or nested).
        fixed: Values of the fixed weights, a list, `[M, ...]` each.
        snapshots: List of `(params, fixed)`, likewise.
        history: Dict of `step`, array `[T]`, and `loss`, the mean training loss
            since the step before, array `[M, T]`.
    """

    params: Any
    fixed: list
    snapshots: list
    history: dict


def train(
    name,
    objective,
    start,
    update_rule,
    batches,
    *,
    steps,
    learning_rate,
    settings,
    seed,
    schedule=None,
    loss=None,
    checkpoint_dir=None,
    verbose=1,
    collect=(),
):
    """Trains members by the mean loss and the model's penalties.

    They start at `(params [M, P], fixed)`, arrays, fixed weights being a list
    of `[M, ...]`. Member `i` has the random stream `key(seed, i)`. `settings`
    is a dict for JSON, of the other values that decide the result; `name`, such
    as "deep_ensemble", is that of the checkpoint. A snapshot is taken after
    each of the steps `collect`. `batches` are of all data. Other arguments are
    those of `train.make_program`. Returns a `Trajectory` of arrays.
    """
    if loss is None:

        def loss(params, fixed, common, batch, key, step):
            del common
            nll, fixed, penalty = objective.training_loss(
                batch, params, fixed, key, step
            )
            return nll + penalty, nll + penalty, fixed

    params, fixed = start
    state = train_lib.State(params, fixed, update_rule.zeros(params))
    done: dict[str, list] = {"steps": [], "losses": [], "snapshots": []}
    checkpoint = _open_checkpoint(
        checkpoint_dir,
        name,
        objective,
        start,
        {
            "seed": seed,
            "steps": steps,
            "learning_rate": learning_rate,
            "jit_compile": objective.jit_compile,  # XLA has its own draws
            **batches._asdict(),
            **settings,
        },
    )
    arrays = checkpoint and checkpoint.load()
    if arrays is not None:
        state, done = _from_arrays(arrays, state)
    feed = streams.feed(objective.data, batches, steps)
    program = train_lib.make_program(
        loss,
        update_rule,
        feed.batches,
        schedule=schedule,
        vectorized=len(params) > 1 and pays_to_vectorize(objective.view.model),
        jit_compile=objective.jit_compile,
    )
    keys = seeds.keys(seed, len(params))
    rate = tf.constant(learning_rate, params.dtype)
    segment = -(-steps // _SEGMENTS)
    bar = progress.Progress(name.replace("_", " "), steps, verbose)
    begin = done["steps"][-1] if done["steps"] else 0
    for end in sorted({*range(segment, steps, segment), steps, *collect}):
        if end <= begin:
            continue
        state, loss = train_lib.take_steps(
            program, feed, state, keys, rate, begin, end
        )
        state = tf.nest.map_structure(lambda v: v.numpy(), state)
        done["steps"].append(end)
        done["losses"].append(loss)
        if end in collect:
            done["snapshots"].append((state.params, state.fixed))
        if checkpoint is not None:
            checkpoint.save(_to_arrays(state, **done))
        bar.update(end, loss=np.mean(loss))
        begin = end
    return Trajectory(
        state.params,
        state.fixed,
        done["snapshots"],
        {
            "step": np.array(done["steps"]),
            "loss": np.stack(done["losses"], axis=1),
        },
    )


def pays_to_vectorize(model):
    """Checks whether members are faster at once, as `benchmarks` show.

    Those of networks of dense layers alone are, by half, on an accelerator or
    where TensorFlow has a single thread. Where it has more, mapped members have
    one each, while an operation for all members at once is divided among
    them, which takes longer than small ones do. Random numbers gain nothing.
    """
    layers = [
        layer
        for layer in model._flatten_layers(include_self=False)
        if layer.variables and not isinstance(layer, keras.Model)
    ]
    return all(type(v) is keras.layers.Dense for v in layers) and (
        _has_one_thread() or bool(tf.config.list_logical_devices("GPU"))
    )


def _has_one_thread():
    """Checks whether neither operations nor parts of them run in parallel."""
    threading = tf.config.threading
    settings = {
        "TF_NUM_INTEROP_THREADS": threading.get_inter_op_parallelism_threads(),
        "TF_NUM_INTRAOP_THREADS": threading.get_intra_op_parallelism_threads(),
    }
    return all(
        str(number or os.environ.get(variable) or _num_cores()) == "1"
        for variable, number in settings.items()
    )


def _num_cores():
    """Counts the cores that this process may use, as TensorFlow does."""
    if hasattr(os, "sched_getaffinity"):  # on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _to_arrays(state, steps, losses, snapshots):
    stacked = zip(*map(tf.nest.flatten, snapshots), strict=True)
    return {
        "steps": np.array(steps),
        "losses": np.array(losses),
        **files.pack(tf.nest.flatten(state), "state"),
        **files.pack(map(np.stack, stacked), "snapshots"),
    }


def _from_arrays(arrays, like):
    """Restores a state like this from the result of `_to_arrays`."""
    stacked = files.unpack(arrays, "snapshots")
    return tf.nest.pack_sequence_as(like, files.unpack(arrays, "state")), {
        "steps": arrays["steps"].tolist(),
        "losses": [*arrays["losses"]],
        "snapshots": [
            tf.nest.pack_sequence_as((like.params, like.fixed), leaves)
            for leaves in zip(*stacked, strict=True)
        ],
    }


def _open_checkpoint(directory, name, objective, start, settings):
    if directory is None:
        return None
    view = objective.view
    head = objective.head
    first = tf.nest.map_structure(lambda value: value[0], start)
    outputs, _, penalty = view.call_and_update(
        head[0], *first, key=0, index=0, training=False
    )
    nll = objective.nll_of(head, outputs)
    return resumable.open_checkpoint(
        directory,
        name,
        {
            **settings,
            "layers": [
                layer_calls.description(layer)
                for layer in view.model._flatten_layers(include_self=False)
            ],
            # Losses, seen through their values.
            "loss": resumable.rounded(nll),
            "penalty": resumable.rounded(penalty),
        },
        {
            **streams.parts(objective.data),
            "initial_weights": start,
        },
    )
