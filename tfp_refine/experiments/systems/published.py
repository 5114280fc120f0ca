"""Figures that papers print, as far as known, to be shown beside ours."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from tfp_refine.experiments.harness import fields

_HAVASI = "Havasi et al., 2021"
_LOUIZOS = "Louizos and Welling, 2017, Table 2"
_TOMCZAK = "Tomczak et al., 2021, Table 1"
_ENSEMBLES = "Lakshminarayanan et al., 2017, Table 1"
_DROPOUT = "Gal and Ghahramani, 2016, in Lakshminarayanan et al., 2017, Table 1"

# Regression with one layer of 50 units. Havasi et al., Table 1: NLL and ELBO,
# original units. Its ELBO of boston is in other units, and left out.
_UCI = {
    "boston": {"vi": (2.874,), "refined": (2.851,)},
    "concrete": {"vi": (3.138, -3248.0), "refined": (3.131, -3071.0)},
    "energy": {"vi": (0.749, -1297.0), "refined": (0.707, -1192.0)},
    "yacht": {"vi": (1.749, -929.0), "refined": (1.626, -790.0)},
}
# With 90% for training: NLL and RMSE. The ensemble has 5 members, whose noise
# is an output of the network; its NLL is of the Gaussian with the moments of
# the mixture.
_OF_ENSEMBLES = {
    "boston": (2.41, 3.28),
    "concrete": (3.06, 6.03),
    "energy": (1.38, 2.09),
    "yacht": (1.18, 1.58),
}
_OF_DROPOUT = {
    "boston": (2.46, 2.97),
    "concrete": (3.04, 5.23),
    "energy": (1.99, 1.66),
    "yacht": (1.55, 1.11),
}
# Havasi et al., Tables 2 and 3, without augmentation: NLL and accuracy of VI
# and of its refinement. By data set, model, its Bayesian weights and batch
# normalization.
_IMAGES = {
    ("mnist", "lenet5", "full", False): {"vi": (0.032,), "refined": (0.025,)},
    ("cifar10", "lenet5", "full", False): {
        "vi": (0.815, 0.723),
        "refined": (0.768, 0.735),
    },
    ("cifar10", "resnet20", "hybrid", False): {
        "vi": (0.465, 0.842),
        "refined": (0.432, 0.858),
    },
    ("cifar10", "resnet20", "hybrid", True): {"refined": (0.423, 0.856)},
}
# Systems here that are these: the prior is learned, or fixed.
_SAME = {"vi": ("vi", "eb"), "refined": ("refined", "refined(eb)")}
# Accuracy of the network lenet5_caffe on MNIST.
_LENET_CAFFE = {"ffg": (0.991,), "mnf": (0.993,)}
# NLL and accuracy of an MLP with two layers of 400 units on MNIST.
_COLLAPSED = {
    "vi": (0.094, 0.9758),
    "fv": (0.052, 0.9833),
    "bd": (0.092, 0.9757),
    "cm": (0.047, 0.9866),
    "cmv": (0.049, 0.9855),
    "cv": (0.068, 0.9787),
}


class Published(NamedTuple):
    """A figure that a paper prints of a system.

    Attributes:
        system: Short name of the system, as `registry.short` returns it.
        metric: Name of the metric, as in `tables.METRICS`.
        value: The figure.
        source: The paper.
    """

    system: str
    metric: str
    value: float
    source: str


def find(config: fields.Bench, kind: str) -> list[Published]:
    """Finds what papers print of a data set and a network.

    Args:
        config: Configuration, filled.
        kind: Kind of the data, one of `fields.KINDS`.

    Returns:
        found: List of `Published`; empty if no paper has them.
    """
    name, model, hidden = config.dataset, config.model, config.hidden
    if kind == "regression":
        is_usual = model == "mlp" and hidden == (50,)
        return _of_regression(name) if is_usual else []
    if kind != "images" or config.augment != "none" or config.classes:
        return []
    found = []
    if (name, model, hidden) == ("mnist", "mlp", (400, 400)):
        found += _listed(_COLLAPSED, ("nll", "accuracy"), _TOMCZAK)
    if (name, model) == ("mnist", "lenet5_caffe"):
        found += _listed(_LENET_CAFFE, ("accuracy",), _LOUIZOS)
    key = (name, model, config.variational, config.batch_norm)
    systems = {
        same: values
        for system, values in _IMAGES.get(key, {}).items()
        for same in _SAME[system]
    }
    source = f"{_HAVASI}, Tables 2 and 3"
    return found + _listed(systems, ("nll", "accuracy"), source)


def _of_regression(name):
    systems = _UCI.get(name, {})
    found = _listed(systems, ("nll", "elbo"), f"{_HAVASI}, Table 1")
    for system, of, nll, source in (
        ("deep_ensemble", _OF_ENSEMBLES, "moment_matched_nll", _ENSEMBLES),
        ("mc_dropout", _OF_DROPOUT, "nll", _DROPOUT),
    ):
        if name in of:
            found += _listed({system: of[name]}, (nll, "rmse"), source)
    return found


def _listed(
    systems: Mapping[str, Sequence[float]], metrics: Sequence[str], source: str
) -> list[Published]:
    """Returns figures of systems; the last metrics of some may be missing."""
    return [
        Published(system, metric, value, source)
        for system, values in systems.items()
        for metric, value in zip(metrics, values, strict=False)
    ]
