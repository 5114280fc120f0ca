"""Draws of a model's outputs, as a SavedModel."""

import os
import pathlib

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine.functional import predictor
from tfp_refine.functional import seeds


def input_specs(model):
    """Returns what a model takes, `tf.TensorSpec` (or nested).

    Args:
        model: `keras.Model`.

    Returns:
        specs: Nested as the inputs, or `None` if the model does not tell.
    """
    sequential = isinstance(model, keras.Sequential)
    try:
        inputs = model.inputs[0] if sequential else model.input
    except AttributeError:
        return None
    return keras.tree.map_structure(
        lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), inputs
    )


def export(path, forward, specs, params, others, num_samples, seed):
    """Writes a SavedModel that draws outputs of a model.

    Its endpoint `serve` (also `serving_default`) maps inputs `[B, ...]` (or
    nested) to draws `[S, B, ...]` (or nested), as `Predictor`.

    Args:
        path: Folder.
        forward: `Forward` of the model.
        specs: `tf.TensorSpec` of the inputs (or nested).
        params: As for `Predictor`.
        others: As for `Predictor`.
        num_samples: `S`, number of draws.
        seed: Integer for the same draws in each call, those of a `Predictor`;
            fresh ones in each call if `None`.

    Raises:
        ValueError: If an argument is invalid, or the folder cannot be written.
    """
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"`path` must be a folder. Received: path={path!r}")
    num_samples = _validation.positive_integer("num_samples", num_samples)
    keys = None
    if seed is not None:
        seed = seeds.check(seed)
        keys = [seeds.key(seed, sample) for sample in range(num_samples)]
    params = () if params is None else tf.Variable(params, trainable=False)
    others = [tf.Variable(value, trainable=False) for value in others]

    def serve(x):
        return predictor.draw(
            forward,
            x,
            tf.nest.map_structure(tf.convert_to_tensor, params),
            [tf.convert_to_tensor(value) for value in others],
            seeds.fresh_keys(num_samples)
            if keys is None
            else tf.constant(keys, tf.int64),
            tf.constant(0, tf.int64),
        )

    archive = keras.export.ExportArchive()
    for layer in forward.preprocessing:  # their tables are no variables
        archive.track(layer)
    archive.add_endpoint("serve", serve, input_signature=[specs])
    try:
        pathlib.Path(path).mkdir(parents=True, exist_ok=True)
        archive.write_out(str(path), verbose=False)
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            "`path` must be a folder that can be written. "
            f"Received: path={str(path)!r} ({error})"
        ) from error
