"""The systems by name: how each is fitted, and when it cannot be.

A system is a network (`vi`), a modifier of a network (`cm`), or a method that
starts from another system (`refined`). They combine: `refined(cm(iblm))`.
"""

import dataclasses
import difflib
import fnmatch
import functools
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields as fields_lib
from tfp_refine.experiments.systems import baselines
from tfp_refine.experiments.systems import expression as expression_lib
from tfp_refine.experiments.systems import held_out
from tfp_refine.experiments.systems import laplace
from tfp_refine.experiments.systems import multi_start
from tfp_refine.experiments.systems import networks
from tfp_refine.experiments.systems import variational

Expression = expression_lib.Expression
_Config = TypeVar("_Config", bound=fields_lib.Bench)


# Fields that decide how a network is trained.
_TRAINING = "batch_size learning_rate learning_rate_schedule train_steps"


@dataclasses.dataclass(frozen=True)
class System:
    """A system of a paper.

    Attributes:
        title: Its name in tables; of a method, a format for the title of the
            system it starts from.
        where: Names in the package that make it.
        paper: Where it comes from.
        decisive: Names of fields that decide its fit, or patterns of them,
            besides those of its start and those that decide all fits.
        starts: Networks, with or without modifiers, and methods that it may
            start from; by default from the first. Empty of a network.
        fit: Of a method: function of a `repetition.Fit` and, unless it trains
            the network itself, of the `fitted.Fitted` that it starts from.
        why_not: Function of a `repetition.Fit` that returns why it cannot be
            applied, or `None`.
        fits_start: Whether `fit` takes the start of the system.
        takes_dropout: Whether the network that it starts from may have dropout.
        sets: Of a modifier: attribute of `networks.Network` that becomes its
            name, or `None`.
        changes: Of a modifier: other attributes that it sets.
    """

    title: str
    where: str
    paper: str
    decisive: str = ""
    starts: tuple[str, ...] = ()
    fit: Callable | None = None
    why_not: Callable | None = None
    fits_start: bool = True
    takes_dropout: bool = False
    sets: str | None = None
    changes: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def fields(self):
        """Names of the fields that decide its fit."""
        known = config_lib.specs(fields_lib.Bench)
        patterns = self.decisive.split()
        if self.fit is None:  # it is trained
            patterns += _TRAINING.split()
        return tuple(n for p in patterns for n in fnmatch.filter(known, p))

    @property
    def argument(self):
        """Name of its start by default; `None` of a network."""
        return self.starts[0] if self.starts else None


_BLUNDELL = "Blundell et al., 2015"
_GAL = "Gal and Ghahramani, 2016"
_HAVASI = "Havasi et al., 2021"
_KRISHNAN = "Krishnan et al., 2020"
_KRISTIADI = "Kristiadi et al., 2022"
_LAKSHMINARAYANAN = "Lakshminarayanan et al., 2017"
_LOUIZOS = "Louizos and Welling, 2017"
_ROSSI = "Rossi et al., 2019"
_SHEN = "Shen et al., 2024"
_TOMCZAK = "Tomczak et al., 2021"

_VARIATIONAL = ("vi", "ffg", "mnf")
_ENSEMBLES = ("deep_ensemble", "adversarial_ensemble")
_OF_POSTERIORS = ("refined", *_VARIATIONAL, "ivon", "converted")
_OF_POINTS = (
    "map",
    *_ENSEMBLES,
    "swag",
    "multi_swag",
    "csghmc",
    *laplace.NAMES,
    "flows",
    "nuts",
)
# Properties of the systems that others may start from.
_NEEDS = {
    ("map",): "a network of point estimates",
    ("vi",): "a network of variational layers",
    ("vi", "ivon", "converted", *laplace.NAMES): "a Gaussian posterior",
    _VARIATIONAL: "a network that is trained with a posterior",
    (*_VARIATIONAL, "ivon"): "a network that is trained with a posterior",
    _ENSEMBLES: "trained networks",
    laplace.NAMES: "a Laplace approximation",
    _OF_POSTERIORS: "a posterior that is trained",
    _OF_POINTS: "a network of point estimates, or a system that starts there",
}
_MULTIPLICATIVE = (
    "inference_estimator kl_scale log_var_init max_std mnf_auxiliary_* "
    "prior_scale"
)


