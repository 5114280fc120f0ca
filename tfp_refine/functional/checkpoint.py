"""A file that long work can continue from."""

import hashlib
import json
import pathlib
import tempfile

import keras
import numpy as np

from tfp_refine.functional import array_file
from tfp_refine.functional import seeds

_FINGERPRINT = "fingerprint"


class Checkpoint:
    """Saves arrays so that an interruption leaves the old file or the new.

    Args:
        directory: Folder of the file; created if it does not exist.
        name: What is saved, such as "refinement"; the name of the file.
        fingerprint: Dict of what must be equal for the file to be usable.

    Raises:
        ValueError: If the folder cannot be written.
    """

    def __init__(self, directory, name, fingerprint):
        self._path = check_folder(directory) / f"{name}.npz"
        self._name = name.replace("_", " ")
        self._fingerprint = fingerprint

    def save(self, arrays):
        """Replaces the file by one with these arrays."""
        array_file.write(
            self._path,
            {**arrays, _FINGERPRINT: np.array(json.dumps(self._fingerprint))},
        )

    def load(self):
        """Reads the arrays.

        Returns:
            arrays: Dict of arrays, or `None` if there is no file yet.

        Raises:
            ValueError: If the file is of other work, or damaged.
        """
        if not self._path.exists():
            return None
        try:
            arrays = array_file.read(self._path)
        except ValueError as error:
            raise ValueError(
                f"The checkpoint {error}. Remove it to start anew."
            ) from error
        saved = json.loads(str(arrays.pop(_FINGERPRINT, "{}")))
        differences = [
            f"{name}: {saved.get(name)!r} there, {value!r} now"
            for name, value in self._fingerprint.items()
            if saved.get(name) != value
        ]
        if differences:
            raise ValueError(
                f"The checkpoint '{self._path}' is of another {self._name}; "
                "remove it, or choose another `checkpoint_dir`. They differ "
                f"in {'; '.join(differences)}. (A tf.data.Dataset must yield "
                "its examples in the same order each time.)"
            )
        return arrays


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
        ValueError: If it is no seed, or `None` with a folder.
    """
    if checkpoint_dir is not None and seed is None:
        raise ValueError(
            "A `checkpoint_dir` needs a `seed`, so that it is known what it "
            "holds. Received: seed=None"
        )
    return seeds.check(seed)


def fingerprint(settings, arrays):
    """Describes work: its settings, and digests of its arrays.

    Args:
        settings: Dict that JSON can hold.
        arrays: Dict of arrays, or nested structures of them.

    Returns:
        fingerprint: Dict that JSON can hold.
    """
    described = json.loads(json.dumps(settings))
    for name, value in arrays.items():
        digest = hashlib.sha256()
        for leaf in keras.tree.flatten(value):
            leaf = np.ascontiguousarray(leaf)
            digest.update(f"{leaf.shape}{leaf.dtype}".encode())
            digest.update(leaf.data)
        described[name] = digest.hexdigest()[:16]
    return described
