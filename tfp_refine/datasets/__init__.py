"""Data sets: loading, splitting, standardizing, batching."""

from tfp_refine.datasets.batches import training_batches
from tfp_refine.datasets.splits import RegressionSplit
from tfp_refine.datasets.splits import train_test_split
from tfp_refine.datasets.standardizer import Standardizer
from tfp_refine.datasets.uci import UCI_NAMES
from tfp_refine.datasets.uci import RegressionData
from tfp_refine.datasets.uci import load_uci

__all__ = [
    "RegressionData",
    "RegressionSplit",
    "Standardizer",
    "UCI_NAMES",
    "load_uci",
    "train_test_split",
    "training_batches",
]
