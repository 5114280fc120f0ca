"""The systems by name: how each is fitted, and when it cannot be.

A system is a network (`vi`), a modifier of a network (`cm`), or a method that
starts from another system (`refined`). They combine: `refined(cm(iblm))`.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.systems import baselines
from tfp_refine.experiments.systems import expression as expression_lib
from tfp_refine.experiments.systems import laplace
from tfp_refine.experiments.systems import networks
from tfp_refine.experiments.systems import variational

Expression = expression_lib.Expression


@dataclasses.dataclass(frozen=True, kw_only=True)
class System:
    """A system of a paper.

    Attributes:
        title: Its name in tables; of a method, a format for the title of what
            it starts from.
        where: Names in the package that make it.
        paper: Where it comes from.
        fields: Fields that decide its fit, besides those of what it starts
            from and those that decide all fits.
        argument: Name of what it starts from by default; `None` of a network.
        starts: Names of methods that it may start from, besides networks.
        changes: Of a modifier: attributes of `networks.Network` that it sets.
        network: Of a network: `networks.Network`.
        fit: Of a method: function of a `repetition.Fit` and, unless it trains
            the network itself, of the `fitted.Fitted` that it starts from.
        fits_start: Whether `fit` takes the latter.
        why_not: Function of a `repetition.Fit` that returns why it cannot be
            applied, or `None`.
    """

    title: str
    where: str
    paper: str
    fields: tuple[str, ...] = ()
    argument: str | None = None
    starts: tuple[str, ...] = ()
    families: tuple[str, ...] = ("vi",)
    changes: dict[str, Any] | None = None
    network: networks.Network | None = None
    fit: Callable | None = None
    fits_start: bool = True
    why_not: Callable | None = None


_BLUNDELL = "Blundell et al., 2015"
_GAL = "Gal and Ghahramani, 2016"
_GAL_2017 = "Gal et al., 2017"
_HAVASI = "Havasi et al., 2021"
_KRISTIADI = "Kristiadi et al., 2022"
_LAKSHMINARAYANAN = "Lakshminarayanan et al., 2017"
_LOUIZOS = "Louizos and Welling, 2017"
_ROSSI = "Rossi et al., 2019"
_TOMCZAK = "Tomczak et al., 2021"

_PRIOR = ("prior_scale",)
_VI = ("conv_estimator", "dense_estimator", "initial_scale", "kl_scale")
_MULTIPLICATIVE = (
    "inference_estimator",
    "kl_scale",
    "log_var_init",
    "max_std",
    "mnf_auxiliary_length",
    "mnf_auxiliary_units",
)
_REFINED = (
    "num_eval_samples",
    "num_members",
    "refine_deterministic",
    "refine_learning_rate",
    "refine_learning_rate_decay",
    "refine_steps",
    "variance_ratios",
)
_SWAG = ("sgd_learning_rate", "swag_rank", "swag_snapshots")
_FLOWS = (
    "flow_base",
    "flow_batch_size",
    "flow_epochs",
    "flow_kind",
    "flow_learning_rate",
    "flow_length",
    "flow_samples",
    "flow_space",
)
_NUTS = ("nuts_chains", "nuts_max_tree_depth", "nuts_samples", "nuts_warmup")
_ANY_VARIATIONAL = ("vi", "ffg", "mnf")


def _network(family, title, where, paper, *fields):
    return System(
        title=title,
        where=where,
        paper=paper,
        fields=fields,
        network=networks.Network(family),
    )


def _modifier(title, where, paper, *fields, argument="vi", families=(), **to):
    return System(
        title=title,
        where=where,
        paper=paper,
        fields=fields,
        argument=argument,
        families=families or ("vi",),
        changes=to,
    )


def _prior(name, title, where, paper, *fields):
    return _modifier(
        title, where, paper, *fields, families=_ANY_VARIATIONAL, prior=name
    )


def _initializer(name, title, paper):
    return _modifier(
        f"from {title}",
        f"initializers.{title.replace('I-BLM', 'IBLM')}",
        paper,
        initializer=name,
    )


SYSTEMS = {
    # Networks.
    "map": _network(
        "map", "MAP", "keras.regularizers.L2", "textbooks", *_PRIOR
    ),
    "vi": _network(
        "vi", "VI", "regularizers.GaussianKL", _BLUNDELL, *_VI, *_PRIOR
    ),
    "ffg": _network(
        "ffg", "FFG", "layers.DenseMNF", _LOUIZOS, *_MULTIPLICATIVE, *_PRIOR
    ),
    "mnf": _network(
        "mnf",
        "MNF",
        "layers.DenseMNF",
        _LOUIZOS,
        "mnf_flow_length",
        "mnf_flow_units",
        *_MULTIPLICATIVE,
        *_PRIOR,
    ),
    # Dropout.
    "mc_dropout": _modifier(
        "MC dropout",
        "models.to_mc_dropout",
        _GAL,
        "dropout",
        argument="map",
        families=("map",),
        dropout="mc_dropout",
    ),
    "concrete_dropout": _modifier(
        "concrete dropout",
        "models.to_mc_dropout",
        _GAL_2017,
        "dropout",
        argument="map",
        families=("map",),
        dropout="concrete_dropout",
    ),
    # Priors.
    "eb": _prior(
        "eb",
        "empirical Bayes (EB)",
        "regularizers.EmpiricalBayesKL",
        _HAVASI,
        "learn_prior_mean",
    ),
    "cm": _prior(
        "cm",
        "collapsed means (CM)",
        "regularizers.CollapsedMeanKL",
        _TOMCZAK,
        "alpha_reg",
        "cm_prior_scale",
        "learn_alpha_reg",
    ),
    "cv": _prior(
        "cv",
        "collapsed variances (CV)",
        "regularizers.CollapsedVarianceKL",
        _TOMCZAK,
        "precision_rate",
        "precision_shape",
    ),
    "cmv": _prior(
        "cmv",
        "collapsed, both (CMV)",
        "regularizers.CollapsedMeanVarianceKL",
        _TOMCZAK,
        "alpha_reg",
        "precision_rate",
        "precision_shape",
    ),
    "fflu": _prior(
        "fflu",
        "log-uniform prior (FFLU)",
        "regularizers.LogUniformKL",
        _LOUIZOS,
    ),
    "scale_mixture": _modifier(
        "scale mixture prior",
        "regularizers.ScaleMixtureKL",
        _BLUNDELL,
        prior="scale_mixture",
        estimator="reparameterization",
    ),
    # Posterior families and other changes of VI.
    "fv": _modifier(
        "fixed variance (FV)",
        "layers.FixedVariancePosterior",
        _TOMCZAK,
        posterior="fv",
    ),
    "k_tied": _modifier(
        "k-tied",
        "layers.KTiedPosterior",
        "Swiatkowski et al., 2020",
        "posterior_rank",
        posterior="k_tied",
    ),
    "low_rank": _modifier(
        "low rank",
        "layers.LowRankPosterior",
        _TOMCZAK,
        "posterior_rank",
        posterior="low_rank",
    ),
    "bd": _modifier(
        "half the KL (BD)", "layers.set_kl_scale", _TOMCZAK, kl_scale=0.5
    ),
    # As the code of Kristiadi et al. has it.
    "flipout": _modifier(
        "Flipout, 0.1 KL",
        "layers.DenseFlipout",
        _KRISTIADI,
        estimator="flipout",
        kl_scale=0.1,
    ),
    # Initializers of VI.
    "uninformative": _initializer("uninformative", "Uninformative", _ROSSI),
    "heuristic": _initializer("heuristic", "Heuristic", _ROSSI),
    "xavier_normal": _initializer("xavier_normal", "XavierNormal", _ROSSI),
    "orthogonal": _initializer("orthogonal", "Orthogonal", _ROSSI),
    "lsuv": _initializer("lsuv", "LSUV", _ROSSI),
    "iblm": _initializer("iblm", "I-BLM", _ROSSI),
    "iblm_paper": _modifier(
        "from I-BLM, as in the paper",
        "initializers.IBLM",
        _ROSSI,
        initializer="iblm_paper",
    ),
    # Methods that start from a variational network.
    "longer": System(
        title="{}, as long as refined",
        where="refine",
        paper=_HAVASI,
        fields=("num_members", "refine_steps", "variance_ratios"),
        argument="vi",
        families=_ANY_VARIATIONAL,
        fit=variational.train_longer,
    ),
    "refined": System(
        title="refined {}",
        where="refine",
        paper=_HAVASI,
        fields=_REFINED,
        argument="vi",
        fit=variational.refine,
        why_not=variational.why_not_refinable,
    ),
    # Methods that start from a network of point estimates.
    "temperature": System(
        title="{}, temperature",
        where="ensembles.TemperatureScaling",
        paper="Guo et al., 2017",
        argument="map",
        families=("map",),
        fit=baselines.scale_temperature,
        why_not=baselines.why_no_temperature,
    ),
    "deep_ensemble": System(
        title="deep ensemble",
        where="ensembles.deep_ensemble",
        paper=_LAKSHMINARAYANAN,
        fields=("num_members",),
        argument="map",
        families=("map",),
        fit=baselines.deep_ensemble,
        fits_start=False,
    ),
    "adversarial_ensemble": System(
        title="deep ensemble, adversarial",
        where="ensembles.deep_ensemble",
        paper=_LAKSHMINARAYANAN,
        fields=("adversarial_epsilon", "num_members"),
        argument="map",
        families=("map",),
        fit=baselines.adversarial_ensemble,
        fits_start=False,
    ),
    "swag": System(
        title="SWAG",
        where="ensembles.swag",
        paper="Maddox et al., 2019",
        fields=_SWAG,
        argument="map",
        families=("map",),
        fit=baselines.swag,
    ),
    "multi_swag": System(
        title="MultiSWAG",
        where="ensembles.swag",
        paper="Wilson and Izmailov, 2020",
        fields=_SWAG,
        argument="deep_ensemble",
        starts=("deep_ensemble", "adversarial_ensemble"),
        families=(),
        fit=baselines.swag,
    ),
    "csghmc": System(
        title="cyclical SGHMC",
        where="sampling.cyclical_sghmc",
        paper="Zhang et al., 2020",
        fields=(
            "cycles",
            "samples_per_cycle",
            "sgd_learning_rate",
            "temperature",
        ),
        argument="map",
        families=("map",),
        fit=baselines.cyclical_sghmc,
    ),
    "laplace": System(
        title="Laplace, last layer",
        where="laplace.LastLayerLaplace",
        paper="Kristiadi et al., 2020",
        fields=("hessian", "predictive", "prior_precision"),
        argument="map",
        families=("map",),
        fit=laplace.last_layer,
        why_not=laplace.why_no_laplace,
    ),
    "laplace_all": System(
        title="Laplace, all layers",
        where="laplace.DiagonalLaplace",
        paper="Ritter et al., 2018",
        fields=("predictive", "prior_precision"),
        argument="map",
        families=("map",),
        fit=laplace.all_layers,
        why_not=laplace.why_not_all_layers,
    ),
    "flows": System(
        title="{}, refined by flows",
        where="LastLayerLaplace.refine",
        paper=_KRISTIADI,
        fields=_FLOWS,
        argument="laplace",
        starts=("laplace", "laplace_all"),
        families=(),
        fit=laplace.refine_by_flows,
        why_not=laplace.why_no_laplace,
    ),
    "nuts": System(
        title="NUTS on {}",
        where="sampling.nuts",
        paper="Hoffman and Gelman, 2014",
        fields=_NUTS,
        argument="laplace",
        starts=("laplace", "laplace_all"),
        families=(),
        fit=laplace.sample,
        why_not=laplace.why_not_sampled,
    ),
}
# Rivals of I-BLM, which have an experiment of their own.
_RIVALS = (
    "heuristic",
    "iblm_paper",
    "lsuv",
    "orthogonal",
    "uninformative",
    "xavier_normal",
)
# What `all` stands for: each other system by itself, and one combination.
ALL = (*(n for n in SYSTEMS if n not in _RIVALS), "nuts(laplace_all)")


def parse(text, config_class):
    """Parses and checks the name of a system.

    Args:
        text: As for `expression.parse`.
        config_class: Class of the configuration whose fields options set.

    Returns:
        expression: `Expression`; what it starts from is written out.

    Raises:
        ValueError: If there is no such system, or no such combination.
    """
    found = _complete(expression_lib.parse(text), text)
    _check_options(found, config_class, text)
    if network_of(found) is None:
        raise ValueError(f"--systems: {text} starts from no network.")
    return found


def short(expression):
    """Returns the shortest name of a system, for tables and records."""
    system = SYSTEMS[expression.name]
    argument = expression.argument and _shortened(expression.argument)
    if argument == Expression(system.argument or ""):
        argument = None
    return str(dataclasses.replace(expression, argument=argument))


def _shortened(expression):
    return expression_lib.parse(short(expression))


def title(expression):
    """Returns the title of a system, for tables."""
    system = SYSTEMS[expression.name]
    options = ", ".join(f"{name}={text}" for name, text in expression.options)
    if system.changes is None:
        inner = expression.argument and title(expression.argument)
        text = system.title.format(inner)
        is_usual = expression.argument is None or (
            short(expression) == expression.name
        )
        if "{}" not in system.title and not is_usual and not options:
            text += f" of {inner}"
    else:
        changes, root = [], expression
        while SYSTEMS[root.name].changes is not None:
            changes.append(SYSTEMS[root.name].title)
            root = root.argument
        name = SYSTEMS[root.name].title
        text = ", ".join([*([] if root.name == "map" else [name]), *changes])
    return f"{text} ({options})" if options else text


def network_of(expression):
    """Returns the `networks.Network` that a system trains or starts from."""
    system = SYSTEMS[expression.name]
    if system.network is not None:
        return system.network
    network = network_of(expression.argument)
    if system.changes is None or network is None:
        return network
    for name in system.changes:
        if getattr(network, name) != getattr(networks.Network(""), name):
            raise ValueError(
                f"--systems: {expression} sets the {name.replace('_', ' ')} "
                "twice."
            )
    return dataclasses.replace(network, **system.changes)


def is_network(expression):
    """Tells whether a system is a network that is trained."""
    return SYSTEMS[expression.name].fit is None


def fields_of(expression):
    """Returns the names of all fields that decide a system's fit, sorted."""
    inner = (
        () if expression.argument is None else fields_of(expression.argument)
    )
    return tuple(sorted({*SYSTEMS[expression.name].fields, *inner}))


