"""A Keras model as a pure function: of its weights, of data, of one seed."""

from tfp_refine.functional import array_file
from tfp_refine.functional import arrays
from tfp_refine.functional import example_loss
from tfp_refine.functional import saved_model
from tfp_refine.functional import seeds
from tfp_refine.functional.forward import Forward
from tfp_refine.functional.model_weights import ModelWeights
from tfp_refine.functional.predictor import Predictor
from tfp_refine.functional.program import Program
from tfp_refine.functional.weight_layout import WeightLayout
from tfp_refine.functional.weight_layout import variational_weights

__all__ = [
    "Forward",
    "ModelWeights",
    "Predictor",
    "Program",
    "WeightLayout",
    "array_file",
    "arrays",
    "example_loss",
    "saved_model",
    "seeds",
    "variational_weights",
]
