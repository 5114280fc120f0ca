"""The networks that systems train."""

import dataclasses
import functools
import inspect
import re
import zipfile

import keras
import numpy as np

from tfp_refine import callbacks
from tfp_refine import functional
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import optimizers
from tfp_refine import regularizers
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields
from tfp_refine.functional import likelihoods
from tfp_refine.initializers import iblm

# LeNet-5 as Louizos and Welling have it: for MNIST, and for CIFAR-10.
_LENETS = {"lenet5_caffe": (20, 50, 500), "lenet5_wide": (192, 192, 1000)}
_LARGE = {
    "alexnet": models.AlexNet,
    "resnet18": models.ResNet18,
    "shufflenet": models.ShuffleNet,
    "vision_transformer": models.VisionTransformer,
    "wide_resnet": models.WideResNet,
}
# Models of words, each with a hidden layer or several alike.
_OF_WORDS = ("gru", "text_transformer")
_NAMES = "|".join(
    [
        r"mlp|lenet5|lenet5_caffe|lenet5_wide|resnet\d+|.+\.keras",
        *_LARGE,
        *_OF_WORDS,
    ]
)
# Images from this size on have the first layers of large ones.
_LARGE_IMAGE = 64
# Random streams, below the seed.
_WEIGHTS, _DROPPED, _INITIALIZATION = range(30, 33)


@dataclasses.dataclass(frozen=True)
class Network:
    """A network, as the modifiers of a system describe it.

    Attributes:
        family: "map", a network of point estimates; "ivon", the same, trained
            by IVON; "vi", with variational layers; "ffg" or "mnf", with
            multiplicative layers.
        prior: Name of the prior, for variational and multiplicative layers.
        posterior: Name of the posterior family of variational layers.
        initializer: Name of the initializer of the posteriors, or `None`.
        estimator: How dense variational layers draw their outputs, or `None`
            for the configured one.
        kl_scale: Factor on the configured one.
        dropout: "mc_dropout" or "concrete_dropout" in a network of point
            estimates, or `None`.
    """

    family: str
    prior: str = "gaussian"
    posterior: str = "mean_field"
    initializer: str | None = None
    estimator: str | None = None
    kl_scale: float = 1.0
    dropout: str | None = None

    @property
    def is_random(self):
        """True if predictions are draws."""
        return self.family != "map" or self.dropout is not None


def check_model(config: fields.Bench, kind: str) -> None:
    """Checks that a kind of data can have the configured model.

    Raises:
        ValueError: If not.
    """
    name = config.model
    if not re.fullmatch(_NAMES, name):
        raise ValueError(
            f"--model must be one that --list prints. Received: --model={name}"
        )
    allowed = {
        "regression": r"mlp",
        "table": r"mlp|.+\.keras",
        "texts": r"gru|text_transformer|.+\.keras",
    }.get(kind, "(?!text_transformer).*")
    if not re.fullmatch(allowed, name):
        raise ValueError(
            f"--model={name} is not for --kind={kind}. "
            f"Received: --dataset={config.dataset}"
        )
    if name in _OF_WORDS and len(config.hidden) != 1:
        raise ValueError(
            f"--model={name} needs one number of --hidden units. "
            f"Received: --hidden={config_lib.to_text(config.hidden)}"
        )
    if config.widths and (name != "alexnet" or len(config.widths) != 7):
        raise ValueError(
            "--widths must be seven numbers, for --model=alexnet. Received: "
            f"--widths={config_lib.to_text(config.widths)}, --model={name}"
        )
    if config.activation != "relu" and not re.match("mlp|lenet5", name):
        raise ValueError(
            "--activation is for --model=mlp and lenet5. "
            f"Received: --activation={config.activation}, --model={name}"
        )
    is_resnet = name.startswith("resnet") and name not in _LARGE
    is_hybrid = config.variational == "hybrid"
    has_variants = name in (*_LARGE, "text_transformer")
    if not is_resnet and (
        config.batch_norm or (is_hybrid and not has_variants)
    ):
        raise ValueError(
            "--batch_norm and --variational=hybrid are for ResNets, the latter "
            f"also for {', '.join(_LARGE)} and text_transformer. "
            f"Received: --model={name}"
        )
    if config.scaling != "standardized" and not is_file(config):
        raise ValueError(
            "--scaling is for a trained --model, FILE.keras. "
            f"Received: --scaling={config.scaling}, --model={name}"
        )


