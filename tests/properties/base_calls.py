"""One good call of each public callable: how a new one joins `bad_input`."""

import copy
import dataclasses
import functools
import inspect
import pathlib
import re
import tempfile
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import keras
import numpy as np
import tensorflow_probability as tfp
from matplotlib import pyplot
from matplotlib.figure import Figure

import tfp_refine as tfr
from tests.plotting import test_style
from tests.support import posterior_cases
from tfp_refine import plotting

# Python's and Keras' ways to refuse.
REFUSALS = (FloatingPointError, IndexError, OSError, TypeError, ValueError)


class Base(NamedTuple):
    """A good call.

    Attributes:
        call: Function of keyword arguments, which returns numbers to check.
        arguments: Returns new good arguments of it.
        templates: Good values of further arguments, to make bad ones of.
        in_graph: Whether it is part of a graph, which raises no errors.
    """

    call: Callable[..., Any]
    arguments: Callable[[], dict]
    templates: dict = {}
    in_graph: bool = False


BASES: dict[str, Base] = {}
# Callables without a case, by the reason.
_WITHOUT = {
    "Abstract.": """
        layers.PosteriorFamily layers.RecurrentLayer layers.SampledLayer
        layers.VariationalLayer losses.GaussianLoss losses.LikelihoodLoss
        posteriors.Posterior regularizers.KLRegularizer
        initializers.PosteriorInitializer
        """,
    "Made by this package, of its own values.": """
        RefinedEnsemble ensembles.SWAGPosterior metrics.CalibrationBins
        posteriors.EnsemblePosterior posteriors.FlowPosterior
        posteriors.GaussianPosterior posteriors.MixturePosterior
        posteriors.SamplePosterior posteriors.Summary layers.VariationalWeight
        posteriors.VariationalPosterior regularizers.PriorSite
        datasets.ClassTable datasets.ImageData datasets.ImageSplit
        datasets.RegressionData datasets.RegressionSplit datasets.TextData
        datasets.Standardizer
        """,
    "Starts processes, or waits for some: see tests/distribute.": """
        distribute.LocalCluster distribute.LocalCluster.kill
        distribute.LocalCluster.start distribute.LocalCluster.tf_config
        distribute.connect
        """,
    "All its arguments are of Keras.": "optimizers.Adam",
    "Called by this package, of tensors in a graph.": """
        optimizers.IVON.check_loss
        bijectors.Flow.forward_and_log_det
        ensembles.GaussianPosterior.transform laplace.EvidenceBound.check_data
        laplace.EvidenceBound.data laplace.EvidenceBound.set_data
        laplace.DiagonalLaplace.output_root laplace.Laplace.output_roots
        laplace.DiagonalLaplace.output_variance
        laplace.Laplace.output_variances laplace.LastLayerLaplace.output_root
        laplace.LastLayerLaplace.output_variance
        layers.DrawingLayer.rematerialized_call
        layers.RandomLayer.load_own_variables
        layers.RandomLayer.save_own_variables
        optimizers.IVON.load_own_variables optimizers.IVON.save_own_variables
        layers.PosteriorLayer.add_full_precision_weight
        layers.VariationalLayer.add_variational_weight
        layers.VariationalConv.apply_kernel
        layers.VariationalLayer.apply_weights
        layers.ConvolutionalLayer.broadcast_bias layers.LinearMap.columns
        layers.PosteriorArguments.enable_lora layers.LinearMap.fan_in
        layers.PosteriorLayer.keep_weight layers.VariationalConv.kernel_channels
        layers.LinearMap.kernel_of layers.VariationalLayer.mean_outputs
        layers.LinearMap.num_positions layers.LinearMap.patches
        layers.PosteriorArguments.posterior_config
        layers.PosteriorArguments.quantize
        layers.PosteriorArguments.regularizer_argument
        layers.Flipout.sample_outputs
        layers.LocalReparameterization.add_noise
        layers.LocalReparameterization.sample_outputs
        layers.Reparameterization.sample_outputs
        layers.VariationalConvTranspose.apply_kernel
        layers.VariationalConvTranspose.kernel_channels
        layers.Conv2DMNF.multiplied_means
        layers.MultiplicativeLayer.sample_outputs
        layers.VariationalDense.apply_kernel
        layers.VariationalLayer.broadcast_bias layers.VariationalDense.patches
        layers.DenseMNF.multiplied_means
        layers.VariationalDepthwiseConv.apply_kernel
        layers.VariationalDepthwiseConv.kernel_channels
        layers.VariationalDepthwiseConv.regularizer_argument
        layers.VariationalEinsumDense.apply_kernel
        layers.VariationalEinsumDense.num_positions
        layers.VariationalEinsumDense.patches
        layers.EmbeddingReparameterization.fan_in layers.RecurrentLayer.fan_in
        layers.VariationalAttention.compute_output_spec
        layers.SampledLayer.fan_in layers.VariationalLayer.apply_kernel
        layers.VariationalLayer.sample_outputs layers.VariationalWeight.kl
        layers.VariationalWeight.marginal_kl layers.VariationalWeight.mean
        layers.VariationalWeight.perturbation layers.VariationalWeight.sample
        layers.VariationalWeight.set_prior layers.VariationalWeight.variance
        losses.LikelihoodLoss.check_targets losses.LikelihoodLoss.example_nll
        optimizers.IVON.apply optimizers.IVON.draw
        optimizers.IVON.has_posterior_of optimizers.IVON.scale_of
        refinement.AdaptiveSteps.has_ended refinement.AdaptiveSteps.limit
        regularizers.KLRegularizer.best_prior_weights
        regularizers.CollapsedMeanKL.current_alpha_reg
        regularizers.CollapsedMeanKL.elementwise
        regularizers.CollapsedMeanKL.for_fan_in
        regularizers.CollapsedMeanKL.penalty regularizers.CollapsedMeanKL.prior
        regularizers.CollapsedMeanKL.prior_weights
        regularizers.CollapsedMeanKL.total
        regularizers.CollapsedMeanVarianceKL.elementwise
        regularizers.KLRegularizer.for_fan_in regularizers.KLRegularizer.penalty
        regularizers.CollapsedMeanVarianceKL.prior
        regularizers.KLRegularizer.prior_weights
        regularizers.KLRegularizer.total
        regularizers.EmpiricalBayesKL.best_prior_weights
        regularizers.KLRegularizer.elementwise
        regularizers.EmpiricalBayesKL.for_fan_in
        regularizers.EmpiricalBayesKL.penalty
        regularizers.EmpiricalBayesKL.prior
        regularizers.EmpiricalBayesKL.prior_weights
        regularizers.GaussianKL.for_fan_in regularizers.GaussianKL.prior
        regularizers.KLRegularizer.prior regularizers.LogUniformKL.elementwise
        regularizers.LogUniformKL.pruned layers.VariationalWeight.assign
        layers.VariationalWeight.initialize
        regularizers.ScaleMixtureKL.elementwise
        """,
}
# Arguments that are not varied: those that download or compile for seconds.
LEFT_OUT = re.compile(r"self|kwargs|download|jit_compile")
WITHOUT = {
    name: reason for reason, names in _WITHOUT.items() for name in names.split()
}

