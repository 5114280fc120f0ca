"""Bayesian layers and posterior refinement for Keras 3 on TensorFlow."""

import sys as _sys

from tfp_refine import _requirements
from tfp_refine.version import __version__

_requirements.check_versions()

# A program reads its flags, and shows its help, before it imports the rooms
# that it needs, and TensorFlow with them.
if not (
    _sys.argv[:1] == ["-m"]
    and any(
        a == __name__ or f"{a}.".startswith(f"{__name__}.experiments.")
        for a in _sys.orig_argv
    )
):
    _requirements.check_backend()

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
    from tfp_refine import recipes
    from tfp_refine import regularizers
    from tfp_refine import sampling
    from tfp_refine.posteriors import load_posterior
    from tfp_refine.posteriors import posterior
    from tfp_refine.posteriors import predict
    from tfp_refine.posteriors import predict_proba
    from tfp_refine.posteriors import summarize
    from tfp_refine.recipes import refined_deep_ensemble
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
    "recipes",
    "refine",
    "refined_deep_ensemble",
    "regularizers",
    "sampling",
    "summarize",
]