def why_not(network: Network, config: fields.Bench) -> str | None:
    """Returns why the configured model cannot be such a network, or `None`."""
    is_plain = network == Network("map")
    if not is_plain and (config.model == "gru" or is_file(config)):
        return (
            f"--model={config.model} is a network of point estimates, without "
            "dropout."
        )
    is_large = config.model.startswith("resnet") or (
        config.model in (*_LARGE, "text_transformer")
    )
    if network.family in ("ffg", "mnf") and is_large:
        return (
            f"--model={config.model} has no multiplicative layers; lenet5 and "
            "mlp have."
        )
    return None


def is_file(config: fields.Bench) -> bool:
    """Returns whether the model is the file of a trained one."""
    return config.model.endswith(".keras")


def build(
    network: Network,
    config: fields.Bench,
    data: dataset.Dataset,
    seed: int,
    penalized: bool = True,
) -> keras.Model:
    """Builds a network, initialized and not compiled.

    It returns logits, or means and raw scales `[B, 2]`. Point estimates have
    the penalty that is their prior, if `penalized`.

    Raises:
        ValueError: If the model cannot be such a network.
    """
    reason = why_not(network, config)
    if reason is not None:
        raise ValueError(reason)
    if is_file(config):
        return load(config, data)
    weights_seed = functional.seeds.key(seed, _WEIGHTS)
    # Rates of dropout come with a penalty of their own.
    regularizer = None
    if penalized and network == Network("map"):
        regularizer = _penalty(config, len(data.train[0]))
    elif network.family == "ivon":
        _number(config)  # which its prior will be
    if config.model == "gru":
        return _gru(config, data, weights_seed, regularizer)
    if network.family in ("map", "ivon"):
        arguments = {
            "conv_layer": keras.layers.Conv2D,
            "dense_layer": keras.layers.Dense,
            "kernel_regularizer": regularizer,
            "bias_regularizer": regularizer,
        }
    else:
        arguments = _random_arguments(network, config)
        arguments["num_train_examples"] = len(data.train[0])
    model = _zoo(network, config, data, {"seed": weights_seed} | arguments)
    if network.dropout is not None:
        model = models.to_mc_dropout(
            model,
            config.dropout,
            num_train_examples=len(data.train[0]),
            prior_scale=prior_scale(config.prior_scale),
            learn_rate=network.dropout == "concrete_dropout",
            seed=functional.seeds.key(seed, _DROPPED),
        )
    return model


def initialize(
    network: Network,
    config: fields.Bench,
    model: keras.Model,
    data: dataset.Dataset,
    seed: int,
) -> None:
    """Initializes posteriors of a compiled model, if the network says so."""
    if network.initializer is None:
        return
    kind = iblm.PaperIBLM
    if network.initializer != "iblm_paper":
        kind = type(initializers.get(network.initializer))
    initializer = kind(
        seed=functional.seeds.key(seed, _INITIALIZATION),
        verbose=config.verbose,
    )
    initializer(model, *data.train)