_RNG = np.random.default_rng(0)
_N = 12
_X, _Y = (part[:_N] for part in posterior_cases.data("classes"))
_Y = _Y.astype("int32")
_TARGETS = posterior_cases.data("regression")[1][:_N]
_PROBS = _RNG.dirichlet(np.ones(3), size=(4, _N))
_LOC = _RNG.normal(size=(4, _N, 2))
_SCALE = np.exp(_RNG.normal(size=(4, _N, 2)))
_PLANE = _RNG.normal(size=(_N, 2))
_PIXELS = _RNG.integers(0, 255, (4, 8, 8, 3)).astype("uint8")


def _add(name, call, templates=None, /, **arguments):
    """Adds a call with arguments that it does not change."""
    BASES[name] = Base(call, lambda: dict(arguments), templates or {})


def _public(room, kind=object):
    """Returns the functions and the classes of a kind that have a base."""
    found = {name: getattr(room, name) for name in room.__all__}
    room = room.__name__.rpartition(".")[2]
    return {
        name: one
        for name, one in found.items()
        if (kind is object or (inspect.isclass(one) and issubclass(one, kind)))
        and f"{room}.{name}" not in WITHOUT
    }


def _fields(found):
    return [getattr(found, f.name) for f in dataclasses.fields(found)]


# Metrics and losses.

_OF_METRICS = {
    "draws": _PROBS, "probs": _PROBS, "loc": _LOC, "scale": _SCALE,
    "in_scores": _PLANE[:, 0], "out_scores": _PLANE[:, 1],
    "reference": _PLANE, "samples": _PLANE + 1.0,
}  # fmt: skip


def _streaming(kind, y_true, y_pred, sample_weight, **arguments):
    metric = kind(**arguments)
    metric.update_state(y_true, y_pred, sample_weight)
    return float(metric.result())


for _name, _function in _public(tfr.metrics).items():
    if inspect.isclass(_function):
        _good = {
            "y_true": _Y,
            "y_pred": _PROBS[0],
            "sample_weight": np.ones(_N),
        }
        if _name == "MeanLoss":
            _good["loss"] = tfr.losses.CategoricalNLL()
        _function = functools.partial(_streaming, _function)
    else:
        _parameters = inspect.signature(_function).parameters
        _true = {"y_true": _PLANE if "loc" in _parameters else _Y}
        _good = {
            name: value
            for name, value in (_true | _OF_METRICS).items()
            if name in _parameters
        }
    _add(f"metrics.{_name}", _function, **_good)
