"""Initializers of the posteriors of a model, which may look at its data."""

from tfp_refine.initializers.heuristic import Heuristic
from tfp_refine.initializers.iblm import IBLM
from tfp_refine.initializers.initializer import PosteriorInitializer
from tfp_refine.initializers.lookup import get
from tfp_refine.initializers.lsuv import LSUV
from tfp_refine.initializers.moped import MOPED
from tfp_refine.initializers.orthogonal import Orthogonal
from tfp_refine.initializers.uninformative import Uninformative
from tfp_refine.initializers.xavier_normal import XavierNormal

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
