"""Bayesian layers and posterior refinement for Keras 3 on TensorFlow."""

import importlib.metadata as _metadata
import importlib.util as _importlib_util
import re as _re
import sys as _sys

from tfp_refine.version import TESTED as _TESTED
from tfp_refine.version import __version__

if _missing := [
    name
    for name in ("tensorflow", "keras", "tensorflow_probability", "tf_keras")
    if _importlib_util.find_spec(name) is None
]:
    raise ImportError(
        f"tfp_refine needs {', '.join(_missing)}, which its extra `tf` "
        "installs: pip install 'tfp_refine[tf]'"
    )


def _minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, _re.findall(r"\d+", version)[:2]))


_tested = ", ".join(
    f"{name} {' to '.join(sorted({*ends}, key=_minor))}"
    for name, ends in _TESTED.items()
)
for _name, (_oldest, _) in _TESTED.items():
    try:
        _installed = _metadata.version(_name)
    except _metadata.PackageNotFoundError:
        continue  # Builds of TensorFlow may have other names.
    if _minor(_installed) < _minor(_oldest):
        raise ImportError(
            f"tfp_refine needs {_name} {_oldest} or newer; it is tested with "
            f"{_tested}. Upgrade it: pip install --upgrade 'tfp_refine[tf]'. "
            f"Received: {_name} {_installed}"
        )

# A program reads its flags, and shows its help, before it imports the rooms
# that it needs, and TensorFlow with them.
if not (
    _sys.argv[:1] == ["-m"]
    and any(
        a == __name__ or a.startswith(f"{__name__}.experiments.")
        for a in _sys.orig_argv
    )
):
    import keras as _keras

    if _keras.backend.backend() != "tensorflow":
        raise ImportError(
            "tfp_refine needs Keras on TensorFlow: set the environment "
            "variable KERAS_BACKEND=tensorflow before Keras is imported. It is "
            f"tested with {_tested}. "
            f"Received: backend '{_keras.backend.backend()}'"
        )

    # All rooms, as a file of a model is loaded only where its layers are
    # registered.
    from tfp_refine import bijectors
    from tfp_refine import callbacks
    from tfp_refine import datasets
    from tfp_refine import distribute
    from tfp_refine import ensembles
    from tfp_refine import initializers
    from tfp_refine import laplace
    from tfp_refine import layers
    from tfp_refine import losses
    from tfp_refine import metrics
    from tfp_refine import models
    from tfp_refine import optimizers
    from tfp_refine import posteriors
    from tfp_refine import regularizers
    from tfp_refine import sampling
    from tfp_refine.posteriors import load_posterior
    from tfp_refine.posteriors import posterior
    from tfp_refine.posteriors import predict
    from tfp_refine.posteriors import predict_proba
    from tfp_refine.posteriors import summarize
    from tfp_refine.refinement import RefinedEnsemble
    from tfp_refine.refinement import RefinementCallback
    from tfp_refine.refinement import elbo
    from tfp_refine.refinement import refine

__all__ = [
    "RefinedEnsemble",
    "RefinementCallback",
    "__version__",
    "bijectors",
    "callbacks",
    "datasets",
    "distribute",
    "elbo",
    "ensembles",
    "initializers",
    "laplace",
    "layers",
    "load_posterior",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "posterior",
    "posteriors",
    "predict",
    "predict_proba",
    "refine",
    "regularizers",
    "sampling",
    "summarize",
]
