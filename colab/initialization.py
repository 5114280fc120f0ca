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
# # Data-driven initialization
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/initialization.ipynb)
#
# Variational inference in a deep network often does not get off the ground: with
# posteriors that start anywhere, the outputs are noise, and all that the
# optimizer learns is to make everything noise. I-BLM starts each layer at the
# posterior of a Bayesian linear regression on the data, in one call.
#
# We look at a function of one variable, and at a deep network that trains with
# I-BLM alone. About five minutes on a laptop's CPU.
#
# Method: [Rossi et al., 2019](https://arxiv.org/abs/1810.08083).
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
# ## A function of one variable
# 512 points, and a network with three hidden layers of 20 tanh units.

# %%
rng = np.random.default_rng(1)


def function(x):
    return np.sin(x) + np.sin(x / 2) + np.sin(x / 3) - np.sin(x / 4)


x = rng.uniform(-10.0, 10.0, size=(512, 1))
y = function(x) + np.exp(-2.0) * rng.normal(size=x.shape)
grid = np.linspace(-13.0, 13.0, 261)[:, None]
x_train, y_train = (
    ((v - v.mean()) / v.std()).astype("float32") for v in (x, y)
)
loss = tfr.losses.HeteroscedasticGaussianNLL()


def predict(model):
    """Returns the predictive mean and scale on the grid."""
    draws = tfr.predict(model, (grid - x.mean()) / x.std(), 100, seed=1)
    loc, noise = (np.asarray(v)[..., 0] for v in loss.loc_and_scale(draws))
    variance = loc.var(axis=0) + np.square(noise).mean(axis=0)
    return {
        "mean": y.mean() + y.std() * loc.mean(axis=0),
        "scale": y.std() * np.sqrt(variance),
    }


def fit_function(initializer):
    """Returns predictions before training and after it."""
    model = tfr.models.MLP(
        (1,),
        hidden=(20, 20, 20),
        activation="tanh",
        noise_scale=np.exp(-1.0),
        kernel_regularizer=tfr.regularizers.GaussianKL("he"),
        num_train_examples=len(x),
        seed=1,
    )
    model.compile(keras.optimizers.Adam(3e-3), loss, jit_compile=False)
    initializer(model, x_train, y_train)
    before = predict(model)
    model.fit(
        tfr.datasets.training_batches(x_train, y_train, 64, seed=1),
        steps_per_epoch=100 if FAST else 10000,
        shuffle=False,
        verbose=0,
    )
    return before, predict(model)


# %% [markdown]
# `Heuristic` starts with mean zero and variance one over the fan-in, as is usual.
# The call `initializer(model, x, y)` is the same for all initializers.

# %%
before, after = {}, {}
for name, initializer in {
    "heuristic": tfr.initializers.Heuristic(),
    "I-BLM": tfr.initializers.IBLM(seed=1),
}.items():
    before[f"{name}, at start"], after[f"{name}, trained"] = fit_function(
        initializer
    )
axes = plotting.predictive_bands(
    grid[:, 0],
    before | after,
    (x[:, 0], y[:, 0]),
    truth=function(grid[:, 0]),
)

# %% [markdown]
# ## A deep network
# Eight hidden layers of 100 units for the heating load of 768 buildings (energy),
# whose standard deviation is 10. Error and negative log likelihood of the test set
# during training:

# %%
split = tfr.datasets.train_test_split(tfr.datasets.load_uci("energy"), split=0)


def train_deep(initializer):
    """Returns metrics on the test set during training."""
    model = tfr.models.MLP(
        split.x_train.shape[1:],
        hidden=(100,) * 8,
        noise_scale=np.exp(-1.0),
        kernel_regularizer=tfr.regularizers.GaussianKL("he"),
        num_train_examples=len(split.x_train),
        seed=1,
    )
    model.compile(keras.optimizers.Adam(1e-3), loss, jit_compile=False)
    initializer(model, split.x_train, split.y_train)
    curve = {"step": [], "error": [], "mnll": []}
    batches = tfr.datasets.training_batches(
        split.x_train, split.y_train, 64, seed=1
    )
    steps = 20 if FAST else 200
    for segment in range(3 if FAST else 16):
        if segment:
            model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
        draws = tfr.predict(model, split.x_test, 100, seed=1)
        loc, scale = map(np.asarray, loss.loc_and_scale(draws))
        curve["step"].append(segment * steps)
        curve["error"].append(
            tfr.metrics.root_mean_squared_error(
                split.y_test_original, split.y_scaler.inverse(loc)
            )
        )
        nll = tfr.metrics.gaussian_negative_log_likelihood(
            split.y_test, loc, scale
        )
        curve["mnll"].append(-split.y_scaler.inverse_log_likelihood(-nll))
    return curve


# %%
curves = {
    name: [train_deep(initializer)]
    for name, initializer in {
        "uninformative": tfr.initializers.Uninformative(),
        "heuristic": tfr.initializers.Heuristic(),
        "LSUV": tfr.initializers.LSUV(seed=1),
        "I-BLM": tfr.initializers.IBLM(seed=1),
    }.items()
}
for name, (curve,) in curves.items():
    print(
        f"{name:15s} MNLL {curve['mnll'][-1]:.2f}  RMSE {curve['error'][-1]:.2f}"
    )
axes = plotting.convergence(
    curves,
    {
        "error": "test RMSE (original units)\nlower is better",
        "mnll": "test MNLL (nats)\nlower is better",
    },
)

# %% [markdown]
# From the others the network learns little more than the mean; with I-BLM it is
# there before the first step. Where it goes from there is up to the bound, which
# in so deep a mean-field network ends up preferring a worse fit.
#
# I-BLM's options are arguments, such as the size of mini-batches. All
# initializers on several data sets:
# `python -m tfp_refine.experiments.initialization`.
