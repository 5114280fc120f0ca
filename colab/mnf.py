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
# A mean-field posterior takes all weights to be independent. A multiplicative
# normalizing flow multiplies the weights of each input, or of each filter, by a
# random number, and couples these numbers by a flow: the posterior is correlated
# and not Gaussian, for a few small products more.
#
# We look at a regression far from its data, and at a digit that turns. About ten
# minutes on a laptop's CPU.
#
# Method: [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961).
#
# By the tfp_refine authors; [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0).

# %%
# Only where the package is missing, as on Colab: install it.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("tfp_refine") is None:
    package = "tfp_refine[tf,tfds,plot]"
    source = "git+https://github.com/tfp-refine/tfp_refine"
    subprocess.check_call(
        [sys.executable, "-m", "pip", "install", "-q", f"{package} @ {source}"]
    )

# %%
import functools
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

# Fewer steps where only the code is tested.
FAST = os.environ.get("TFP_REFINE_FAST") == "1"
keras.utils.set_random_seed(1)

# %% [markdown]
# ## Twenty points of a cubic function
# `y = x**3 + e`, where the noise `e` is known to be `N(0, 3**2)`. What is a model
# sure of outside of [-4, 4], where there are no points?

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
        jit_compile=False,
    )
    model.fit(
        tfr.datasets.training_batches(
            (x / unit_x).astype("float32"),
            (y / unit_y).astype("float32"),
            batch_size=len(x),
            seed=1,
        ),
        steps_per_epoch=100 if FAST else 10000,
        shuffle=False,
        verbose=0,
    )
    draws = unit_y * tfr.predict(model, grid / unit_x, 200, seed=1)[..., 0]
    return {
        "mean": draws.mean(axis=0),
        "scale": np.sqrt(draws.var(axis=0) + 3.0**2),
    }


# %% [markdown]
# `flow_length=0` leaves out the multipliers: the posterior is mean-field, and all
# else is the same.

# %%
predictors = {
    "mean field": predict_cubic(0),
    "multiplicative flow": predict_cubic(2),
}
axes = plotting.predictive_bands(
    grid[:, 0], predictors, (x[:, 0], y[:, 0]), truth=grid[:, 0] ** 3
)

# %% [markdown]
# ## Digits
# 1437 images of 8x8 pixels, which come with scikit-learn. LeNet-5 with a flow in
# each layer. Its KL divergence is random, one draw a step, and enters the loss by
# itself, divided by the number of training images.

# %%
raw = tfr.datasets.load_images("digits")
data = tfr.datasets.standardized_images(raw)


def classifier(**arguments):
    """Trains LeNet-5."""
    model = tfr.models.LeNet5MNF(
        data.x_train.shape[1:],
        num_train_examples=len(data.x_train),
        widths=(6, 16, 120, 84),
        padding="same",
        kernel_regularizer=tfr.regularizers.CollapsedMeanKL(0.05),
        seed=1,
        **arguments,
    )
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    model.fit(
        tfr.datasets.training_batches(
            data.x_train, data.y_train, batch_size=128, seed=1
        ),
        steps_per_epoch=30 if FAST else 3000,
        shuffle=False,
        verbose=0 if FAST else 1,
    )
    return model


models = {
    "mean field": classifier(flow_length=0),
    "multiplicative flow": classifier(),
}
NUM_SAMPLES = 20 if FAST else 100
for name, model in models.items():
    logits = tfr.predict(model, data.x_test, NUM_SAMPLES, seed=1)
    nll = tfr.metrics.negative_log_likelihood(
        data.y_test, logits, from_logits=True
    )
    accuracy = tfr.metrics.accuracy(data.y_test, logits, from_logits=True)
    print(f"{name:20s} log likelihood {-nll:.4f}  accuracy {accuracy:.4f}")

# %% [markdown]
# ## A digit that turns
# Each dot is what one draw of the weights says. Where the draws part, the network
# knows that it does not know.

# %%
angles = np.arange(0, 181, 15)
digit = raw.x_test[data.y_test == 3][:1]
turned = np.concatenate([tfr.datasets.rotate_images(digit, a) for a in angles])
turned_x = tfr.datasets.standardize_pixels(turned, data.scaler)


def softmax(logits):
    return np.asarray(keras.ops.softmax(logits))


axes = plotting.rotated_digit(
    turned,
    angles,
    {
        name: softmax(tfr.predict(model, turned_x, NUM_SAMPLES, seed=2))
        for name, model in models.items()
    },
    class_names=raw.class_names,
)
