"""Checkpoints that long work can continue from."""

import json
import pathlib
import tempfile

import keras
import numpy as np

from tfp_refine.functional import files
from tfp_refine.functional import seeds


class Checkpoint:
    """Saves arrays so that an interruption leaves the old file or the new.

    Args:
        directory: Folder of the file; created if it does not exist.
        name: What is saved, such as "refinement"; the name of the file.
        depends_on: Dict of what must be equal for the file to be usable.

    Raises:
        ValueError: If the folder cannot be written.
    """

    def __init__(self, directory, name, depends_on):
        self._path = check_folder(directory) / f"{name}.ckpt"
        self._name = name
        self._depends_on = json.loads(json.dumps(depends_on))

    def save(self, arrays):
        """Replaces the file by one with these arrays."""
        files.write(self._path, self._name, self._depends_on, arrays)

    def load(self):
        """Reads the arrays.

        Returns:
            arrays: Dict of arrays, or `None` if there is no file yet.

        Raises:
            ValueError: If the file belongs to different work, or is damaged.
        """
        if not self._path.exists():
            return None
        try:
            manifest, arrays, _ = files.read(self._path)
        except ValueError as error:
            raise ValueError(
                f"The checkpoint {error}. Remove it to start anew."
            ) from error
        saved = manifest["description"]
        differences = [
            f"{name}: {saved.get(name)!r} there, {value!r} now"
            for name, value in self._depends_on.items()
            if saved.get(name) != value
        ]
        if differences:
            raise ValueError(
                f"The checkpoint '{self._path}' belongs to a different "
                f"{self._name.replace('_', ' ')}; remove it, or choose another "
                f"`checkpoint_dir`. They differ in {'; '.join(differences)}. "
                "(A tf.data.Dataset must yield its examples in the same order "
                "each time.)"
            )
        return arrays


def open_checkpoint(directory, name, settings, arrays):
    """Opens the checkpoint of some work.

    Args:
        directory: Folder, or `None` for none.
        name: Of the work.
        settings: Dict that JSON can hold, of all that decides the result.
        arrays: Dict of arrays, or nested structures of them, likewise.

    Returns:
        checkpoint: `Checkpoint`, or `None`.
    """
    if directory is None:
        return None
    digests = {
        key: files.digest(keras.tree.flatten(value))
        for key, value in arrays.items()
    }
    return Checkpoint(directory, name, {**settings, **digests})


def rounded(values):
    """Describes numbers, rounded, as machines may differ in the last digits.

    Args:
        values: Array.

    Returns:
        texts: List.
    """
    return [f"{value:.3e}" for value in np.ravel(values)]


def check_folder(directory):
    """Creates a folder if need be, and checks that it can be written.

    Args:
        directory: The folder.

    Returns:
        directory: As a `pathlib.Path`.

    Raises:
        ValueError: If it cannot be created or written.
    """
    directory = pathlib.Path(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return directory
    except OSError as error:
        raise ValueError(
            "`checkpoint_dir` must be a folder that can be written. "
            f"Received: checkpoint_dir={str(directory)!r} ({error})"
        ) from error


def check_seed(seed, checkpoint_dir):
    """Returns the seed, or a fresh one.

    Args:
        seed: Integer or `None`.
        checkpoint_dir: Folder or `None`.

    Returns:
        seed: Integer.

    Raises:
        ValueError: If it is not a seed, or `None` with a folder.
    """
    if checkpoint_dir is not None and seed is None:
        raise ValueError(
            "`checkpoint_dir` needs a `seed`, so that work can be continued. "
            "Received: seed=None"
        )
    return seeds.check(seed)
