"""Checkpoints that long work can continue from."""

import json
import tempfile

import keras
import numpy as np

from tfp_refine import _storage
from tfp_refine import _validation
from tfp_refine.functional import files
from tfp_refine.functional import seeds
from tfp_refine.functional import streams


class _Absent:
    def __repr__(self):
        return "nothing"


_ABSENT = _Absent()


class Checkpoint:
    """Saves arrays so that an interruption leaves the old file or the new.

    The file is `name` in a folder, made if need be. `depends_on` is a dict of
    values that must be equal for it to be usable. While it exists, other
    processes cannot open the checkpoint.
    """

    def __init__(self, directory, name, depends_on):
        directory = check_folder(directory)
        self._path = directory / f"{name}.ckpt"
        self._lock = _storage.lock(
            directory, name, f".{self._path.name}", "`checkpoint_dir`"
        )
        self._name = name
        self._depends_on = json.loads(
            json.dumps(depends_on, default=lambda number: number.item())
        )

    def save(self, arrays):
        """Replaces the file by one with these arrays."""
        files.write(self._path, self._name, self._depends_on, arrays)

    def load(self):
        """Reads the arrays, a dict, or `None` if there is no file yet."""
        if not self._path.exists():
            return None
        try:
            manifest, arrays, _ = files.read(self._path)
        except ValueError as error:
            raise ValueError(
                f"The checkpoint {error}. Remove it to start anew."
            ) from error
        saved, now = manifest["description"], self._depends_on
        differences = [
            f"{name}: {saved.get(name, _ABSENT)!r} there, "
            f"{now.get(name, _ABSENT)!r} now"
            for name in {**now, **saved}
            if saved.get(name, _ABSENT) != now.get(name, _ABSENT)
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
    """Opens the `Checkpoint` of some work; `None` without a folder.

    `settings`, a dict for JSON, though with numbers of NumPy, and `arrays`, a
    dict of arrays (or nested) and of `Stream`s, which are pinned, are all that
    decides the result.
    """
    if directory is None:
        return None
    digests = {
        key: value.pin()
        if isinstance(value, streams.Stream)
        else files.digest(keras.tree.flatten(value))
        for key, value in arrays.items()
    }
    return Checkpoint(directory, name, {**settings, **digests})


def rounded(values):
    """Describes numbers, rounded, as machines may differ in the last digits."""
    return [f"{value:.3e}" for value in np.ravel(values)]


def check_folder(directory):
    """Creates a folder if need be, and checks that it can be written."""
    directory = _validation.path("checkpoint_dir", directory)
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
    """Returns the seed, a fresh one for `None`, which a folder rules out."""
    if checkpoint_dir is not None and seed is None:
        raise ValueError(
            "`checkpoint_dir` needs a `seed`, so that work can be continued. "
            "Received: seed=None"
        )
    return seeds.check(seed)
