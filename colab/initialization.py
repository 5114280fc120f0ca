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
# Badly initialized posteriors give a deep network noisy outputs, and variational
# inference then collapses to the prior. I-BLM initializes each layer with the posterior
# of a Bayesian linear regression on the data, in one call. We use it for a function of
# one variable and for a deep network. This takes about two minutes on one CPU core.
#
# Method: [Rossi et al., 2019](https://arxiv.org/abs/1810.08083).
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
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Hides TensorFlow's logs.

import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

keras.utils.set_random_seed(1)

# %% [markdown]
# ## A function of one variable
# The data are 512 points; the network has three hidden layers of 20 tanh units.

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
    """Returns predictions before and after training."""
    model = tfr.models.MLP(
        (1,),
        hidden=(20, 20, 20),
        activation="tanh",
        noise_scale=np.exp(-1.0),
        kernel_regularizer=tfr.regularizers.GaussianKL("he"),
        num_train_examples=len(x),
        seed=1,
    )
    model.compile(
        keras.optimizers.Adam(3e-3),
        loss,
        steps_per_execution=100,
        jit_compile=False,
    )
    initializer(model, x_train, y_train)
    before = predict(model)
    model.fit(
        tfr.datasets.training_batches(x_train, y_train, 64, seed=1),
        steps_per_epoch=6000,
        shuffle=False,
        verbose=0,
    )
    return before, predict(model)


# %% [markdown]
# `Heuristic` is the usual choice: mean zero, and variance one over the number of inputs.
# All initializers are called in the same way, `initializer(model, x, y)`.

# %%
before, after = {}, {}
for name, initializer in {
    "heuristic": tfr.initializers.Heuristic(),
    "I-BLM": tfr.initializers.IBLM(seed=1),
}.items():
    before[f"{name}, initialized"], after[f"{name}, trained"] = fit_function(
        initializer
    )
axes = plotting.predictive_bands(
    grid[:, 0],
    before | after,
    (x[:, 0], y[:, 0]),
    truth=function(grid[:, 0]),
)

# %% [markdown]
# From the heuristic, training collapses to a constant with a wide band. From I-BLM it
# finds the shape of the function.
#
# ## A deep network
# Eight hidden layers of 100 units predict the heating load of 768 buildings (energy),
# whose standard deviation is 10. The figure shows the root mean squared error (RMSE)
# and the mean negative log likelihood (MNLL) of the test set during training.

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
    model.compile(
        keras.optimizers.Adam(1e-3),
        loss,
        steps_per_execution=50,
        jit_compile=False,
    )
    initializer(model, split.x_train, split.y_train)
    curve = {"step": [], "error": [], "mnll": []}
    batches = tfr.datasets.training_batches(
        split.x_train, split.y_train, 64, seed=1
    )
    for step in range(0, 1601, 200):
        if step:
            model.fit(batches, steps_per_epoch=200, shuffle=False, verbose=0)
        draws = tfr.predict(model, split.x_test, num_samples=100, seed=1)
        loc, scale = map(np.asarray, loss.loc_and_scale(draws))
        error = tfr.metrics.root_mean_squared_error(
            split.y_test_original, split.y_scaler.inverse(loc)
        )
        nll = tfr.metrics.gaussian_negative_log_likelihood(
            split.y_test, loc, scale
        )
        curve["step"].append(step)
        curve["error"].append(error)
        curve["mnll"].append(-split.y_scaler.inverse_log_likelihood(-nll))
    return curve


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
        f"{name:14s} MNLL {curve['mnll'][-1]:.2f}  RMSE {curve['error'][-1]:.2f}"
    )
axes = plotting.convergence(
    curves,
    {
        "error": "test RMSE (original units)\nlower is better",
        "mnll": "test MNLL (nats)\nlower is better",
    },
)

# %% [markdown]
# From uninformative posteriors and from LSUV, the network learns little more than the
# mean of the targets, and from the heuristic it learns slowly. With I-BLM it predicts
# well before the first step. Training optimizes the bound, not these metrics: for so
# deep a mean-field network the two disagree, and the fit of I-BLM becomes slightly worse.
#
# `python -m tfp_refine.experiments.initialization` compares all initializers on several
# data sets.
#
# ## What to try next
# Replace the Gaussian posterior by a richer one in [Multiplicative normalizing flows](https://github.com/tfp-refine/tfp_refine/blob/main/colab/mnf.ipynb), or read about the options of each initializer in [Initialization](https://github.com/tfp-refine/tfp_refine/blob/main/docs/initialization.md).