# Means of empty bins are NaN.
BASES["metrics.calibration_bins"] = Base(
    lambda **arguments: tfr.metrics.calibration_bins(**arguments).counts,
    BASES["metrics.calibration_bins"].arguments,
)

_LOSSES = {
    "BernoulliNLL": (_Y[:, None] % 2, _PLANE[:, :1]),
    "CategoricalNLL": (_Y, _RNG.normal(size=(_N, 3))),
    "GaussianNLL": (_PLANE, _PLANE + 1.0),
    "HeteroscedasticGaussianNLL": (_PLANE[:, :1], _PLANE),
    "NegativeBinomialNLL": (_Y[:, None], _PLANE),
    "OrdinalNLL": (_Y, np.sort(_PLANE, axis=-1)),
    "PoissonNLL": (_Y[:, None], _PLANE[:, :1]),
    "StudentTNLL": (_PLANE[:, :1], _RNG.normal(size=(_N, 3))),
}


def _loss(kind, y_true, y_pred, sample_weight, **arguments):
    return kind(**arguments)(y_true, y_pred, sample_weight)


for _name, (_true, _pred) in _LOSSES.items():
    _kind = getattr(tfr.losses, _name)
    _add(
        f"losses.{_name}",
        functools.partial(_loss, _kind),
        y_true=_true.astype("float32"),
        y_pred=_pred.astype("float32"),
        sample_weight=np.ones(_N, "float32"),
    )
    for _method in ("predictive", "loc_and_scale"):
        if hasattr(_kind, _method):
            _add(
                f"losses.{getattr(_kind, _method).__qualname__}",
                lambda outputs, kind=_kind, method=_method: _numbers(
                    getattr(kind(), method)(outputs)
                ),
                outputs=_pred.astype("float32"),
            )
_add(
    "losses.HeteroscedasticGaussianNLL.raw_noise",
    lambda scale: tfr.losses.HeteroscedasticGaussianNLL().raw_noise(scale),
    scale=1.0,
)


def _numbers(found):
    if isinstance(found, tfp.distributions.Distribution):
        return [found.mean(), found.variance()]
    return found


WITHOUT["losses.GaussianLoss.loc_and_scale"] = "Abstract."
WITHOUT["losses.LikelihoodLoss.predictive"] = "Abstract."

# Regularizers, posterior families and layers.


def _of_dense(name, kind, **arguments):
    """Calls a dense layer with an object of a kind as an argument."""
    layer = tfr.layers.DenseReparameterization(
        2, num_train_examples=_N, seed=1, **{name: kind(**arguments)}
    )
    return [layer(_X), *layer.losses]


for _name, _kind in _public(tfr.regularizers, keras.Regularizer).items():
    _add(
        f"regularizers.{_name}",
        functools.partial(_of_dense, "kernel_regularizer", _kind),
    )
_add("regularizers.get", tfr.regularizers.get, identifier="gaussian_kl")
_add("regularizers.is_kl", tfr.regularizers.is_kl, regularizer="gaussian_kl")
for _name, _kind in _public(tfr.layers, tfr.layers.PosteriorFamily).items():
    _add(
        f"layers.{_name}",
        functools.partial(_of_dense, "kernel_posterior", _kind),
    )


def _layer(kind, inputs, **arguments):
    layer = kind(**arguments)
    if isinstance(inputs, tuple):
        return [layer(*inputs), *layer.losses]
    return [layer(inputs), *layer.losses]


def _embedded(kind, **arguments):
    return _layer(kind, np.zeros((2, 3), "int32"), **arguments)


def _image(rank):
    return _RNG.normal(size=(2, *(5, 4, 3)[:rank], 2)).astype("float32")


_SEQUENCE = _RNG.normal(size=(2, 3, 4)).astype("float32")
_ATTENTION = {
    "MultiHead": {"num_heads": 2, "key_dim": 2},
    "GroupQuery": {"head_dim": 2, "num_query_heads": 2,
                   "num_key_value_heads": 1},
}  # fmt: skip
for _name, _kind in _public(tfr.layers, keras.Layer).items():
    _good = {"inputs": _X}
    if "num_train_examples" in inspect.signature(_kind).parameters:
        _good |= {"num_train_examples": _N, "seed": 1}
    if "Conv" in _name:
        _good["inputs"] = _image(int(_name[_name.index("D") - 1]) if
                                 "Depthwise" not in _name else
                                 int(_name[len("DepthwiseConv")]))  # fmt: skip
        _good["kernel_size"] = 2
        if "Depthwise" not in _name:
            _good["filters"] = 2
    elif _name.startswith("Dense"):
        _good["units"] = 2
    elif _name.startswith("Einsum"):
        _good |= {"equation": "ab,bc->ac", "output_shape": 2, "bias_axes": "c"}
    elif _name.startswith("Embedding"):
        _good |= {"input_dim": 4, "output_dim": 2}
        # Keras checks no index.
        del _good["inputs"]
        _kind = functools.partial(_embedded, _kind)
    elif _name.startswith(("LSTM", "GRU")):
        _good |= {"units": 2, "inputs": _SEQUENCE}
    elif "Attention" in _name:
        _good |= _ATTENTION[_name.partition("Query")[0] + "Query" if "Query" in
                            _name else "MultiHead"]  # fmt: skip
        _good["query"] = _good["value"] = _SEQUENCE
        del _good["inputs"]
    elif _name == "ConcreteDropout":
        _good["layer"] = None  # made anew in each call
    elif _name == "MCDropout":
        _good["rate"] = 0.5
    _add(
        f"layers.{_name}",
        functools.partial(_layer, _kind) if "inputs" in _good else _kind,
        **_good,
    )


