# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Multiplicative normalizing flows
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/mnf.ipynb)
#
# A mean-field posterior treats all weights as independent. A multiplicative normalizing
# flow multiplies the weights of each input or filter by a random factor, and couples
# these factors by a flow. The posterior is then correlated and not Gaussian, at the
# cost of a few small matrix products. We look at a regression far from its data, and at
# a rotated digit. This takes about two minutes on one CPU core.
#
# Method: [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961).
#
# By the tfp_refine authors; [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0).

# %%
# Installs the package if it is missing, as on Colab, and those of its
# requirements that are missing or too old.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("tfp_refine") is None:
    package = "tfp_refine[tf,plot]"
    source = "git+https://github.com/tfp-refine/tfp_refine"
    subprocess.check_call(
        [sys.executable, "-m", "pip", "install", "-q", f"{package} @ {source}"]
    )

# %%
import functools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Hides TensorFlow's logs.

import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

keras.utils.set_random_seed(1)

# %% [markdown]
# ## Twenty points of a cubic function
# The data follow `y = x**3 + e`, with known noise `e ~ N(0, 3**2)`. There are none
# outside [-4, 4], where predictions should become uncertain.

# %%
rng = np.random.default_rng(2)
x = rng.uniform(-4.0, 4.0, size=(20, 1))
y = x**3 + 3.0 * rng.normal(size=(20, 1))
grid = np.linspace(-6.0, 6.0, 241)[:, None]
unit_x, unit_y = x.std(), y.std()


def predict_cubic(flow_length):
    """Fits a network with 100 hidden units; returns mean and scale."""
    model = tfr.models.MLP(
        (1,),
        hidden=(100,),
        layer=functools.partial(tfr.layers.DenseMNF, flow_length=flow_length),
        num_train_examples=len(x),
        seed=1,
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        tfr.losses.GaussianNLL(3.0 / unit_y),
        steps_per_execution=100,
        jit_compile=False,
    )
    model.fit(
        tfr.datasets.training_batches(
            (x / unit_x).astype("float32"),
            (y / unit_y).astype("float32"),
            batch_size=len(x),
            seed=1,
        ),
        steps_per_epoch=6000,
        shuffle=False,
        verbose=0,
    )
    draws = unit_y * tfr.predict(model, grid / unit_x, 200, seed=1)[..., 0]
    return {
        "mean": draws.mean(axis=0),
        "scale": np.sqrt(draws.var(axis=0) + 3.0**2),
    }


# %% [markdown]
# `flow_length=0` leaves out the factors, so that the posterior is mean-field. All else
# is the same. The bands are one, two and three standard deviations wide.

# %%
predictors = {
    "mean field": predict_cubic(0),
    "multiplicative flow": predict_cubic(2),
}
axes = plotting.predictive_bands(
    grid[:, 0], predictors, (x[:, 0], y[:, 0]), truth=grid[:, 0] ** 3
)
for name, values in predictors.items():
    print(f"{name:20s} standard deviation at x = 6: {values['scale'][-1]:.1f}")

# %% [markdown]
# ## Digits
# The data are 1437 images of 8 x 8 pixels that come with scikit-learn. The model is
# LeNet-5 with a flow in each layer. Its KL divergence is estimated with one draw per
# step; the layers add it to the loss, divided by the number of training images.

# %%
raw = tfr.datasets.load_images("digits")
data = tfr.datasets.standardized_images(raw)


def classifier(**arguments):
    """Trains LeNet-5."""
    model = tfr.models.LeNet5MNF(
        data.x_train.shape[1:],
        num_train_examples=len(data.x_train),
        widths=(6, 16, 60, 42),
        padding="same",
        kernel_regularizer=tfr.regularizers.CollapsedMeanKL(0.05),
        seed=1,
        **arguments,
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        tfr.losses.CategoricalNLL(),
        steps_per_execution=50,
        jit_compile=False,
    )
    model.fit(
        tfr.datasets.training_batches(
            data.x_train, data.y_train, batch_size=128, seed=1
        ),
        steps_per_epoch=1000,
        shuffle=False,
        verbose=0,
    )
    return model


models = {
    "mean field": classifier(flow_length=0),
    "multiplicative flow": classifier(),
}
for name, model in models.items():
    logits = tfr.predict(model, data.x_test, num_samples=100, seed=1)
    nll = tfr.metrics.negative_log_likelihood(
        data.y_test, logits, from_logits=True
    )
    accuracy = tfr.metrics.accuracy(data.y_test, logits, from_logits=True)
    print(f"{name:20s} NLL {nll:.3f}  accuracy {accuracy:.3f}")

# %% [markdown]
# Both posteriors have about the same test metrics. They differ on inputs that are unlike
# the training images.
#
# ## A rotated digit
# Each dot is the probability under one draw of the weights. Where the draws disagree,
# the model is uncertain: here the flow is less certain than the mean field that a digit
# rotated by 60 degrees is a 9.

# %%
angles = np.arange(0, 181, 15)
digit = raw.x_test[data.y_test == 3][:1]
rotated = np.concatenate([tfr.datasets.rotate_images(digit, a) for a in angles])
x_rotated = tfr.datasets.standardize_pixels(rotated, data.scaler)


def probabilities(model):
    """Returns class probabilities of 50 draws, `[50, A, C]`."""
    logits = tfr.predict(model, x_rotated, num_samples=50, seed=2)
    return np.asarray(keras.ops.softmax(logits))


axes = plotting.rotated_digit(
    rotated,
    angles,
    {name: probabilities(model) for name, model in models.items()},
    class_names=raw.class_names,
)

# %% [markdown]
# ## What to try next
# Refine the posterior of a convolutional network in [A Bayesian convolutional network](https://github.com/tfp-refine/tfp_refine/blob/main/colab/bayesian_cnn.ipynb), or choose a posterior family in [All methods](https://github.com/tfp-refine/tfp_refine/blob/main/docs/methods.md).