def configured(expression, config):
    """Returns the configuration of one system: with its own options."""
    changes = {
        name: config_lib.parse(type(config), name, text)
        for name, text in options_of(expression)
    }
    return dataclasses.replace(config, **changes) if changes else config


def options_of(expression):
    """Returns the options of a system, after those of what it starts from."""
    inner = ()
    if expression.argument is not None:
        inner = options_of(expression.argument)
    return (*inner, *expression.options)


def _complete(expression, text):
    """Writes out what a system starts from by default, and checks it."""
    system = SYSTEMS.get(expression.name)
    if system is None:
        raise ValueError(
            f"--systems must hold names of {', '.join(SYSTEMS)}. "
            f"Received: {expression.name} in {text}"
        )
    if system.argument is None:
        if expression.argument is not None:
            raise ValueError(
                f"--systems: {expression.name} starts from no other system. "
                f"Received: {text}"
            )
        return expression
    inner = _complete(expression.argument or Expression(system.argument), text)
    if not _fits(system, inner):
        allowed = " or ".join([*system.starts, *map(_family, system.families)])
        raise ValueError(
            f"--systems: {expression.name} must start from {allowed}. "
            f"Received: {text}"
        )
    return dataclasses.replace(expression, argument=inner)


def _fits(system, inner):
    if not is_network(inner):
        return inner.name in system.starts
    network = network_of(inner)
    # Temperatures and ensembles are of networks without noise.
    is_noisy = network.dropout is not None
    return network.family in system.families and not is_noisy


def _family(name):
    return "map" if name == "map" else f"{name} or its modifiers"


def _check_options(expression, config_class, text):
    known = SYSTEMS[expression.name].fields
    names = [name for name, _ in expression.options]
    for name, value in expression.options:
        if names.count(name) > 1:
            raise ValueError(f"--systems: {text} sets {name} twice.")
        if name not in known:
            raise ValueError(
                f"--systems: options of {expression.name} are "
                f"{', '.join(known) or 'none'}. Received: {name} in {text}"
            )
        config_lib.parse(config_class, name, value)
    if expression.argument is not None:
        _check_options(expression.argument, config_class, text)