def _modifier(
    sets, title, where, paper, decisive="", starts=("vi",), **changes
):
    return System(
        title, where, paper, decisive, starts, sets=sets, changes=changes
    )


_prior = functools.partial(_modifier, "prior", starts=_VARIATIONAL)
_posterior = functools.partial(_modifier, "posterior")
_dropout = functools.partial(
    _modifier, "dropout", decisive="dropout", starts=("map",)
)
_start = functools.partial(_modifier, "initializer", paper=_ROSSI)

# fmt: off
SYSTEMS = {
    # Networks.
    "map": System("MAP", "keras.regularizers.L2", "textbooks", "prior_scale"),
    "vi": System(
        "VI", "regularizers.GaussianKL", _BLUNDELL,
        "conv_estimator dense_estimator initial_scale kl_scale prior_scale"),
    "ivon": System("IVON", "optimizers.IVON", _SHEN, "ivon_* prior_scale"),
    "ffg": System("FFG", "layers.DenseMNF", _LOUIZOS, _MULTIPLICATIVE),
    "mnf": System(
        "MNF", "layers.DenseMNF", _LOUIZOS, f"mnf_flow_* {_MULTIPLICATIVE}"),
    # Dropout.
    "mc_dropout": _dropout("MC dropout", "models.to_mc_dropout", _GAL),
    "concrete_dropout": _dropout(
        "concrete dropout", "models.to_mc_dropout", "Gal et al., 2017"),
    # Priors.
    "eb": _prior(
        "empirical Bayes (EB)", "regularizers.EmpiricalBayesKL", _HAVASI,
        "learn_prior_mean"),
    "optimized": _prior(
        "optimized prior variances", "callbacks.PriorVarianceOptimization",
        "Graves, 2011", "prior_warmup"),
    "cm": _prior(
        "collapsed means (CM)", "regularizers.CollapsedMeanKL", _TOMCZAK,
        "alpha_reg cm_prior_scale learn_alpha_reg"),
    "cv": _prior(
        "collapsed variances (CV)", "regularizers.CollapsedVarianceKL",
        _TOMCZAK, "precision_*"),
    "cmv": _prior(
        "collapsed, both (CMV)", "regularizers.CollapsedMeanVarianceKL",
        _TOMCZAK, "alpha_reg precision_*"),
    "fflu": _prior(
        "log-uniform prior (FFLU)", "regularizers.LogUniformKL", _LOUIZOS),
    "scale_mixture": _prior(
        "scale mixture prior", "regularizers.ScaleMixtureKL", _BLUNDELL,
        starts=("vi",), estimator="reparameterization"),
    # Posterior families and other changes of VI.
    "fv": _posterior(
        "fixed variance (FV)", "layers.FixedVariancePosterior", _TOMCZAK),
    "k_tied": _posterior(
        "k-tied", "layers.KTiedPosterior", "Swiatkowski et al., 2020",
        "posterior_rank"),
    "low_rank": _posterior(
        "low rank", "layers.LowRankPosterior", _TOMCZAK, "posterior_rank"),
    "bd": _modifier(
        None, "half the KL (BD)", "layers.set_kl_scale", _TOMCZAK,
        kl_scale=0.5),
    # As the code of Kristiadi et al. has it.
    "flipout": _modifier(
        None, "Flipout, 0.1 KL", "layers.DenseFlipout", _KRISTIADI,
        estimator="flipout", kl_scale=0.1),
    # Initializers of VI.
    "uninformative": _start("from Uninformative", "initializers.Uninformative"),
    "heuristic": _start("from Heuristic", "initializers.Heuristic"),
    "xavier_normal": _start("from XavierNormal", "initializers.XavierNormal"),
    "orthogonal": _start("from Orthogonal", "initializers.Orthogonal"),
    "lsuv": _start("from LSUV", "initializers.LSUV"),
    "iblm": _start("from I-BLM", "initializers.IBLM"),
    "iblm_paper": _start("from I-BLM, as in the paper", "initializers.IBLM"),
    # Methods that start from a variational network.
    "longer": System(
        "{}, as long as refined", "refine", _HAVASI,
        "num_members refine_steps variance_ratios",
        (*_VARIATIONAL, "ivon"), variational.train_longer),
    "refined": System(
        "refined {}", "refine", _HAVASI,
        "num_eval_samples num_members refine_* variance_ratios",
        ("vi", "ivon", "converted", *laplace.NAMES), variational.refine,
        variational.why_not_refinable),
    "refined_ensemble": System(
        "refined {}", "refined_deep_ensemble", _HAVASI,
        "conv_estimator dense_estimator member_* num_eval_samples "
        "prior_scale refine_learning_* refine_steps variance_ratios",
        _ENSEMBLES, variational.refine_ensemble,
        variational.why_no_ensemble_is_refined),
    "multi_start": System(
        "{}, several starts", "refine", "Wilson and Izmailov, 2020",
        "num_starts", _OF_POSTERIORS, multi_start.fit_all, multi_start.why_not,
        fits_start=False),
    # Methods that start from a network of point estimates.
    "converted": System(
        "{}, converted", "models.to_bayesian", _KRISHNAN,
        "conv_estimator dense_estimator initial_scale kl_scale prior_scale",
        ("map",), variational.convert),
    "continued": System(
        "{}, as long as converted", "models.to_bayesian", _KRISHNAN,
        "prior_scale", ("map",), variational.train_on),
    "temperature": System(
        "{}, temperature", "ensembles.TemperatureScaling", "Guo et al., 2017",
        "",
        ("map",), baselines.scale_temperature, baselines.why_no_temperature),
    "deep_ensemble": System(
        "deep ensemble", "ensembles.deep_ensemble", _LAKSHMINARAYANAN,
        "num_members",
        ("map",), baselines.deep_ensemble, baselines.why_no_ensemble,
        fits_start=False),
    "adversarial_ensemble": System(
        "deep ensemble, adversarial", "ensembles.deep_ensemble",
        _LAKSHMINARAYANAN, "adversarial_epsilon num_members",
        ("map",), baselines.deep_ensemble, baselines.why_no_ensemble,
        fits_start=False),
    "swag": System(
        "SWAG", "ensembles.swag", "Maddox et al., 2019",
        "sgd_learning_rate swag_*",
        ("map",), baselines.swag),
    "multi_swag": System(
        "MultiSWAG", "ensembles.swag", "Wilson and Izmailov, 2020",
        "sgd_learning_rate swag_*",
        _ENSEMBLES, baselines.swag),
    "csghmc": System(
        "cyclical SGHMC", "sampling.cyclical_sghmc", "Zhang et al., 2020",
        "cycles samples_per_cycle sgd_learning_rate temperature",
        ("map",), baselines.cyclical_sghmc),
    "laplace": System(
        "Laplace, last layer", "laplace.LastLayerLaplace",
        "Kristiadi et al., 2020", "hessian predictive prior_precision",
        ("map",), laplace.approximate, laplace.why_not),
    "laplace_all": System(
        "Laplace, all layers", "laplace.DiagonalLaplace",
        "Ritter et al., 2018", "predictive prior_precision",
        ("map",), laplace.approximate, laplace.why_not),
    # The same, when held-out data have chosen their settings.
    "tuned": System(
        "{}, tuned", "keras.regularizers.L2", "textbooks", "prior_scale",
        _OF_POINTS, held_out.tune, fits_start=False, takes_dropout=True),
    "flows": System(
        "{}, refined by flows", "LastLayerLaplace.refine", _KRISTIADI,
        "flow_*",
        laplace.NAMES, laplace.refine_by_flows),
    "nuts": System(
        "NUTS on {}", "sampling.nuts", "Hoffman and Gelman, 2014", "nuts_*",
        laplace.NAMES, laplace.sample, laplace.why_not_sampled),
}
# fmt: on
# Rivals of refined ensembles, with the noise that held-out data choose.
_TUNED = (
    "deep_ensemble",
    "mc_dropout",
    "swag",
    "csghmc",
    "laplace",
    "laplace_all",
    "flows",
)
# Systems of `all`: each system by itself, but for rivals of I-BLM, which
# have an experiment of their own; and some combinations.
ALL = (
    *(n for n, s in SYSTEMS.items() if n == "iblm" or s.sets != "initializer"),
    *(f"tuned({name})" for name in _TUNED),
    "refined(ivon)",
    "refined(laplace)",
    "refined(laplace_all)",
    "nuts(laplace_all)",
)


