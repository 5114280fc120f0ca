"""Data sets: loading, splitting, standardizing, batching, corrupting."""

from tfp_refine.datasets.augmentation import crop_and_flip
from tfp_refine.datasets.batches import training_batches
from tfp_refine.datasets.class_table import CLASS_TABLES
from tfp_refine.datasets.class_table import ClassTable
from tfp_refine.datasets.class_table import load_class_table
from tfp_refine.datasets.corruptions import CORRUPTIONS
from tfp_refine.datasets.corruptions import corrupt_images
from tfp_refine.datasets.image_data import ImageData
from tfp_refine.datasets.image_data import split_classes
from tfp_refine.datasets.image_split import ImageSplit
from tfp_refine.datasets.image_split import standardize_pixels
from tfp_refine.datasets.image_split import standardized_images
from tfp_refine.datasets.images import load_images
from tfp_refine.datasets.matching import match_images
from tfp_refine.datasets.shifts import flip_pixels
from tfp_refine.datasets.shifts import rotate_images
from tfp_refine.datasets.splits import RegressionSplit
from tfp_refine.datasets.splits import train_test_split
from tfp_refine.datasets.standardizer import Standardizer
from tfp_refine.datasets.texts import TextData
from tfp_refine.datasets.texts import load_texts
from tfp_refine.datasets.uci import UCI_NAMES
from tfp_refine.datasets.uci import RegressionData
from tfp_refine.datasets.uci import load_uci

__all__ = [
    "CLASS_TABLES",
    "CORRUPTIONS",
    "ClassTable",
    "ImageData",
    "ImageSplit",
    "RegressionData",
    "RegressionSplit",
    "Standardizer",
    "TextData",
    "UCI_NAMES",
    "corrupt_images",
    "crop_and_flip",
    "flip_pixels",
    "load_class_table",
    "load_images",
    "load_texts",
    "load_uci",
    "match_images",
    "rotate_images",
    "split_classes",
    "standardize_pixels",
    "standardized_images",
    "train_test_split",
    "training_batches",
]