def _attention(kind, query, value, **arguments):
    layer = kind(**arguments)
    return [layer(query, value), *layer.losses]


for _name, _base in list(BASES.items()):
    if "Attention" in _name:
        BASES[_name] = _base._replace(
            call=functools.partial(_attention, getattr(tfr.layers, _name[7:]))
        )
BASES["layers.ConcreteDropout"] = BASES["layers.ConcreteDropout"]._replace(
    arguments=lambda: {
        "inputs": _X, "num_train_examples": _N, "seed": 1,
        "layer": keras.layers.Dense(2),
    }
)  # fmt: skip


def _built(kind=tfr.layers.DenseReparameterization):
    model = keras.Sequential([keras.Input((3,)), kind(2, seed=1)])
    tfr.layers.set_num_train_examples(model, _N)
    return model


def _within(manager):
    with manager:
        return _built()(_X)


_add("layers.mean_weights",
     lambda active=True: _within(tfr.layers.mean_weights(active)))  # fmt: skip
_add(
    "layers.observe_inputs",
    lambda observer: _within(tfr.layers.observe_inputs(observer)),
    observer=lambda *_: None,
)
BASES["layers.set_kl_scale"] = Base(
    lambda model, kl_scale: tfr.layers.set_kl_scale(model, kl_scale),
    lambda: {"model": _built(), "kl_scale": 1.0},
)
BASES["layers.set_num_train_examples"] = Base(
    lambda model, num_train_examples: tfr.layers.set_num_train_examples(
        model, num_train_examples
    ),
    lambda: {"model": _built(), "num_train_examples": _N},
)


def _changed(method):
    """Returns a call of a method of a layer, then of its model."""

    def call(**arguments):
        model = _built()
        found = getattr(model.layers[0], method)(**arguments)
        return [found, model(_X), *model.losses]

    return call


_add("layers.PrunableUnits.pruned_units", _changed("pruned_units"))
_add(
    "layers.PrunableUnits.remove_units",
    _changed("remove_units"),
    units=[True, False],
)
_add(
    "layers.PosteriorArguments.set_posterior",
    _changed("set_posterior"),
    name="kernel",
    regularizer="gaussian_kl",
    posterior="mean_field",
)


# Bijectors.
_F = _RNG.normal(size=(3,))


def _bijector(kind, x, **arguments):
    bijector = kind(**arguments)
    return [bijector.forward(x), bijector.forward_log_det_jacobian(x)]


_add("bijectors.Planar", functools.partial(_bijector, tfr.bijectors.Planar),
     x=_F, u=_F, w=_F + 1.0, b=np.array(0.1))  # fmt: skip
_add("bijectors.Radial", functools.partial(_bijector, tfr.bijectors.Radial),
     x=_F, x0=_F, alpha_prime=np.array(0.5),
     beta_prime=np.array(0.1))  # fmt: skip
_add(
    "bijectors.GatedCoupling",
    functools.partial(_bijector, tfr.bijectors.GatedCoupling),
    x=_F, mask=np.array([1.0, 0.0, 1.0]), hidden_kernel=np.ones((3, 2)),
    hidden_bias=np.ones(2), shift_kernel=np.ones((2, 3)),
    shift_bias=np.ones(3), gate_kernel=np.ones((2, 3)), gate_bias=np.ones(3),
)  # fmt: skip

# Data sets.
for _name, _argument in (
    ("transform", "x"), ("inverse", "standardized"),
    ("inverse_log_likelihood", "log_likelihood"),
):  # fmt: skip
    _add(
        f"datasets.Standardizer.{_name}",
        getattr(tfr.datasets.Standardizer(np.zeros(3), np.ones(3)), _name),
        **{_argument: _X},
    )
_add("datasets.corrupt_images", tfr.datasets.corrupt_images, images=_PIXELS,
     corruption="fog", severity=1)  # fmt: skip
_add("datasets.crop_and_flip", tfr.datasets.crop_and_flip,
     x=_PIXELS.astype("float32"), seed=(1, 2))  # fmt: skip
_add("datasets.flip_pixels", tfr.datasets.flip_pixels, images=_PIXELS,
     fraction=0.5)  # fmt: skip