def compile_network(
    model: keras.Model,
    config: fields.Bench,
    data: dataset.Dataset,
    steps: int,
    network: Network | None = None,
    seed: int | None = None,
) -> None:
    """Compiles a network, one of Adam by default, to be trained for some steps.

    The seed is that of the noise of IVON.

    Raises:
        ValueError: If the prior is none that IVON can have.
    """
    loss, metrics = _loss(model, config, data), []
    if not data.is_regression and not is_file(config):
        metrics = [
            keras.metrics.SparseCategoricalCrossentropy(
                name="nll", from_logits=True
            ),
            keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        ]
    if network is not None and network.family == "ivon":
        optimizer = optimizers.IVON(
            _learning_rate(config, data, steps, config.ivon_learning_rate),
            len(data.train[0]),
            _number(config),
            config.ivon_hessian_init,
            beta_2=1.0 - 1.0 / max(2.0, config.ivon_memory * steps),
            clip_radius=config.ivon_clip_radius,
            seed=seed,
        )
    else:
        optimizer = keras.optimizers.Adam(
            _learning_rate(config, data, steps, config.learning_rate)
        )
    model.compile(
        optimizer,
        loss,
        metrics=metrics,
        jit_compile=False,
    )


def callbacks_of(
    network: Network, config: fields.Bench
) -> list[keras.callbacks.Callback]:
    """Returns the callbacks of a training, for which a segment is an epoch."""
    if network.prior != "optimized":
        return []
    return [callbacks.PriorVarianceOptimization(warmup=config.prior_warmup)]


def _loss(model, config, data):
    """Returns the negative log likelihood of a model's outputs."""
    if data.is_regression:
        return losses.HeteroscedasticGaussianNLL()
    kind, activation = keras.losses.SparseCategoricalCrossentropy, "linear"
    if is_file(config):
        view = functional.LastLayerView(model)
        likelihood = likelihoods.of_kind("classification", view.num_outputs)
        activation = view.find_activation(
            functional.data.inputs(data.train[0][:8]), likelihood.activations
        )
        if view.num_outputs == 1:
            kind = keras.losses.BinaryCrossentropy
    return kind(from_logits=activation == "linear")


