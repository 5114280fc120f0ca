"""The systems that can be compared: how each is fitted, and when it cannot."""

from typing import NamedTuple

from tfp_refine.experiments import compare_baselines
from tfp_refine.experiments import compare_laplace
from tfp_refine.experiments import compare_variational

_CSGHMC = ("cycles", "samples_per_cycle", "sgd_learning_rate", "temperature")
_SWAG = ("sgd_learning_rate", "swag_rank", "swag_snapshots")
_NUTS = ("nuts_chains", "nuts_max_tree_depth", "nuts_samples", "nuts_warmup")
_MNF = (
    "auxiliary_flow_length",
    "auxiliary_flow_units",
    "flow_units",
    "inference_estimator",
    "log_var_init",
    "max_std",
)
_REFINEMENT = (
    "num_eval_samples",
    "num_members",
    "refine_deterministic",
    "refine_learning_rate",
    "refine_learning_rate_decay",
    "steps",
    "variance_fractions",
    "variance_ratios",
)


class System(NamedTuple):
    """A system of a paper.

    Attributes:
        title: What tables call it.
        where: Names in the package that make it.
        paper: Where it comes from.
        fit: Function of a `compare_run.Run`, the system's name, a folder for
            its checkpoints and its bases, each a `fitted.Fitted`; returns a
            `fitted.Fitted`.
        bases: Names of the systems that it starts from.
        flags: Names of flags that decide its result, besides those of its
            bases and those that decide all results.
        reason: Function of a `compare_run.Run` that returns why it cannot be
            applied, or `None`.
    """

    title: str
    where: str
    paper: str
    fit: object
    bases: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    reason: object = None


def _network(title, where, paper, *flags):
    return System(title, where, paper, compare_variational.network, flags=flags)


_BLUNDELL = "Blundell et al., 2015"
_GAL = "Gal and Ghahramani, 2016"
_GAL_2017 = "Gal et al., 2017"
_GUO = "Guo et al., 2017"
_HAVASI = "Havasi et al., 2021"
_KRISTIADI = "Kristiadi et al., 2022"
_LAKSHMINARAYANAN = "Lakshminarayanan et al., 2017"
_LOUIZOS = "Louizos and Welling, 2017"
_ROSSI = "Rossi et al., 2019"
_TOMCZAK = "Tomczak et al., 2021"