_add("datasets.match_images", tfr.datasets.match_images, images=_PIXELS,
     shape=(4, 4, 1))  # fmt: skip
_add("datasets.rotate_images", tfr.datasets.rotate_images, images=_PIXELS,
     degrees=30.0)  # fmt: skip
_IMAGES = tfr.datasets.ImageData(
    "a", _PIXELS, np.array([0, 1, 2, 0]), _PIXELS, np.array([0, 1, 2, 1]), 3
)
_add("datasets.split_classes", tfr.datasets.split_classes, data=_IMAGES,
     classes=[0, 1])  # fmt: skip
_add(
    "datasets.standardize_pixels",
    tfr.datasets.standardize_pixels,
    images=_PIXELS,
    scaler=tfr.datasets.Standardizer(np.zeros(3), np.ones(3)),
)
_add(
    "datasets.standardized_images",
    tfr.datasets.standardized_images,
    data=_IMAGES,
)
_add(
    "datasets.train_test_split",
    tfr.datasets.train_test_split,
    data=tfr.datasets.RegressionData("a", _X.astype("float64"), _TARGETS),
    split=0,
)
_add(
    "datasets.training_batches",
    lambda **arguments: next(iter(tfr.datasets.training_batches(**arguments))),
    x=_X, y=_Y, batch_size=4, seed=1,
)  # fmt: skip
for _name, _good in (
    ("load_class_table", "iris"),
    ("load_images", "digits"),
    ("load_texts", "unknown"),
    ("load_uci", "yacht"),
):
    _add(
        f"datasets.{_name}",
        getattr(tfr.datasets, _name),
        name=_good,
    )

# Callbacks and optimizers.


def _fit(callbacks=(), optimizer="sgd", kind=None):
    prior = tfr.regularizers.EmpiricalBayesKL(trainable=False)
    dense = kind or functools.partial(
        tfr.layers.DenseReparameterization,
        kernel_regularizer=prior,
        bias_regularizer=prior,
        num_train_examples=_N,
    )
    model = keras.Sequential([keras.Input((3,)), dense(2, seed=1)])
    loss = tfr.losses.CategoricalNLL()
    model.compile(
        optimizer,
        loss,
        metrics=[tfr.metrics.MeanLoss(loss)],
        run_eagerly=True,
    )
    fit = model.fit(_X, np.minimum(_Y, 1), batch_size=_N, epochs=2, verbose=0,
                    callbacks=list(callbacks))  # fmt: skip
    return [fit.history, model.get_weights()]


def _fit_with(kind, **arguments):
    return _fit([kind(**arguments)])


for _name in ("ELBOLogger", "KLAnnealing", "PriorVarianceOptimization"):
    _add(
        f"callbacks.{_name}",
        functools.partial(_fit_with, getattr(tfr.callbacks, _name)),
        **({"schedule": float} if _name == "KLAnnealing" else {}),
    )
_add(
    "callbacks.linear_warmup",
    lambda **arguments: [
        tfr.callbacks.linear_warmup(**arguments)(t) for t in (0.0, 1.0, 9.0)
    ],
    num_epochs=3,
)
_add(
    "optimizers.IVON",
    lambda **arguments: _fit(
        optimizer=tfr.optimizers.IVON(**arguments), kind=_plain_dense
    ),
    learning_rate=0.01,
    num_train_examples=_N,
)


def _plain_dense(units, seed):
    del seed
    return keras.layers.Dense(units)


# Models and initializers.
_SMALL = {
    "AlexNet": {"input_shape": (16, 16, 1), "widths": (2,) * 7},
    "LeNet5": {"input_shape": (8, 8, 1), "widths": (2, 2, 2, 2)},
    "LeNet5MNF": {"input_shape": (16, 16, 1), "widths": (2, 2, 2),
                  "flow_units": 2, "auxiliary_flow_units": 2},
    "MLP": {"input_shape": (3,), "hidden": (2,)},
    "ResNet": {"input_shape": (8, 8, 1), "depth": 8},
    "ResNet18": {"input_shape": (8, 8, 1), "filters": 2},
    "ResNet20": {"input_shape": (8, 8, 1)},
    "ShuffleNet": {"input_shape": (8, 8, 1), "groups": 2,
                   "filters": (32, 40, 48), "blocks": (2, 2, 2)},
    "TextTransformer": {"vocabulary_size": 5, "length": 4, "width": 4,
                        "depth": 1, "hidden_units": 4},
    "VisionTransformer": {"input_shape": (8, 8, 1), "width": 6, "depth": 1,
                          "hidden_units": 4},
    "WideResNet": {"input_shape": (8, 8, 1), "depth": 10, "width": 1},
}  # fmt: skip


def _weights_of(make, **arguments):
    return make(**arguments).get_weights()


