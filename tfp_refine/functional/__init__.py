"""A Keras model as a pure function: of its weights, of data, of one seed."""

from tfp_refine.functional import copying
from tfp_refine.functional import data
from tfp_refine.functional import example_weights
from tfp_refine.functional import executor
from tfp_refine.functional import files
from tfp_refine.functional import large
from tfp_refine.functional import layer_calls
from tfp_refine.functional import likelihoods
from tfp_refine.functional import links
from tfp_refine.functional import members
from tfp_refine.functional import model_inputs
from tfp_refine.functional import objective
from tfp_refine.functional import progress
from tfp_refine.functional import resumable
from tfp_refine.functional import seeds
from tfp_refine.functional import sources
from tfp_refine.functional import streams
from tfp_refine.functional import tensors
from tfp_refine.functional import train
from tfp_refine.functional import trajectory
from tfp_refine.functional import update_rules
from tfp_refine.functional.gaussian_view import GaussianView
from tfp_refine.functional.last_layer_view import AllLayersView
from tfp_refine.functional.last_layer_view import LastLayerView
from tfp_refine.functional.mean_field_view import MeanFieldView
from tfp_refine.functional.mean_field_view import variational_weights
from tfp_refine.functional.objective import Objective
from tfp_refine.functional.program import Program
from tfp_refine.functional.weight_view import WeightView

__all__ = [
    "AllLayersView",
    "GaussianView",
    "LastLayerView",
    "MeanFieldView",
    "Objective",
    "Program",
    "WeightView",
    "copying",
    "data",
    "example_weights",
    "executor",
    "files",
    "large",
    "layer_calls",
    "likelihoods",
    "links",
    "members",
    "model_inputs",
    "objective",
    "progress",
    "resumable",
    "seeds",
    "sources",
    "streams",
    "tensors",
    "train",
    "trajectory",
    "update_rules",
    "variational_weights",
]
