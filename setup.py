"""Packaging of `tfp_refine`; tool settings are in `pyproject.toml`."""

import pathlib
import re

from setuptools import find_packages
from setuptools import setup

ROOT = pathlib.Path(__file__).resolve().parent

VERSION = re.search(
    r'^__version__ = "(.+)"$',
    (ROOT / "tfp_refine" / "version.py").read_text(encoding="utf-8"),
    re.MULTILINE,
).group(1)

README = ROOT / "README.md"
URL = "https://github.com/tfp-refine/tfp_refine"  # Notebooks link there.


def description():
    """Returns the README with absolute links, as a package index needs them."""
    raw = URL.replace("github.com", "raw.githubusercontent.com")
    text = README.read_text(encoding="utf-8") if README.exists() else ""
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{raw}/main/", text)
    return re.sub(r"(\]\()(?!https?:|#)", rf"\1{URL}/blob/main/", text)


# TensorFlow is an extra, as in TFP, so that installing the library never
# replaces a TensorFlow build that the user has chosen. The floors are the
# oldest releases that the tests have been run with.
TF = [
    "tensorflow>=2.21",
    "tf-keras",  # TFP imports it even where Keras 3 is used.
    "keras>=3.15",
    "tensorflow-probability>=0.25",
]
TFDS = ["tensorflow-datasets", "importlib_resources"]
# Imports of the corruption functions of TFDS.
CORRUPTIONS = ["scikit-image", "opencv-python-headless", "pillow", *TFDS]
PLOT = ["matplotlib"]
TENSORBOARD = ["tensorboard"]
NOTEBOOK = ["jupytext", "nbclient", "nbformat", "ipykernel", "pillow", *PLOT]
MYPY = "mypy>=2.4,<3"  # Reports differ by release.
RUFF = "ruff>=0.17,<0.18"  # Formats differ by release.
DOCS = [
    "mkdocs<2",  # Which has no plugins.
    "mkdocs-material",
    "mkdocstrings[python]",
    "nbformat",  # Notebooks become pages.
    "latex2mathml",
    RUFF,  # Breaks the lines of signatures.
]
TEST = [
    "pytest",
    "pytest-xdist",  # Tests run side by side.
    "hypothesis",  # Draws the cases of tests/properties.
    RUFF,
    MYPY,
    "pre-commit",
    *CORRUPTIONS,
    *DOCS,
    *NOTEBOOK,
    *TENSORBOARD,
]

setup(
    name="tfp_refine",
    version=VERSION,
    description=(
        "Bayesian layers and posterior refinement for Keras 3 on TensorFlow"
        " Probability"
    ),
    long_description=description(),
    long_description_content_type="text/markdown",
    author="The tfp_refine authors",
    url=URL,
    project_urls={
        "Source": URL,
        "Issues": f"{URL}/issues",
        "Changes": f"{URL}/blob/main/CHANGELOG.md",
    },
    license="Apache-2.0",
    packages=find_packages(include=["tfp_refine", "tfp_refine.*"]),
    package_data={
        "tfp_refine": ["py.typed"],  # Type checkers read the annotations.
        "tfp_refine.datasets": ["data/*"],
    },
    python_requires=">=3.11",
    install_requires=["absl-py", "numpy", "pandas", "scikit-learn", "scipy"],
    extras_require={
        "tf": TF,
        "tfds": TFDS,
        "corruptions": CORRUPTIONS,
        "plot": PLOT,
        "tensorboard": TENSORBOARD,
        "notebook": NOTEBOOK,
        "docs": DOCS,
        "test": TEST,
    },
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Mathematics",
    ],
    keywords=(
        "bayesian deep learning, variational inference, uncertainty, laplace,"
        " keras, tensorflow, probability"
    ),
)
