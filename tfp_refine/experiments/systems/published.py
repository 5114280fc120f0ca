"""Figures that papers print, as far as known, to be shown beside ours."""

from typing import NamedTuple

from tfp_refine.experiments.harness import fields

# By source and metrics: data set and network, system, figures. Systems that
# share figures differ in the prior, learned or fixed.
_FIGURES = {
    # Original units. The ELBO of boston is in other units, and left out.
    ("Havasi et al., 2021, Table 1", "nll", "elbo"): {
        "boston mlp 50": {"vi": (2.874,), "refined": (2.851,)},
        "concrete mlp 50": {
            "vi": (3.138, -3248.0),
            "refined": (3.131, -3071.0),
        },
        "energy mlp 50": {"vi": (0.749, -1297.0), "refined": (0.707, -1192.0)},
        "yacht mlp 50": {"vi": (1.749, -929.0), "refined": (1.626, -790.0)},
    },
    # 90% for training; 5 members, whose noise is an output of the network; the
    # NLL is of the Gaussian with the moments of the mixture.
    (
        "Lakshminarayanan et al., 2017, Table 1",
        "moment_matched_nll",
        "rmse",
    ): {
        "boston mlp 50": {"deep_ensemble": (2.41, 3.28)},
        "concrete mlp 50": {"deep_ensemble": (3.06, 6.03)},
        "energy mlp 50": {"deep_ensemble": (1.38, 2.09)},
        "yacht mlp 50": {"deep_ensemble": (1.18, 1.58)},
    },
    # 90% for training.
    (
        "Gal and Ghahramani, 2016, in Lakshminarayanan et al., 2017, Table 1",
        "nll",
        "rmse",
    ): {
        "boston mlp 50": {"mc_dropout": (2.46, 2.97)},
        "concrete mlp 50": {"mc_dropout": (3.04, 5.23)},
        "energy mlp 50": {"mc_dropout": (1.99, 1.66)},
        "yacht mlp 50": {"mc_dropout": (1.55, 1.11)},
    },
    ("Havasi et al., 2021, Tables 2 and 3", "nll", "accuracy"): {
        "mnist lenet5 full": {
            "vi eb": (0.032,),
            "refined refined(eb)": (0.025,),
        },
        "cifar10 lenet5 full": {
            "vi eb": (0.815, 0.723),
            "refined refined(eb)": (0.768, 0.735),
        },
        "cifar10 resnet20 hybrid": {
            "vi eb": (0.465, 0.842),
            "refined refined(eb)": (0.432, 0.858),
        },
        "cifar10 resnet20 hybrid batch_norm": {
            "refined refined(eb)": (0.423, 0.856)
        },
    },
    ("Louizos and Welling, 2017, Table 2", "accuracy"): {
        "mnist lenet5_caffe full": {"ffg": (0.991,), "mnf": (0.993,)}
    },
    ("Tomczak et al., 2021, Table 1", "nll", "accuracy"): {
        "mnist mlp 400 400": {
            "vi": (0.094, 0.9758),
            "fv": (0.052, 0.9833),
            "bd": (0.092, 0.9757),
            "cm": (0.047, 0.9866),
            "cmv": (0.049, 0.9855),
            "cv": (0.068, 0.9787),
        }
    },
}


class Published(NamedTuple):
    """A figure of a paper; names as in `registry.short`, `tables.METRICS`."""

    system: str
    metric: str
    value: float
    source: str


def find(config: fields.Bench, kind: str) -> list[Published]:
    """Finds the figures of papers for data of a kind and a network."""
    if kind not in ("regression", "images"):
        return []
    if config.augment != "none" or config.classes:
        return []
    is_mlp = config.model == "mlp"
    parts = [config.dataset, config.model]
    parts += map(str, config.hidden) if is_mlp else [config.variational]
    key = " ".join([*parts, *["batch_norm"] * config.batch_norm])
    return [
        Published(system, metric, value, source)
        for (source, *metrics), networks in _FIGURES.items()
        for systems, values in networks.get(key, {}).items()
        for system in systems.split()
        # The last metrics of some may be missing.
        for metric, value in zip(metrics, values, strict=False)
    ]
