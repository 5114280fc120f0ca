"""The trained models that posteriors are made of."""

import zipfile

import keras
import numpy as np
from absl import flags

from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.experiments import image_models
from tfp_refine.experiments import laplace_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import training

FLAGS = flags.FLAGS


def is_file():
    """Tells whether --model is the file of a trained model."""
    return FLAGS.model.endswith(".keras")


def load(data):
    """Loads a trained model.

    Args:
        data: `class_data.Data`.

    Returns:
        model: `keras.Model`.

    Raises:
        ValueError: If the file cannot be read, or the model does not fit.
    """
    try:
        model = keras.models.load_model(FLAGS.model, compile=False)
    except (
        OSError,
        KeyError,
        TypeError,
        ValueError,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            "--model must be the file of a Keras model. "
            f"Received: {FLAGS.model} ({error})"
        ) from error
    network = functional.LastLayerView(model)
    x = functional.data.inputs(data.train[0][:2])
    try:
        functional.data.check_fits(model, x)
        network.check_inputs(x)
    except ValueError as error:
        raise ValueError(f"--model={FLAGS.model}: {error}") from error
    num_classes = max(2, network.num_outputs)
    if num_classes != data.num_classes:
        raise ValueError(
            f"--model must have an output for each of {data.num_classes} "
            f"classes. Received: {FLAGS.model}, for {num_classes}"
        )
    return model


def build(data):
    """Builds and compiles a classifier.

    Args:
        data: `class_data.Data`.

    Returns:
        model: `keras.Model` that returns logits.

    Raises:
        ValueError: If there is no such model.
    """
    x = data.train[0]
    hidden = tuple(run_flags.numbers("hidden", int))
    if FLAGS.model == "gru":
        model = _gru(x, data.num_classes, hidden[0])
    else:
        model = image_models.build(
            FLAGS.model,
            x.shape[1:],
            data.num_classes,
            hidden=hidden,
            variational="none",
            batch_norm=FLAGS.model.startswith("resnet"),
            conv_layer=layers.Conv2DFlipout,
            dense_layer=layers.DenseFlipout,
            prior_scale=FLAGS.prior_scale,
            seed=FLAGS.seed,
            layer_arguments={"num_train_examples": len(x)},
        )
    image_models.compile_classifier(
        model,
        keras.optimizers.schedules.CosineDecay(
            FLAGS.learning_rate, laplace_flags.train_steps(len(x))
        ),
    )
    return model


def train(model, data, directory):
    """Trains a model, resumably.

    Args:
        model: What `build` returned.
        data: `class_data.Data`.
        directory: Folder of the training's files.

    Returns:
        trained: `training.Training`.
    """
    x, y = data.train
    return training.train(
        model,
        x,
        y,
        steps=laplace_flags.train_steps(len(x)),
        batch_size=min(FLAGS.batch_size, len(x)),
        seed=functional.seeds.key(FLAGS.seed),
        directory=directory,
        segment_steps=FLAGS.checkpoint_steps,
        tensorboard=FLAGS.tensorboard,
        verbose=int(FLAGS.progress),
    )


def _gru(x, num_classes, units):
    """Builds a recurrent network of words, or of the rows of images."""
    penalty = keras.regularizers.L2(0.5 / (len(x) * FLAGS.prior_scale**2))
    seeds = [functional.seeds.key(FLAGS.seed, number) for number in range(3)]

    def initializer(number, name="glorot_uniform"):
        return keras.initializers.get(
            {"class_name": name, "config": {"seed": seeds[number]}}
        )

    if np.issubdtype(x.dtype, np.integer):
        inputs = keras.Input(x.shape[1:], dtype="int32", name="inputs")
        sequence = keras.layers.Embedding(
            FLAGS.vocabulary,
            FLAGS.embedding,
            embeddings_initializer=initializer(0, "random_uniform"),
            embeddings_regularizer=penalty,
            mask_zero=True,
            name="embedding",
        )(inputs)
    else:
        inputs = keras.Input(x.shape[1:], name="inputs")
        sequence = keras.layers.Reshape((x.shape[1], -1), name="rows")(inputs)
    features = keras.layers.GRU(
        units,
        kernel_initializer=initializer(1),
        recurrent_initializer=initializer(1, "orthogonal"),
        kernel_regularizer=penalty,
        recurrent_regularizer=penalty,
        bias_regularizer=penalty,
        name="gru",
    )(sequence)
    outputs = keras.layers.Dense(
        num_classes,
        kernel_initializer=initializer(2),
        kernel_regularizer=penalty,
        bias_regularizer=penalty,
        name="logits",
    )(features)
    return keras.Model(inputs, outputs, name="gru")
