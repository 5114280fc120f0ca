"""Training in segments, each of which can be the last before a restart."""

import pathlib

import keras

from tfp_refine import stateless
from tfp_refine.datasets import batches

# Steps between two saves, and between two returns to Python.
_MAX_SEGMENT = 5000
_MAX_STEPS_PER_EXECUTION = 100


def train(
    model, x, y, *, steps, batch_size, seed, directory, callbacks=(), verbose=0
):
    """Trains a compiled model for an exact number of steps, resumably.

    Batches and noise of a segment depend on `seed` and the segment alone, and
    the model with its optimizer is saved after each: a run that was stopped
    ends with the same weights as one that was not.

    Args:
        model: Compiled `keras.Model`.
        x: Inputs, `[N, ...]`.
        y: Targets, `[N, ...]`.
        steps: Number of optimization steps.
        batch_size: Examples in a step.
        seed: Integer.
        directory: Folder of this training's files.
        callbacks: Keras callbacks.
        verbose: As in `keras.Model.fit`.

    Returns:
        model: The trained model: the given one, or one read from a file.
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    # Keras runs whole executions: only a divisor keeps the count exact.
    per_execution = max(
        size
        for size in range(1, _MAX_STEPS_PER_EXECUTION + 1)
        if steps % size == 0
    )
    per_segment = _MAX_SEGMENT // per_execution * per_execution
    segments = -(-steps // per_segment)
    first = 0
    for segment in reversed(range(segments)):
        if (directory / _file(segment)).exists():
            model = keras.models.load_model(directory / _file(segment))
            first = segment + 1
            break
    model.steps_per_execution = per_execution
    model.make_train_function(force=True)
    for segment in range(first, segments):
        key = stateless.seeds.key(seed, segment)
        stateless.seeds.reseed(model, key)
        model.fit(
            batches.training_batches(x, y, batch_size, key),
            initial_epoch=segment,
            epochs=segment + 1,
            steps_per_epoch=min(per_segment, steps - segment * per_segment),
            callbacks=list(callbacks),
            verbose=verbose,
            shuffle=False,
        )
        save(model, directory / _file(segment))
        (directory / _file(segment - 1)).unlink(missing_ok=True)
    return model


def save(model, path):
    """Saves a model so that the file is never seen half-written."""
    temporary = path.with_name(f"tmp_{path.name}")
    model.save(temporary)
    temporary.replace(path)


def _file(segment):
    return f"segment_{segment}.keras"