def parse(text: str, config_class: type[fields_lib.Bench]) -> Expression:
    """Parses and checks the name of a system, whose options set fields.

    Its start is written out.

    Raises:
        ValueError: If there is no such system, or no such combination.
    """
    found = _complete(expression_lib.parse(text), text)
    network_of(found)  # sets no attribute twice
    for each in found.chain:
        _check_options(each, config_class, text)
    return found


def short(expression: Expression) -> str:
    """Returns the shortest name of a system, for tables and records."""
    return str(_shortened(expression))


def _shortened(expression):
    argument = expression.argument and _shortened(expression.argument)
    if argument and str(argument) == SYSTEMS[expression.name].argument:
        argument = None
    return dataclasses.replace(expression, argument=argument)


def title(expression: Expression) -> str:
    """Returns the title of a system, for tables."""
    system = SYSTEMS[expression.name]
    options = ", ".join(f"{name}={text}" for name, text in expression.options)
    if is_network(expression):
        *changes, root = (SYSTEMS[each.name].title for each in expression.chain)
        names = [*changes] if root == "MAP" and changes else [root, *changes]
        text = ", ".join(names)
    else:
        inner = title(expression.argument)
        text = system.title.format(inner)
        is_usual = short(expression) == expression.name
        if "{}" not in system.title and not is_usual and not options:
            text += f" of {inner}"
    return f"{text} ({options})" if options else text


