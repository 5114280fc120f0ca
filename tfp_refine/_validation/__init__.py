"""Checks of arguments that many functions take."""

from tfp_refine._validation.image_shape import image_shape
from tfp_refine._validation.one_of import one_of
from tfp_refine._validation.positive import all_positive_integers
from tfp_refine._validation.positive import finite
from tfp_refine._validation.positive import not_negative
from tfp_refine._validation.positive import not_negative_integer
from tfp_refine._validation.positive import positive
from tfp_refine._validation.positive import positive_integer
from tfp_refine._validation.positive import positive_integers
from tfp_refine._validation.positive import proportion
from tfp_refine._validation.warn import warn

__all__ = [
    "all_positive_integers",
    "finite",
    "image_shape",
    "not_negative",
    "not_negative_integer",
    "one_of",
    "positive",
    "positive_integer",
    "positive_integers",
    "proportion",
    "warn",
]
