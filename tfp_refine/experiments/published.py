"""Figures that papers print, as far as known, to be shown beside ours."""

from typing import NamedTuple

_HAVASI = "Havasi et al., 2021"
_LOUIZOS = "Louizos and Welling, 2017, Table 2"
_TOMCZAK = "Tomczak et al., 2021, Table 1"
_ENSEMBLES = "Lakshminarayanan et al., 2017, Table 1"
_DROPOUT = "Gal and Ghahramani, 2016, as in the former"

# Havasi et al., Table 1: MLL and ELBO, original units. Its ELBO of boston is in
# other units, and left out.
UCI = {
    "boston": {"vi": (-2.874, None), "refined_vi": (-2.851, None)},
    "concrete": {"vi": (-3.138, -3248.0), "refined_vi": (-3.131, -3071.0)},
    "energy": {"vi": (-0.749, -1297.0), "refined_vi": (-0.707, -1192.0)},
    "yacht": {"vi": (-1.749, -929.0), "refined_vi": (-1.626, -790.0)},
}
# Havasi et al., Tables 2 and 3, without augmentation, and Louizos and Welling
# (lenet5_caffe): MLL and accuracy. By data set, model, its Bayesian weights and
# batch normalization.
IMAGES = {
    ("mnist", "lenet5", "full", False): {
        "vi": (-0.032, None),
        "refined_vi": (-0.025, None),
    },
    ("mnist", "lenet5_caffe", "full", False): {
        "vi": (None, 0.991),
        "mnf": (None, 0.993),
    },
    ("cifar10", "lenet5", "full", False): {
        "vi": (-0.815, 0.723),
        "refined_vi": (-0.768, 0.735),
    },
    ("cifar10", "resnet20", "hybrid", False): {
        "vi": (-0.465, 0.842),
        "refined_vi": (-0.432, 0.858),
    },
    ("cifar10", "resnet20", "hybrid", True): {"refined_vi": (-0.423, 0.856)},
}
# Tomczak et al., Table 1, an MLP with two layers of 400 units on MNIST: MLL and
# accuracy. By prior, posterior and factor on the KL divergence.
PRIORS = {
    ("gaussian", "mean_field", 1.0): (-0.094, 0.9758),
    ("gaussian", "fixed_variance", 1.0): (-0.052, 0.9833),
    ("gaussian", "mean_field", 0.5): (-0.092, 0.9757),
    ("collapsed_mean", "mean_field", 1.0): (-0.047, 0.9866),
    ("collapsed_mean_variance", "mean_field", 1.0): (-0.049, 0.9855),
    ("collapsed_variance", "mean_field", 1.0): (-0.068, 0.9787),
}
# What these are called where systems have one name.
_SYSTEMS_OF_PRIORS = dict(
    zip(("vi", "vi_fv", "vi_bd", "cm", "cmv", "cv"), PRIORS, strict=True)
)
# Regression with one layer of 50 units and 90% for training: NLL and RMSE. The
# ensemble has 5 members, whose noise is an output of the network.
_REGRESSION = {
    "boston": {"deep_ensemble": (2.41, 3.28), "mc_dropout": (2.46, 2.97)},
    "concrete": {"deep_ensemble": (3.06, 6.03), "mc_dropout": (3.04, 5.23)},
    "energy": {"deep_ensemble": (1.38, 2.09), "mc_dropout": (1.99, 1.66)},
    "yacht": {"deep_ensemble": (1.18, 1.58), "mc_dropout": (1.55, 1.11)},
}


class Published(NamedTuple):
    """What a paper prints of a system.

    Attributes:
        system: Name of the system, as in `compare_systems`.
        metric: "nll", "moment_matched_nll", "rmse" or "accuracy".
        value: The figure.
        source: The paper.
    """

    system: str
    metric: str
    value: float
    source: str


def find(dataset, kind, model, hidden, batch_norm):
    """Finds what papers print of a data set and a network.

    Args:
        dataset: Name of the data set.
        kind: "images", "table" (with classes) or "regression".
        model: Name of the model, as in `image_models`.
        hidden: Units of the hidden layers of an MLP, a tuple.
        batch_norm: Whether a ResNet has batch normalization.

    Returns:
        found: List of `Published`.
    """
    found = []

    def add(systems, metrics, source):
        for system, values in systems.items():
            for metric, value in zip(metrics, values, strict=True):
                if value is not None:
                    sign = -1.0 if metric == "mll" else 1.0
                    name = "nll" if metric == "mll" else metric
                    found.append(Published(system, name, sign * value, source))

    if kind == "regression" and tuple(hidden) == (50,):
        bounds = {k: v[:1] for k, v in UCI.get(dataset, {}).items()}
        add(bounds, ["mll"], f"{_HAVASI}, Table 1")
        for system, nll, source in (
            # Of the Gaussian with the moments of the mixture.
            ("deep_ensemble", "moment_matched_nll", _ENSEMBLES),
            ("mc_dropout", "nll", _DROPOUT),
        ):
            values = _REGRESSION.get(dataset, {}).get(system)
            add({system: values} if values else {}, [nll, "rmse"], source)
    if kind != "images":
        return found
    if (dataset, model, tuple(hidden)) == ("mnist", "mlp", (400, 400)):
        systems = {n: PRIORS[key] for n, key in _SYSTEMS_OF_PRIORS.items()}
        add(systems, ["mll", "accuracy"], _TOMCZAK)
    variational = "hybrid" if model.startswith("resnet") else "full"
    systems = IMAGES.get((dataset, model, variational, batch_norm), {})
    is_louizos = model == "lenet5_caffe"
    if is_louizos and systems:  # whose VI is FFG here
        systems = {"ffg": systems["vi"], "mnf": systems["mnf"]}
    source = _LOUIZOS if is_louizos else f"{_HAVASI}, Tables 2 and 3"
    add(systems, ["mll", "accuracy"], source)
    return found