def network_of(expression: Expression) -> networks.Network:
    """Returns the network that a system trains or starts from."""
    *others, root = expression.chain
    found, usual = networks.Network(root.name), networks.Network("")
    for each in reversed(others):
        system = SYSTEMS[each.name]
        changes = {system.sets: each.name} if system.sets else {}
        for name, value in (changes | system.changes).items():
            if getattr(found, name) != getattr(usual, name):
                raise ValueError(
                    f"--systems: {expression} sets the "
                    f"{name.replace('_', ' ')} twice."
                )
            found = dataclasses.replace(found, **{name: value})
    return found


def is_network(expression: Expression) -> bool:
    """Returns whether a system is a network that is trained."""
    return SYSTEMS[expression.name].fit is None


def fields_of(expression: Expression) -> tuple[str, ...]:
    """Returns the names of all fields that decide a system's fit, sorted."""
    systems = [SYSTEMS[each.name] for each in expression.chain]
    return tuple(sorted({name for one in systems for name in one.fields}))


def configured(expression: Expression, config: _Config) -> _Config:
    """Returns the configuration of one system: with its own options."""
    changes = {
        name: config_lib.parse(type(config), name, text)
        for each in reversed(expression.chain)
        for name, text in each.options
    }
    return dataclasses.replace(config, **changes) if changes else config


def _complete(expression, text):
    """Writes out the default start of a system, and checks it."""
    system = SYSTEMS.get(expression.name)
    if system is None:
        close = difflib.get_close_matches(expression.name, SYSTEMS)
        asked = f" Did you mean {' or '.join(close)}?" if close else ""
        raise ValueError(
            f"--systems must hold names of {', '.join(SYSTEMS)}. "
            f"Received: {expression.name} in {text}.{asked}"
        )
    if not system.starts:
        if expression.argument is not None:
            raise ValueError(
                f"--systems: {expression.name} starts from no other system. "
                f"Received: {text}"
            )
        return expression
    inner = _complete(expression.argument or Expression(system.argument), text)
    network = network_of(inner)
    kind = network.family if is_network(inner) else inner.name
    # Temperatures and ensembles are of networks without noise.
    is_noisy = network.dropout is not None and not system.takes_dropout
    if kind not in system.starts or is_noisy:
        allowed = " or ".join(
            f"{name} or its modifiers" if name in _VARIATIONAL else name
            for name in system.starts
        )
        raise ValueError(
            f"--systems: {expression.name} needs {_NEEDS[system.starts]}: "
            f"{allowed}. Received: {text}"
        )
    return dataclasses.replace(expression, argument=inner)


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
