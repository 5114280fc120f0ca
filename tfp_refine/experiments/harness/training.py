"""Training in segments, each of which can be the last before a restart."""

import math
import os
import pathlib
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _storage
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.datasets import batches
from tfp_refine.experiments.harness import folder

# Most steps between two returns to Python.
_MAX_STEPS_PER_EXECUTION = 100
_BEST, _HISTORY = "best.keras", "history.json"
# Random streams: each with a number of its own below the seed.
_BATCHES, _NOISE = range(2)


class Training(NamedTuple):
    """A training that has come to its end.

    Attributes:
        model: The trained model: the given one, or one read from a file.
        history: List of a dict for each segment: `"step"`, after which it
            ended; its `"seconds"`; means over the segment of the model's
            metrics; `"val_..."` after it; and the results of `observe`.
    """

    model: keras.Model
    history: list[dict[str, float]]


def train(
    model: keras.Model,
    x: np.ndarray,
    y: np.ndarray,
    *,
    steps: int,
    batch_size: int,
    seed: int,
    directory: str | os.PathLike[str],
    segment_steps: int = 5000,
    augment: Callable[..., Any] | None = None,
    validation_data: tuple[np.ndarray, np.ndarray] | None = None,
    patience: int | None = None,
    monitor: str = "val_loss",
    observe: Callable[..., dict[str, float]] | None = None,
    tensorboard: bool = False,
    callbacks: Sequence[keras.callbacks.Callback] = (),
    name: str = "training",
    verbose: int = 1,
) -> Training:
    """Trains a compiled model for an exact number of steps, resumably.

    Batches depend on `seed` and the number of the step, noise on `seed` and the
    segment, and the model with its optimizer is saved after each segment: a run
    that was stopped ends with the same weights as one that was not.

    Args:
        model: Compiled `keras.Model`.
        x: Inputs, `[N, ...]`.
        y: Targets, `[N, ...]`.
        steps: Number of optimization steps.
        batch_size: Examples in a step.
        seed: Seed of batches and noise.
        directory: Folder of this training's files.
        segment_steps: Steps of a segment, between two saves; less if `steps`
            has no fitting divisor.
        augment: As for `datasets.training_batches`.
        validation_data: Data to evaluate the model on after each segment.
        patience: Segments without a lower `monitor` after which training stops,
            and goes back to the best model; `None` to never stop.
        monitor: Its name in the history.
        observe: Function of the model and a segment's dict of the history
            that returns more of it.
        tensorboard: Whether to log the history for TensorBoard.
        callbacks: Of `fit`, for which a segment is an epoch. They must depend
            on its number alone, as there is one `fit` for each.
        name: Name of the progress bar.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Raises:
        ValueError: If a file in the folder is damaged, or belongs to another
            model.
        FloatingPointError: If the loss is not finite after a segment.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    per_execution, per_segment = _divide(steps, segment_steps)
    segments = -(-steps // per_segment)
    model, first = _restore(model, directory, segments, x[:2])
    history = _read_history(directory / _HISTORY, first)
    model.steps_per_execution = per_execution
    model.make_train_function(force=True)
    model.make_test_function(force=True)
    bar = functional.progress.Progress(name, steps, verbose)
    for segment in range(first, segments):
        if _is_exhausted(history, patience, monitor):
            break
        functional.seeds.reseed(
            model, functional.seeds.key(seed, _NOISE, segment)
        )
        begin = segment * per_segment
        end = min(begin + per_segment, steps)
        moved = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, begin=begin: bar.update(
                begin + batch + 1
            )
        )
        started = time.monotonic()
        logs = model.fit(
            batches.training_batches(
                x,
                y,
                batch_size,
                functional.seeds.key(seed, _BATCHES),
                augment,
                first_step=begin,
            ),
            initial_epoch=segment,
            epochs=segment + 1,
            steps_per_epoch=end - begin,
            verbose=0,
            callbacks=[moved, *callbacks],
            shuffle=False,
        ).history
        entry = {
            "step": end,
            "seconds": time.monotonic() - started,
            **{name: v[-1] for name, v in logs.items()},
        }
        if not math.isfinite(entry["loss"]):
            raise FloatingPointError(
                f"The loss became {entry['loss']} between steps {begin} "
                f"and {end}. A lower learning rate may help."
            )
        if validation_data is not None:
            found = model.evaluate(
                *validation_data, batch_size, verbose=0, return_dict=True
            )
            entry |= {f"val_{name}": value for name, value in found.items()}
        if observe is not None:
            entry |= observe(model, entry)
        history.append(entry)
        if patience is not None and _best(history, monitor) == segment:
            save(model, directory / _BEST)
        folder.write_record(directory / _HISTORY, {"segments": history})
        if tensorboard:
            _log(directory / "tensorboard", entry)
        save(model, directory / _file(segment))
        (directory / _file(segment - 1)).unlink(missing_ok=True)
    bar.close()
    if patience is not None:
        model = load(directory / _BEST, model, x[:2])
    return Training(model, history)


def save(model: keras.Model, path: pathlib.Path) -> None:
    """Saves a model in a file; an interruption leaves none, or the whole."""
    _storage.write_bytes(path, functional.copying.to_bytes(model))


def _read_history(path, first):
    """Reads the history of the segments before the `first` to come."""
    history = folder.read_record(path)["segments"] if path.exists() else []
    if len(history) < first:
        raise ValueError(
            f"'{path}' is damaged or missing. Remove the folder "
            f"'{path.parent}' to train anew."
        )
    return history[:first]


def _log(directory, entry):
    """Appends an entry of the history to a log of TensorBoard."""
    with tf.summary.create_file_writer(str(directory)).as_default():
        for name, value in entry.items():
            if name != "step":
                tf.summary.scalar(name, value, step=entry["step"])


def _divide(steps, segment_steps):
    """Returns steps of an execution and, a multiple of it, of a segment."""
    # Keras runs whole executions: only a divisor keeps the count exact.
    most = min(_MAX_STEPS_PER_EXECUTION, segment_steps)
    size = max(size for size in range(1, most + 1) if steps % size == 0)
    return size, segment_steps // size * size


def _restore(model, directory, segments, examples):
    """Returns the model of the last segment, and the number of the next."""
    for segment in reversed(range(segments)):
        path = directory / _file(segment)
        if path.exists():
            return load(path, model, examples), segment + 1
    return model, 0


def load(
    path: pathlib.Path, like: keras.Model, examples: np.ndarray
) -> keras.Model:
    """Loads a model that must be `like`, which is left with its weights.

    Raises:
        ValueError: If the file is damaged, or belongs to another model.
    """
    advice = "Remove it to train anew, or choose another folder."
    try:
        model = keras.models.load_model(path)
    except Exception as error:  # of any kind, as Keras answers damage
        raise ValueError(
            f"The checkpoint '{path}' cannot be read, or not by this version "
            f"of Keras. {advice}"
        ) from error
    shapes, expected = (
        [(weight.name, tuple(weight.shape)) for weight in either.weights]
        for either in (model, like)
    )
    if shapes != expected:
        raise ValueError(
            f"The checkpoint '{path}' belongs to another model: "
            f"'{model.name}' with {len(shapes)} weights. '{like.name}' has "
            f"{len(expected)} of other shapes. {advice}"
        )
    like.set_weights(model.get_weights())
    for found, wanted in zip(
        _computed(model, examples), _computed(like, examples), strict=True
    ):
        if not np.allclose(found, wanted, rtol=1e-4, atol=1e-5):
            raise ValueError(
                f"The checkpoint '{path}' belongs to another model: with the "
                f"same weights, '{like.name}' has other outputs or another "
                f"penalty, for instance {wanted.flat[0]} in place of "
                f"{found.flat[0]}. {advice}"
            )
    return model


def _computed(model, examples):
    """Returns a model's outputs at its mean weights, and its penalty."""
    functional.seeds.reseed(model, 0)  # some penalties are estimates
    with layers.mean_weights():
        outputs = keras.tree.flatten(model(examples, training=False))
    penalty = sum(float(loss) for loss in model.losses)
    return [np.asarray(value, np.float64) for value in (*outputs, penalty)]


def _best(history, monitor):
    """Returns the number of the segment after which `monitor` was lowest."""
    values = [entry[monitor] for entry in history]
    values = [math.inf if math.isnan(value) else value for value in values]
    return values.index(min(values))


def _is_exhausted(history, patience, monitor):
    return (
        patience is not None
        and bool(history)
        and len(history) - 1 - _best(history, monitor) >= patience
    )


def _file(segment):
    return f"segment_{segment}.keras"
