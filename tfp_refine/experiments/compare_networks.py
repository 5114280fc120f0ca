"""The networks that the compared systems train, by name."""

import keras
from absl import flags

from tfp_refine import functional
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import models
from tfp_refine import regularizers
from tfp_refine.experiments import compare_flags
from tfp_refine.experiments import image_models
from tfp_refine.experiments import mnf_flags

FLAGS = flags.FLAGS
_DROPOUT = {"mc_dropout": False, "concrete_dropout": True}  # learned rate
_MULTIPLICATIVE = ("ffg", "mnf")
# Random streams, below the seed.
_WEIGHTS, _DROPPED, _INITIALIZATION = range(30, 33)


def build(name, data, seed, steps):
    """Builds and compiles a network, initialized.

    Args:
        name: Name of a network.
        data: `class_data.Data` or `compare_data.Regression`.
        seed: Integer.
        steps: Steps in which the learning rate falls.

    Returns:
        model: `keras.Model`: of logits, or of means and raw scales.

    Raises:
        ValueError: If the model cannot have such layers.
    """
    x, y = data.train
    weights_seed = functional.seeds.key(seed, _WEIGHTS)
    if name == "map" or name in _DROPOUT:
        model = _deterministic(data, weights_seed)
    else:
        model = _variational(name, data, weights_seed)
    if name in _DROPOUT:
        model = models.to_mc_dropout(
            model,
            FLAGS.dropout,
            num_train_examples=len(x),
            prior_scale=FLAGS.prior_scale,
            learn_rate=_DROPOUT[name],
            seed=functional.seeds.key(seed, _DROPPED),
        )
    compile_network(model, data, steps)
    if name == "vi_iblm":
        initializers.IBLM(
            seed=functional.seeds.key(seed, _INITIALIZATION),
            verbose=FLAGS.progress,
        )(model, x, y)
    return model


def compile_network(model, data, steps):
    """Compiles a network for a training of so many steps."""
    rate = keras.optimizers.schedules.CosineDecay(FLAGS.learning_rate, steps)
    if data.num_classes is not None:
        image_models.compile_classifier(model, rate)
        return
    model.compile(
        optimizer=keras.optimizers.Adam(rate),
        loss=losses.HeteroscedasticGaussianNLL(),
        jit_compile=False,
    )


def _deterministic(data, seed):
    num_examples = len(data.train[1])
    penalty = keras.regularizers.L2(0.5 / (num_examples * FLAGS.prior_scale**2))
    if data.num_classes is None:
        return _regression(
            data,
            seed,
            layer=keras.layers.Dense,
            kernel_regularizer=penalty,
            bias_regularizer=penalty,
        )
    return _classifier(
        data,
        seed,
        "none",
        layers.Conv2DFlipout,
        layers.DenseFlipout,
        {"num_train_examples": num_examples},
    )


def _variational(name, data, seed):
    conv, dense, arguments = _layers(name)
    arguments["num_train_examples"] = len(data.train[1])
    if data.num_classes is None:
        return _regression(data, seed, layer=dense, **arguments)
    variational = image_models.usual_variational(FLAGS.model)
    return _classifier(data, seed, variational, conv, dense, arguments)


def _layers(name):
    """Returns the classes of a network's layers, and their arguments."""
    prior = {
        "vi_eb": regularizers.EmpiricalBayesKL(
            initial_prior_scale=FLAGS.prior_scale
        ),
        "cm": regularizers.CollapsedMeanKL(FLAGS.alpha_reg),
        "cv": regularizers.CollapsedVarianceKL(
            FLAGS.precision_shape, FLAGS.precision_rate
        ),
        "cmv": regularizers.CollapsedMeanVarianceKL(
            FLAGS.precision_shape, FLAGS.precision_rate, FLAGS.alpha_reg
        ),
        "fflu": regularizers.LogUniformKL(),
    }.get(name, regularizers.GaussianKL(FLAGS.prior_scale))
    arguments = {"kernel_regularizer": prior, "bias_regularizer": prior}
    if name in _MULTIPLICATIVE:
        changes = {"flow_length": 0} if name == "ffg" else {}
        return *mnf_flags.layer_classes(**changes), arguments
    mean_field = layers.MeanFieldPosterior(FLAGS.initial_scale)
    fixed = layers.FixedVariancePosterior(FLAGS.initial_scale)
    arguments["kernel_posterior"], arguments["bias_posterior"] = {
        "vi_fv": (fixed, fixed),
        "k_tied": (
            layers.KTiedPosterior(initial_scale=FLAGS.initial_scale),
            mean_field,
        ),
        "low_rank": (
            layers.LowRankPosterior(initial_scale=FLAGS.initial_scale),
            mean_field,
        ),
    }.get(name, (mean_field, mean_field))
    # 0.5: Tomczak et al., 2021. 0.1: the code of Kristiadi et al., 2022.
    arguments["kl_scale"] = {"vi_bd": 0.5, "flipout": 0.1}.get(name, 1.0)
    dense = layers.DenseLocalReparameterization
    if name == "flipout":
        dense = layers.DenseFlipout
    return layers.Conv2DFlipout, dense, arguments


def _regression(data, seed, **arguments):
    noise = (
        {"noise_scale": 1.0}
        if FLAGS.likelihood == "homoscedastic"
        else {"outputs": 2}  # a mean and a raw scale
    )
    return models.MLP(
        data.train[0].shape[1:],
        hidden=compare_flags.hidden(),
        seed=seed,
        **noise,
        **arguments,
    )


def _classifier(data, seed, variational, conv, dense, arguments):
    if FLAGS.model.startswith("resnet"):
        # The same for all, whatever each would have by itself.
        decay = 0.5 / (len(data.train[1]) * FLAGS.prior_scale**2)
        arguments = {"l2": decay, "activation": "selu", **arguments}
    return image_models.build(
        FLAGS.model,
        data.train[0].shape[1:],
        data.num_classes,
        hidden=compare_flags.hidden(),
        variational=variational,
        batch_norm=FLAGS.batch_norm,
        conv_layer=conv,
        dense_layer=dense,
        prior_scale=FLAGS.prior_scale,
        seed=seed,
        layer_arguments=arguments,
    )