for _name, _good in _SMALL.items():
    _add(
        f"models.{_name}",
        functools.partial(_weights_of, getattr(tfr.models, _name)),
        seed=1,
        num_train_examples=_N,
        **_good,
    )


def _network(bayesian=False):
    network = posterior_cases.network(bayesian=bayesian)
    model = keras.models.clone_model(network)
    model.set_weights(network.get_weights())
    return model


for _name in ("to_bayesian", "to_deterministic", "to_gaussian",
              "to_mc_dropout"):  # fmt: skip
    _convert = getattr(tfr.models, _name)
    _good = {}
    if "num_train_examples" in inspect.signature(_convert).parameters:
        _good["num_train_examples"] = _N
    BASES[f"models.{_name}"] = Base(
        lambda model, convert=_convert, **arguments: tfr.predict(
            convert(model, **arguments), _X, 2, seed=1
        ),
        lambda good=_good, name=_name: {
            "model": _network(name in ("to_deterministic", "to_gaussian")),
            **good,
        },
    )


def _initialized(kind, model, x, y, **arguments):
    kind(**arguments)(model, x, y)
    return model.get_weights()


for _name, _kind in _public(tfr.initializers).items():
    if not inspect.isclass(_kind):
        continue
    BASES[f"initializers.{_name}"] = Base(
        functools.partial(_initialized, _kind),
        lambda name=_name: (
            {
                "model": _built(),
                "x": _network() if name == "MOPED" else _X,
                "y": np.minimum(_Y, 1),
            }
            | ({} if name == "MOPED" else {"seed": 1, "verbose": 0})
        ),
    )
_add("initializers.get", tfr.initializers.get, identifier="iblm")

# Figures.


def _drawn(function, **arguments):
    try:
        axes = np.ravel(function(**arguments))
        if not all(isinstance(one, plotting.style.Axes) for one in axes):
            raise AssertionError("no axes")
        plotting.save(axes, pathlib.Path(tempfile.gettempdir()) / "a.svg")
    finally:
        pyplot.close("all")


for _name, (_arguments, _) in test_style.CASES.items():
    _function = getattr(plotting, _name)
    _add(
        f"plotting.{_name}",
        functools.partial(_drawn, _function),
        **dict(zip(inspect.signature(_function).parameters, _arguments)),  # noqa: B905
    )
BASES["plotting.save"] = Base(
    plotting.save, lambda: {"axes": Figure().subplots(), "path": "figure.png"}
)

# Posteriors, and functions of them.


def _posterior(name="laplace_full", kind="classes"):
    return posterior_cases.posterior(name, kind)


_X40, _Y40 = posterior_cases.data("classes")
_WEIGHTS = {"sample_weight": np.ones(40, "float32"),
            "class_weight": {0: 1.0, 1: 2.0}}  # fmt: skip


for _owner in ("Posterior.", ""):
    for _name in ("predict", "predict_proba", "summarize"):

        def _call(*, _named=(_owner, _name), **arguments):
            owner, name = _named
            found = getattr(_posterior() if owner else tfr, name)(**arguments)
            return _fields(found) if name == "summarize" else found

        BASES[f"{_owner}{_name}"] = Base(
            _call,
            lambda owner=_owner: (
                {"x": _X, "num_samples": 3, "seed": 1}
                | ({} if owner else {"model_or_posterior": _posterior()})
            ),
        )
_add(
    "laplace.DiagonalLaplace.predict_proba",
    lambda **arguments: _posterior("laplace_all_layers").predict_proba(
        **arguments
    ),
    x=_X, num_samples=3, seed=1, method="probit",
)  # fmt: skip


def _narrowed(**arguments):
    posterior = copy.copy(_posterior("deep_ensemble"))  # keeps its own spread
    return posterior.fit_spread(**arguments).predict(_X, 3)


_add("Posterior.fit_spread", _narrowed, _WEIGHTS,
     x=_X40, y=_Y40, num_samples=3, seed=1)  # fmt: skip
_add("Posterior.sample",
     lambda **arguments: _posterior().sample(**arguments),
     num_samples=3, seed=1)  # fmt: skip


@functools.cache
def _swag():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(3),
        ]
    )
    model.compile("sgd", tfr.losses.CategoricalNLL())
    return tfr.ensembles.swag(
        model, _X40, _Y40, num_snapshots=3, steps_per_snapshot=1, rank=2,
        batch_size=20, learning_rate=1e-3, seed=1, verbose=0,
    )  # fmt: skip


_add("ensembles.SWAGPosterior.sample",
     lambda **arguments: _swag().sample(**arguments),
     num_samples=3, seed=1)  # fmt: skip
_add("ensembles.SWAGPosterior.set_data",
     lambda **arguments: _swag().set_data(**arguments), x=_X)  # fmt: skip
_add(
    "Posterior.save",
    lambda **arguments: _posterior().save(**arguments),
    path="a.posterior",
)
_add("Posterior.export",
     lambda **arguments: _posterior().export(**arguments), path="exported",
     num_samples=2)  # fmt: skip