def _learning_rate(config, data, steps, rate):
    """Returns a learning rate, a float or a schedule."""
    name = config.learning_rate_schedule
    if name == "constant":
        return rate
    if name == "cosine":
        return keras.optimizers.schedules.CosineDecay(rate, steps)
    if name == "linear":
        return keras.optimizers.schedules.PolynomialDecay(
            rate, steps, end_learning_rate=0.0
        )
    per_epoch = max(1, len(data.train[0]) // config.batch_size)
    return keras.optimizers.schedules.PiecewiseConstantDecay(
        [(epoch + 1) * per_epoch - 1 for epoch in (80, 120, 160, 180)],
        [rate * factor for factor in (1.0, 1e-1, 1e-2, 1e-3, 5e-4)],
    )


def learns_noise(config: fields.Bench, data: dataset.Dataset) -> bool:
    """Returns whether the noise of a regression is one learned number."""
    is_one = config.likelihood == "homoscedastic"
    return data.is_regression and is_one and config.learn_noise


def load(config: fields.Bench, data: dataset.Dataset) -> keras.Model:
    """Loads a trained model from its file.

    Raises:
        ValueError: If the file cannot be read, or the model does not fit.
    """
    try:
        model = keras.models.load_model(config.model, compile=False)
        x = functional.data.inputs(data.train[0][:2])
        view = functional.LastLayerView(model)
        view.fit_inputs(x)
    except (
        OSError,
        KeyError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            "--model must be the file of a Keras model for such data. "
            f"Received: {config.model} ({error})"
        ) from error
    num_classes = max(2, view.num_outputs)
    if num_classes != data.num_classes:
        raise ValueError(
            f"--model must have an output for each of {data.num_classes} "
            f"classes. Received: {config.model}, for {num_classes}"
        )
    return model


def prior_scale(text: str) -> float | str:
    """Returns the standard deviation of a prior, a float or a rule's name."""
    try:
        return float(text)
    except ValueError:
        return text


def _penalty(config, num_examples):
    """Returns the L2 penalty that a Gaussian prior is, in a mean loss."""
    return keras.regularizers.L2(0.5 / (num_examples * _number(config) ** 2))


def _number(config):
    """Returns the scale of a prior that is the same for all weights."""
    scale = prior_scale(config.prior_scale)
    if isinstance(scale, str) or not 0.0 < scale < float("inf"):
        raise ValueError(
            "A network of layers of Keras needs a --prior_scale that is a "
            f"positive number. Received: --prior_scale={scale}"
        )
    return scale


def _random_arguments(network, config):
    """Returns arguments of the layers of a network with posteriors."""
    prior = _prior(network.prior, config)
    arguments = {
        "kernel_regularizer": prior,
        "bias_regularizer": prior,
        "kl_scale": config.kl_scale * network.kl_scale,
    }
    if network.family == "vi":
        scale = config.initial_scale
        kernel = bias = layers.MeanFieldPosterior(scale)
        if network.posterior == "fv":
            kernel = bias = layers.FixedVariancePosterior(scale)
        elif network.posterior == "k_tied":
            kernel = layers.KTiedPosterior(config.posterior_rank, scale)
        elif network.posterior == "low_rank":
            kernel = layers.LowRankPosterior(config.posterior_rank, scale)
        return arguments | {
            "conv_layer": _layer(
                "Conv2D", network.estimator or config.conv_estimator
            ),
            "dense_layer": _layer(
                "Dense", network.estimator or config.dense_estimator
            ),
            "kernel_posterior": kernel,
            "bias_posterior": bias,
        }
    flows = {
        "auxiliary_flow_length": config.mnf_auxiliary_length,
        "auxiliary_flow_units": config.mnf_auxiliary_units,
        "log_var_init": config.log_var_init,
        "max_std": config.max_std,
        "inference_estimator": config.inference_estimator,
        "flow_length": 0,
    }
    if network.family == "mnf":
        flows["flow_length"] = config.mnf_flow_length
        flows["flow_units"] = config.mnf_flow_units
    return arguments | {
        "conv_layer": functools.partial(layers.Conv2DMNF, **flows),
        "dense_layer": functools.partial(layers.DenseMNF, **flows),
    }


def _layer(kind, estimator):
    """Returns a class of variational layers."""
    return getattr(layers, kind + estimator.title().replace("_", ""))


def _prior(name, config):
    """Returns the KL regularizer of a prior; reads the fields of that alone."""
    if name == "gaussian":
        return regularizers.GaussianKL(prior_scale(config.prior_scale))
    if name == "eb":
        return regularizers.EmpiricalBayesKL(
            initial_prior_scale=prior_scale(config.prior_scale),
            learn_mean=config.learn_prior_mean,
        )
    if name == "optimized":
        return regularizers.EmpiricalBayesKL(
            initial_prior_scale=prior_scale(config.prior_scale),
            trainable=False,
        )
    if name == "cm":
        learn = config.learn_alpha_reg
        return regularizers.CollapsedMeanKL(
            config.alpha_reg,
            prior_scale(config.cm_prior_scale),
            learn=None if learn == "no" else learn,
            shared=learn != "no",
        )
    if name == "fflu":
        return regularizers.LogUniformKL()
    if name == "scale_mixture":
        return regularizers.ScaleMixtureKL()
    gamma = config.precision_shape, config.precision_rate
    if name == "cv":
        return regularizers.CollapsedVarianceKL(*gamma)
    return regularizers.CollapsedMeanVarianceKL(*gamma, delta=config.alpha_reg)


def _zoo(network, config, data, arguments):
    """Builds an MLP, a LeNet, a ResNet or another network of images."""
    shape, name = data.train[0].shape[1:], config.model
    if name in _LARGE:
        sizes = {"input_shape": shape, "num_classes": data.num_classes}
        return _large(_LARGE[name], network, config, sizes, arguments)
    if name == "text_transformer":
        sizes = {
            "vocabulary_size": config.vocabulary,
            "length": shape[0],
            "num_classes": data.num_classes,
            "width": config.embedding,
            "hidden_units": config.hidden[0],
        }
        return _large(models.TextTransformer, network, config, sizes, arguments)
    if name == "mlp":
        del arguments["conv_layer"]
        outputs = data.num_classes or 2  # a mean and a raw scale
        if data.is_regression and config.likelihood == "homoscedastic":
            outputs, arguments["noise_scale"] = 1, config.noise_scale
        model = models.MLP(
            shape,
            outputs,
            hidden=config.hidden,
            activation=config.activation,
            layer=arguments.pop("dense_layer"),
            **arguments,
        )
        if "noise_scale" in arguments:
            model.get_layer("noise").trainable = config.learn_noise
        return model
    if not name.startswith("resnet"):
        if name in _LENETS:
            arguments |= {"widths": _LENETS[name], "padding": "valid"}
        arguments["activation"] = config.activation
        return models.LeNet5(shape, data.num_classes, **arguments)
    # Of a ResNet, biases are point estimates, and without posteriors the
    # penalty of all is its own.
    arguments.pop("bias_posterior", None)
    variational = config.variational
    if network.family in ("map", "ivon"):
        variational, arguments = "none", {"seed": arguments["seed"]}
    return models.ResNet(
        shape,
        data.num_classes,
        depth=int(name.removeprefix("resnet")),
        variational=variational,
        batch_norm=config.batch_norm,
        **arguments,
    )


def _large(kind, network, config, sizes, arguments):
    """Builds a network of the zoo, whose penalty, if any, is its own."""
    known = inspect.signature(kind).parameters
    if network.family in ("map", "ivon"):
        arguments = {"seed": arguments["seed"], "variational": "none"}
    else:
        estimators = {
            "depthwise_layer": ("DepthwiseConv2D", config.conv_estimator),
            "attention_layer": ("MultiHeadAttention", config.dense_estimator),
        }
        arguments |= {
            name: _layer(layer, network.estimator or estimator)
            for name, (layer, estimator) in estimators.items()
        }
        arguments["variational"] = config.variational
        arguments = {
            name: arguments[name] for name in arguments.keys() & known.keys()
        }
    if "stem" in known and min(sizes["input_shape"][:2]) >= _LARGE_IMAGE:
        arguments["stem"] = "large"
    if config.widths:
        arguments["widths"] = config.widths
    return kind(**sizes, **arguments)


def _gru(config, data, seed, regularizer):
    """Builds a recurrent network of words, or of the rows of images."""
    shape, dtype = data.train[0].shape[1:], data.train[0].dtype
    seeds = [functional.seeds.key(seed, number) for number in range(3)]
    glorot = keras.initializers.GlorotUniform
    inputs = keras.Input(shape, dtype=dtype, name="inputs")
    if np.issubdtype(dtype, np.integer):
        sequence = keras.layers.Embedding(
            config.vocabulary,
            config.embedding,
            embeddings_initializer=keras.initializers.RandomUniform(
                seed=seeds[0]
            ),
            embeddings_regularizer=regularizer,
            mask_zero=True,
            name="embedding",
        )(inputs)
    else:
        sequence = keras.layers.Reshape((shape[0], -1), name="rows")(inputs)
    features = keras.layers.GRU(
        *config.hidden,
        kernel_initializer=glorot(seeds[1]),
        recurrent_initializer=keras.initializers.Orthogonal(seed=seeds[1]),
        kernel_regularizer=regularizer,
        recurrent_regularizer=regularizer,
        bias_regularizer=regularizer,
        name="gru",
    )(sequence)
    logits = keras.layers.Dense(
        data.num_classes,
        kernel_initializer=glorot(seeds[2]),
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        name="logits",
    )(features)
    return keras.Model(inputs, logits, name="gru")
