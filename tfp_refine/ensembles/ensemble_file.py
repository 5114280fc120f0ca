"""Files of several sets of weights of one model."""

import json
import pathlib

import numpy as np

from tfp_refine import functional
from tfp_refine.functional import array_file

_FORMAT = 1
_DESCRIPTION = "description"


def write(path, kind, model, arrays):
    """Writes arrays to a file.

    Args:
        path: File; one that is there is replaced.
        kind: Name of what is written.
        model: `keras.Model`, whose shapes of weights are kept with them.
        arrays: Dict of arrays.

    Raises:
        ValueError: If it cannot be written.
    """
    about = {
        "format": _FORMAT,
        "kind": kind,
        "shapes": functional.ModelWeights(model).shapes,
    }
    array_file.save(path, {_DESCRIPTION: np.array(json.dumps(about)), **arrays})


def read(path, kind, model):
    """Reads what `write` wrote.

    Args:
        path: File.
        kind: Name of what must be in it.
        model: Built `keras.Model` of the same architecture.

    Returns:
        arrays: Dict of arrays.

    Raises:
        ValueError: If the file cannot be read, or holds something else, or
            weights of another model.
    """
    arrays = array_file.read(pathlib.Path(path))
    try:
        about = json.loads(str(arrays.pop(_DESCRIPTION)))
        found, was, shapes = (about[k] for k in ("format", "kind", "shapes"))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"'{path}' is no file of an ensemble.") from error
    if found != _FORMAT:
        raise ValueError(
            f"The ensemble in '{path}' has the format {found!r}, where "
            f"{_FORMAT} is read."
        )
    if was != kind:
        raise ValueError(f"'{path}' must hold a {kind}. It holds a {was}.")
    expected = functional.ModelWeights(model).shapes
    if shapes != expected:
        raise ValueError(
            f"The ensemble in '{path}' is of another model than "
            f"'{model.name}': its weights have shapes {shapes}, where the "
            f"model has {expected}."
        )
    return arrays