for _name in ("member", "weights_of"):
    _add(
        f"EnsemblePosterior.{_name}",
        lambda method=_name, **arguments: getattr(
            _posterior("deep_ensemble"), method
        )(**arguments),
        index=1,
    )
BASES["posterior"] = Base(
    lambda **arguments: tfr.posterior(**arguments).predict(_X, 2, seed=1),
    lambda: {"model": posterior_cases.network(bayesian=True)},
)
BASES["load_posterior"] = Base(
    lambda **arguments: tfr.load_posterior(**arguments).predict(_X, 2, seed=1),
    lambda: {"path": _saved()},
)


@functools.cache
def _saved():
    folder = tempfile.mkdtemp()
    path = pathlib.Path(folder) / "saved.posterior"
    _posterior().save(path)
    return path


BASES["elbo"] = Base(
    tfr.elbo,
    lambda: {"model": posterior_cases.network(bayesian=True), "x": _X40,
             "y": _Y40, "num_samples": 2, "seed": 1},
    _WEIGHTS,
)  # fmt: skip
_add("posteriors.fast_gradient_sign", tfr.posteriors.fast_gradient_sign,
     model=posterior_cases.network(bayesian=True), x=_X40, y=_Y40, seed=1,
     num_samples=2)  # fmt: skip


def _predicts(make):
    return lambda **arguments: make(**arguments).predict(_X, 2, seed=1)


_TINY_REFINE = {
    "x": _X40, "y": _Y40, "num_members": 1, "variance_ratios": (0.5,),
    "steps": 2, "num_eval_samples": 1, "seed": 1, "verbose": 0,
}  # fmt: skip
BASES["refine"] = Base(
    _predicts(tfr.refine),
    lambda: {"model": posterior_cases.network(bayesian=True), **_TINY_REFINE},
    _WEIGHTS,
)


def _refined_by_callback(**arguments):
    callback = tfr.RefinementCallback(**arguments)
    model = keras.models.clone_model(posterior_cases.network(bayesian=True))
    tfr.layers.set_num_train_examples(model, 40)
    model.compile("sgd", posterior_cases.network(bayesian=True).loss,
                  run_eagerly=True)  # fmt: skip
    model.fit(_X40, _Y40, epochs=1, verbose=0, callbacks=[callback])
    return callback.ensemble.predict(_X, 2, seed=1)


_add("RefinementCallback", _refined_by_callback, _WEIGHTS, **_TINY_REFINE)
_add("refinement.AdaptiveSteps",
     lambda **a: tfr.refine(
         posterior_cases.network(bayesian=True),
         **{**_TINY_REFINE, "steps": tfr.refinement.AdaptiveSteps(**a)}
     ).predict(_X, 2, seed=1) if hasattr(tfr, "refinement") else None,
     budget=4)  # fmt: skip
_TRAINED = {"x": _X40, "y": _Y40, "batch_size": 20, "seed": 1, "verbose": 0}
for _room, _name, _tiny in (
    ("ensembles", "deep_ensemble", {"num_members": 2, "steps": 2}),
    ("ensembles", "swag", {"num_snapshots": 2, "steps_per_snapshot": 1,
                           "rank": 2, "learning_rate": 1e-3}),
    ("sampling", "cyclical_sghmc",
     {"num_cycles": 1, "samples_per_cycle": 2, "steps_per_cycle": 4,
      "steps_per_sample": 1, "learning_rate": 1e-3}),
):  # fmt: skip
    BASES[f"{_room}.{_name}"] = Base(
        _predicts(getattr(getattr(tfr, _room), _name)),
        lambda tiny=_tiny: {
            "model": posterior_cases.network(), **_TRAINED, **tiny,
        },
        _WEIGHTS,
    )  # fmt: skip
BASES["refined_deep_ensemble"] = Base(
    _predicts(tfr.refined_deep_ensemble),
    lambda: {
        "model": posterior_cases.network(), **_TRAINED, "num_networks": 2,
        "steps": 2, "refine_steps": 1, "variance_ratios": (0.5,),
        "kl_scales": (0.1,), "short_training": 0.5, "held_out_fraction": 0.2,
    },
    _WEIGHTS,
)  # fmt: skip
BASES["posteriors.concatenate"] = Base(
    _predicts(tfr.posteriors.concatenate),
    lambda: {"ensembles": [_posterior("deep_ensemble")] * 2},
)
BASES["recipes.narrow_posteriors"] = Base(
    _predicts(tfr.recipes.narrow_posteriors),
    lambda: {
        "ensemble": _posterior("deep_ensemble"),
        "kl_scales": [1.0] * _posterior("deep_ensemble").num_members,
        "num_train_examples": 40, "scale": 0.01, "seed": 1,
    },
)  # fmt: skip
for _name in ("nuts", "nuts_last_layer"):
    BASES[f"sampling.{_name}"] = Base(
        _predicts(getattr(tfr.sampling, _name)),
        lambda: {
            "laplace": _posterior(), "num_chains": 2, "num_warmup": 5,
            "num_samples": 5, "jit_compile": False, "max_tree_depth": 2,
            "seed": 1, "verbose": 0,
        },
    )  # fmt: skip
