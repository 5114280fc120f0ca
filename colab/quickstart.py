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
# # A Bayesian neural network, refined
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/quickstart.ipynb)
#
# We fit a small Bayesian network to a real regression set, the resistance of
# sailing yachts, with mean-field variational inference, and refine it into an
# ensemble with one callback. A few minutes on a laptop's CPU.
#
# Method: [Havasi et al., 2021](https://doi.org/10.3390/e23111475).
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
import matplotlib.pyplot as plt
import numpy as np

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

# Fewer steps where only the code is tested.
FAST = os.environ.get("TFP_REFINE_FAST") == "1"
keras.utils.set_random_seed(1)

# %% [markdown]
# ## Data
# 308 yachts, 6 features. Standardized by the 246 of the training split.

# %%
split = tfr.datasets.train_test_split(tfr.datasets.load_uci("yacht"), split=1)
x_train, y_train = split.x_train, split.y_train
x_train.shape, split.x_test.shape

# %% [markdown]
# ## A Bayesian multilayer perceptron
# Variational layers take all arguments of `keras.layers.Dense`, and need to know
# how large the training set is, to weigh the prior. Prior and posterior have
# arguments of their own; by default weights are `N(0, 1)` a priori and
# independent Gaussians a posteriori. The last layer learns the scale of the
# observation noise.

# %%
inputs = keras.Input((6,))
hidden = tfr.layers.DenseLocalReparameterization(
    50, activation="relu", num_train_examples=len(x_train)
)(inputs)
means = tfr.layers.DenseLocalReparameterization(
    1, num_train_examples=len(x_train)
)(hidden)
outputs = tfr.layers.HomoscedasticNoise()(means)
model = keras.Model(inputs, outputs)
model.summary()

# %% [markdown]
# ## Fit, and refine at the end
# The callback leaves the model as training leaves it, and holds an ensemble of
# refined posteriors.

# %%
callback = tfr.RefinementCallback(
    x_train,
    y_train,
    num_members=10,
    steps=20 if FAST else 200,
    learning_rate=1e-2,
    learning_rate_decay="linear",
    seed=1,
)
likelihood = tfr.losses.HeteroscedasticGaussianNLL()
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=likelihood,
    steps_per_execution=100,
    jit_compile=False,
)
steps = 500 if FAST else 15000
model.fit(
    tfr.datasets.training_batches(x_train, y_train, batch_size=256, seed=1),
    steps_per_epoch=steps // 5,
    epochs=5,
    shuffle=False,
    verbose=2,
    callbacks=[callback],
)
ensemble = callback.ensemble

# %% [markdown]
# ## The bound rises at every auxiliary variable
# Each auxiliary variable takes 70% of the variance that the prior has left; the
# posterior is conditioned on its value and optimized for 200 steps. The mean
# over members is a lower bound on the log evidence, larger than mean field's.

# %%
axes = plotting.elbo_staircase(callback.history)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.1f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.1f} nats")

# %% [markdown]
# ## Predictions before and after
# `predict` draws outputs of the model: here a mean and a noise scale for each
# yacht and draw. The same number of draws for both.


# %%
def report(name, draws):
    loc, scale = (np.asarray(v) for v in likelihood.loc_and_scale(draws))
    nll = tfr.metrics.gaussian_negative_log_likelihood(split.y_test, loc, scale)
    mll = split.y_scaler.inverse_log_likelihood(-nll)
    rmse = tfr.metrics.root_mean_squared_error(
        split.y_test_original, split.y_scaler.inverse(loc)
    )
    print(f"{name:14s} test log likelihood {mll:6.3f}   RMSE {rmse:.3f}")
    noisy = loc + scale * np.random.default_rng(0).normal(size=loc.shape)
    return split.y_scaler.inverse(noisy)[..., 0]


before = report(
    "mean-field VI", tfr.predict(model, split.x_test, num_samples=100, seed=1)
)
after = report(
    "refined VI", ensemble.predict(split.x_test, num_samples=100, seed=1)
)

# %%
truth = split.y_test_original[:, 0]
order = np.argsort(truth)
figure, axes = plt.subplots(
    1, 2, figsize=(10, 4), sharey=True, layout="constrained"
)
for axis, draws, name in zip(
    axes, (before, after), ("mean-field VI", "refined VI"), strict=True
):
    low, middle, high = np.percentile(draws[:, order], [2.5, 50, 97.5], axis=0)
    axis.errorbar(
        np.arange(len(order)),
        middle,
        yerr=[middle - low, high - middle],
        fmt=".",
        color="C0",
        elinewidth=1,
        label="median and 95% interval",
    )
    axis.plot(truth[order], "kx", markersize=4, label="measured")
    axis.set_title(name)
    axis.set_xlabel("test yachts, by resistance")
axes[0].set_ylabel("residuary resistance")
axes[0].set_yscale("symlog")
axes[0].legend()
plt.show()

# %% [markdown]
# ## Save it
# A posterior is saved to one file, with its model. A member of an ensemble is an
# ordinary Keras model.

# %%
import tempfile

path = os.path.join(tempfile.mkdtemp(), "ensemble.posterior")
ensemble.save(path)
again = tfr.load_posterior(path)
np.testing.assert_array_equal(
    again.predict(split.x_test, seed=2), ensemble.predict(split.x_test, seed=2)
)
ensemble.member(0)
