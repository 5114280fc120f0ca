"""Checks of arguments that many functions take, and arguments as text."""

from tfp_refine._validation.array import array
from tfp_refine._validation.array import weights
from tfp_refine._validation.image_shape import image_shape
from tfp_refine._validation.kind import holds
from tfp_refine._validation.kind import instance
from tfp_refine._validation.kind import path
from tfp_refine._validation.of_keras import check_dtype
from tfp_refine._validation.of_keras import check_name
from tfp_refine._validation.of_keras import check_reduction
from tfp_refine._validation.one_of import one_of
from tfp_refine._validation.positive import all_positive_integers
from tfp_refine._validation.positive import finite
from tfp_refine._validation.positive import not_negative
from tfp_refine._validation.positive import not_negative_integer
from tfp_refine._validation.positive import positive
from tfp_refine._validation.positive import positive_integer
from tfp_refine._validation.positive import positive_integers
from tfp_refine._validation.positive import proportion
from tfp_refine._validation.positive import scale
from tfp_refine._validation.positive import unit_interval
from tfp_refine._validation.shown import Shown
from tfp_refine._validation.shown import parameters
from tfp_refine._validation.shown import shown_call
from tfp_refine._validation.shown import shown_value
from tfp_refine._validation.warn import warn

__all__ = [
    "Shown",
    "all_positive_integers",
    "array",
    "check_dtype",
    "check_name",
    "check_reduction",
    "finite",
    "holds",
    "image_shape",
    "instance",
    "not_negative",
    "not_negative_integer",
    "one_of",
    "parameters",
    "path",
    "positive",
    "positive_integer",
    "positive_integers",
    "proportion",
    "scale",
    "shown_call",
    "shown_value",
    "unit_interval",
    "warn",
    "weights",
]
