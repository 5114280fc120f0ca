"""Initializers of the posteriors of a model, which may look at its data."""

from tfp_refine.initializers.data_free import Heuristic
from tfp_refine.initializers.data_free import Orthogonal
from tfp_refine.initializers.data_free import Uninformative
from tfp_refine.initializers.data_free import XavierNormal
from tfp_refine.initializers.iblm import IBLM
from tfp_refine.initializers.initializer import PosteriorInitializer
from tfp_refine.initializers.lookup import get
from tfp_refine.initializers.lsuv import LSUV
from tfp_refine.initializers.moped import MOPED

__all__ = [
    "Heuristic",
    "IBLM",
    "LSUV",
    "MOPED",
    "Orthogonal",
    "PosteriorInitializer",
    "Uninformative",
    "XavierNormal",
    "get",
]
