"""Checks that requirements are installed, in versions that work."""

import importlib.metadata
import importlib.util
import os
import re

from tfp_refine import version

_PACKAGES = ("tensorflow", "keras", "tensorflow_probability", "tf_keras")


def check_versions():
    """Raises an `ImportError` if a package is missing, or too old."""
    missing = [
        name for name in _PACKAGES if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise ImportError(
            f"tfp_refine needs {', '.join(missing)}, which its extra `tf` "
            "installs: pip install 'tfp_refine[tf]'"
        )
    for name, (oldest, _) in version.TESTED.items():
        try:
            installed = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # Builds of TensorFlow may have other names.
        if _minor(installed) < _minor(oldest):
            raise ImportError(
                f"tfp_refine needs {name} {oldest} or newer; it is tested with "
                f"{_tested()}. Upgrade it: pip install --upgrade "
                f"'tfp_refine[tf]'. Received: {name} {installed}"
            )


def check_backend():
    """Raises an `ImportError` unless Keras computes with TensorFlow."""
    # Keras, too, would fail to import a backend that is not installed.
    _check_backend(os.environ.get("KERAS_BACKEND", "tensorflow"))
    import keras

    _check_backend(keras.backend.backend())


def _check_backend(name):
    if name != "tensorflow":
        raise ImportError(
            "tfp_refine needs Keras on TensorFlow: set the environment "
            "variable KERAS_BACKEND=tensorflow before Keras is imported. It is "
            f"tested with {_tested()}. Received: backend '{name}'"
        )


def _tested():
    return ", ".join(
        f"{name} {' to '.join(sorted({*ends}, key=_minor))}"
        for name, ends in version.TESTED.items()
    )


def _minor(text):
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