SYSTEMS = {
    "map": _network("MAP", "keras.regularizers.L2", "textbooks"),
    "map_temp": System(
        "MAP, temperature",
        "ensembles.TemperatureScaling",
        _GUO,
        compare_baselines.temperature,
        bases=("map",),
        reason=compare_baselines.why_no_temperature,
    ),
    "deep_ensemble": System(
        "deep ensemble",
        "ensembles.deep_ensemble",
        _LAKSHMINARAYANAN,
        compare_baselines.deep_ensemble,
        flags=("num_members",),
    ),
    "deep_ensemble_adversarial": System(
        "deep ensemble, adversarial",
        "ensembles.deep_ensemble",
        _LAKSHMINARAYANAN,
        compare_baselines.deep_ensemble,
        flags=("adversarial_epsilon", "num_members"),
    ),
    "mc_dropout": _network(
        "MC dropout", "models.to_mc_dropout", _GAL, "dropout"
    ),
    "concrete_dropout": _network(
        "concrete dropout", "layers.ConcreteDropout", _GAL_2017, "dropout"
    ),
    "swag": System(
        "SWAG",
        "ensembles.swag",
        "Maddox et al., 2019",
        compare_baselines.swag,
        bases=("map",),
        flags=_SWAG,
    ),
    "multi_swag": System(
        "MultiSWAG",
        "ensembles.swag",
        "Wilson and Izmailov, 2020",
        compare_baselines.swag,
        bases=("deep_ensemble",),
        flags=_SWAG,
    ),
    "csghmc": System(
        "cyclical SGHMC",
        "sampling.cyclical_sghmc",
        "Zhang et al., 2020",
        compare_baselines.cyclical_sghmc,
        bases=("map",),
        flags=_CSGHMC,
    ),
    "vi": _network("VI", "regularizers.GaussianKL", _BLUNDELL),
    "vi_longer": System(
        "VI, as long as refined",
        "regularizers.GaussianKL",
        _HAVASI,
        compare_variational.longer,
        bases=("vi",),
        flags=_REFINEMENT,
    ),
    "refined_vi": System(
        "refined VI",
        "refine",
        _HAVASI,
        compare_variational.refined,
        bases=("vi",),
        flags=_REFINEMENT,
    ),
    "vi_bd": _network("VI, half the KL (BD)", "layers.set_kl_scale", _TOMCZAK),
    "vi_fv": _network(
        "VI, fixed variance (FV)", "layers.FixedVariancePosterior", _TOMCZAK
    ),
    "vi_eb": _network(
        "VI, empirical Bayes (EB)", "regularizers.EmpiricalBayesKL", _HAVASI
    ),
    "vi_iblm": _network("VI, from I-BLM", "initializers.IBLM", _ROSSI),
    "cm": _network(
        "collapsed means (CM)",
        "regularizers.CollapsedMeanKL",
        _TOMCZAK,
        "alpha_reg",
    ),
    "cv": _network(
        "collapsed variances (CV)",
        "regularizers.CollapsedVarianceKL",
        _TOMCZAK,
        "precision_rate",
        "precision_shape",
    ),
    "cmv": _network(
        "collapsed, both (CMV)",
        "regularizers.CollapsedMeanVarianceKL",
        _TOMCZAK,
        "alpha_reg",
        "precision_rate",
        "precision_shape",
    ),
    "k_tied": _network(
        "VI, k-tied", "layers.KTiedPosterior", "Swiatkowski et al., 2020"
    ),
    "low_rank": _network("VI, low rank", "layers.LowRankPosterior", _TOMCZAK),
    "flipout": _network(
        "VI, Flipout, 0.1 KL", "layers.DenseFlipout", _KRISTIADI
    ),
    "fflu": _network(
        "log-uniform prior (FFLU)", "regularizers.LogUniformKL", _LOUIZOS
    ),
    "ffg": _network("FFG", "layers.DenseMNF", _LOUIZOS, *_MNF),
    "mnf": _network("MNF", "layers.DenseMNF", _LOUIZOS, "flow_length", *_MNF),
    "laplace": System(
        "Laplace, last layer",
        "laplace.LastLayerLaplace",
        "Kristiadi et al., 2020",
        compare_laplace.last_layer,
        bases=("map",),
        reason=compare_laplace.why_no_laplace,
    ),
    "laplace_all": System(
        "Laplace, all layers",
        "laplace.DiagonalLaplace",
        "Ritter et al., 2018",
        compare_laplace.all_layers,
        bases=("map",),
        flags=("max_laplace_weights",),
        reason=compare_laplace.why_not_all_layers,
    ),
    "laplace_refined": System(
        "Laplace, refined by flows",
        "LastLayerLaplace.refine",
        _KRISTIADI,
        compare_laplace.refined,
        bases=("laplace",),
        flags=("flows",),
        reason=compare_laplace.why_no_laplace,
    ),
    "nuts_last_layer": System(
        "NUTS, last layer",
        "sampling.nuts_last_layer",
        _KRISTIADI,
        compare_laplace.sampled,
        bases=("laplace",),
        flags=_NUTS,
        reason=compare_laplace.why_no_laplace,
    ),
    "nuts": System(
        "NUTS, all layers",
        "sampling.nuts",
        "Hoffman and Gelman, 2014",
        compare_laplace.sampled,
        bases=("laplace_all",),
        flags=("max_sampled_weights", *_NUTS),
        reason=compare_laplace.why_not_sampled,
    ),
}


def flags_of(name):
    """Returns the names of all flags that decide a system's fit, sorted."""
    system = SYSTEMS[name]
    return sorted(
        {*system.flags, *(f for base in system.bases for f in flags_of(base))}
    )