_CHAINS = _RNG.normal(size=(20, 2, 3))
for _name in ("effective_sample_size", "r_hat"):
    # NaN where all are equal.
    _add(
        f"sampling.{_name}",
        lambda samples, name=_name: np.nan_to_num(
            getattr(tfr.sampling, name)(samples)
        ),
        samples=_CHAINS,
    )


def _laplace(**arguments):
    kind = arguments.pop("kind")
    return kind(**arguments).fit(_X40, _Y40, verbose=0).predict(_X, 2, seed=1)


for _name in ("LastLayerLaplace", "DiagonalLaplace"):
    BASES[f"laplace.{_name}"] = Base(
        functools.partial(_laplace, kind=getattr(tfr.laplace, _name)),
        lambda: {"model": posterior_cases.network(),
                 "likelihood": "classification"},
    )  # fmt: skip


def _fitted(**arguments):
    laplace = tfr.laplace.LastLayerLaplace(
        posterior_cases.network(), "classification"
    )
    return laplace.fit(**arguments).predict(_X, 2, seed=1)


_add("laplace.Laplace.fit", _fitted, _WEIGHTS, x=_X40, y=_Y40, verbose=0)
_add(
    "laplace.Laplace.linearized_outputs",
    lambda **arguments: _posterior().linearized_outputs(**arguments),
    x=_X,
)
_add(
    "laplace.Laplace.predict_moments",
    lambda **arguments: _posterior(kind="regression").predict_moments(
        **arguments
    ),
    x=_X,
)
_add(
    "laplace.Laplace.log_marginal_likelihood",
    lambda **arguments: _posterior(kind="regression").log_marginal_likelihood(
        **arguments
    ),
    prior_precision=1.0,
    noise_scale=1.0,
)


def _tuned(**arguments):
    laplace = tfr.laplace.LastLayerLaplace(
        posterior_cases.network(), "classification"
    ).fit(_X40, _Y40, verbose=0)
    laplace.optimize_prior_precision(**arguments)
    return laplace.predict(_X, 2, seed=1)


_add("laplace.Laplace.optimize_prior_precision", _tuned,
     {"grid": np.logspace(-1, 1, 3)}, method="marginal_likelihood",
     verbose=0)  # fmt: skip
_add(
    "laplace.Laplace.refine",
    lambda **arguments: _posterior().refine(**arguments).predict(
        _X, 2, seed=1
    ),
    _WEIGHTS,
    x=_X40, y=_Y40, flow_length=1, epochs=1, num_samples=2, seed=1, verbose=0,
)  # fmt: skip
_add(
    "laplace.EvidenceBound.elbo",
    lambda **arguments: _posterior().elbo(**arguments),
    num_samples=2,
    seed=1,
)


def _scaled(**arguments):
    return tfr.ensembles.TemperatureScaling(
        **{"model": posterior_cases.network(), **arguments}
    )


BASES["ensembles.TemperatureScaling"] = Base(
    lambda **arguments: _scaled(**arguments).fit(_X40, _Y40).predict(_X, 2),
    lambda: {"model": posterior_cases.network()},
)
_add("ensembles.TemperatureScaling.fit",
     lambda **arguments: _scaled().fit(**arguments).predict(_X, 2), _WEIGHTS,
     x=_X40, y=_Y40)  # fmt: skip
_add("ensembles.stacking_weights", tfr.ensembles.stacking_weights,
     log_likelihood=np.log([[0.5, 0.1], [0.2, 0.3]]),
     sample_weight=[1.0, 2.0], concentration=2.0)  # fmt: skip

# Squares may be too large for a float.
_IN_GRAPH = ("datasets.Standardizer.", "datasets.crop_and_flip",
             "layers.", "losses.", "bijectors.", "metrics.predictive_variance",
             "metrics.gaussian_neg", "metrics.moment_matched",
             "metrics.BrierScore", "metrics.ExpectedCalibrationError",
             "metrics.MeanLoss", "metrics.NegativeLogLikelihood")  # fmt: skip
for _name, _base in BASES.items():
    if _name.startswith(_IN_GRAPH):
        BASES[_name] = _base._replace(in_graph=True)

# Of which a case takes milliseconds.
_QUICK = ("bijectors.", "callbacks.linear", "datasets.", "layers.Dense",
          "layers.Conv1D", "losses.", "metrics.", "models.MLP",
          "regularizers.", "sampling.effective", "sampling.r_hat")  # fmt: skip


def is_quick(name):
    """Says whether a case of a callable takes milliseconds."""
    return name.startswith(_QUICK)
