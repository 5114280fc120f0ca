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
# # Any Keras model: IVON, and its refinement
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/ivon.ipynb)
#
# IVON is an optimizer in the place of Adam. It trains a Gaussian posterior of all weights
# of a Keras model, without a layer of this library. We train a small network with it,
# refine its posterior, and refine several posteriors, trained from different
# starts, into one ensemble. This takes about one minute on one CPU core.
#
# Methods: [Shen et al., 2024](https://arxiv.org/abs/2402.17641) and
# [Havasi et al., 2021](https://doi.org/10.3390/e23111475).
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
import matplotlib.pyplot as plt
import numpy as np

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

# %% [markdown]
# ## Data
# A curve with noise of standard deviation 0.2, seen on both sides of a gap.

# %%
NOISE = 0.2
rng = np.random.default_rng(1)


def curve(x):
    return np.sin(2.0 * x) + 0.3 * x


def draw(count):
    left = rng.uniform(-2.0, -0.7, (count, 1))
    right = rng.uniform(0.5, 2.0, (count, 1))
    x = np.concatenate([left, right])
    y = curve(x) + NOISE * rng.normal(size=x.shape)
    return x.astype(np.float32), y.astype(np.float32)


x_train, y_train = draw(60)
x_test, y_test = draw(200)
grid = np.linspace(-2.5, 2.5, 101, dtype=np.float32)[:, np.newaxis]

# %% [markdown]
# ## IVON in place of Adam
# The layers are those of Keras. The loss is a negative log likelihood, and the optimizer
# knows the number of examples and the prior, `N(0, 1)`. Its learning rate should decay
# to zero, and `beta_2` fit the number of steps. With little noise the curvature of the
# loss is large, and so is the `hessian_init` that it starts from.

# %%
STEPS = 2000


def train(seed):
    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(30, activation="tanh"),
            keras.layers.Dense(1),
        ]
    )
    optimizer = tfr.optimizers.IVON(
        keras.optimizers.schedules.CosineDecay(0.02, STEPS),
        num_train_examples=len(x_train),
        hessian_init=5.0,
        beta_2=0.998,
    )
    model.compile(
        optimizer,
        tfr.losses.GaussianNLL(NOISE),
        steps_per_execution=100,
        jit_compile=False,
    )
    model.fit(
        tfr.datasets.training_batches(x_train, y_train, 60, seed=seed),
        steps_per_epoch=STEPS,
        shuffle=False,
        verbose=0,
    )
    return model


model = train(seed=1)
posterior = tfr.posterior(model)
scales = posterior.scale
print(f"{len(scales)} weights, scales from {scales.min():.3f} to", end=" ")
print(f"{scales.max():.3f}; KL divergence {posterior.kl_divergence():.1f} nats")

# %% [markdown]
# The variables of the model are the means. The posterior has the rest: draws, a bound on
# the evidence, intervals.


# %%
def test_nll(posterior):
    """Returns the negative log likelihood of the test set, nats."""
    draws = posterior.predict(x_test, num_samples=300, seed=1)
    return tfr.metrics.gaussian_negative_log_likelihood(
        y_test, draws, np.full_like(draws, NOISE)
    )


def of_means(model):
    loc = model.predict(x_test, verbose=0)
    return tfr.metrics.gaussian_negative_log_likelihood(
        y_test, loc[np.newaxis], np.full((1, *loc.shape), NOISE)
    )


bound = tfr.elbo(posterior, x_train, y_train, num_samples=200, seed=1)
print(f"ELBO {bound:.1f} nats")
print(f"test NLL: means alone {of_means(model):.2f}, ", end="")
print(f"posterior {test_nll(posterior):.2f}")

# %% [markdown]
# ## Its refinement
# `tfr.refine` takes this posterior as it takes variational layers: each of ten members
# becomes a narrower Gaussian with a higher bound.

# %%
OPTIONS = {
    "steps": 200,
    "learning_rate": 0.02,
    "learning_rate_decay": "linear",
    "seed": 1,
    "verbose": 0,
}
refined = tfr.refine(posterior, x_train, y_train, num_members=10, **OPTIONS)
print(f"bound before {refined.elbo_init.mean():.1f} nats, ", end="")
print(f"after {refined.elbo_final.mean():.1f} nats")
print(f"test NLL {test_nll(refined):.2f}")
axes = plotting.elbo_staircase(refined.history)

# %% [markdown]
# ## Steps that follow the gain
# The refinement above took 200 steps for each of five auxiliary variables.
# `AdaptiveSteps` evaluates the bound every 50 steps. It goes to the next variable after
# `patience` checks in a row without a rise, and takes at most `budget` steps in all. The
# vertical lines are the ends of the variables. More patience takes more steps, for a
# higher bound.

# %%
adaptive = tfr.refine(
    posterior,
    x_train,
    y_train,
    num_members=10,
    steps=tfr.refinement.AdaptiveSteps(budget=4000, patience=4),
    learning_rate=0.02,
    seed=1,
    verbose=0,
)
steps = adaptive.history["steps"]
print(f"steps of the auxiliary variables: {steps}, in all {sum(steps)}")
print(f"bound after {adaptive.elbo_final.mean():.1f} nats")
axes = plotting.elbo_staircase(adaptive.history)

# %% [markdown]
# ## Several starts
# Posteriors that were trained from different weights find different modes, which one
# refined posterior does not leave. A list of them becomes one ensemble with as many
# members from each: a deep ensemble of refined posteriors. All members train at once.

# %%
fits = [posterior] + [tfr.posterior(train(seed)) for seed in range(2, 6)]
several = tfr.refine(fits, x_train, y_train, num_members=10, **OPTIONS)
print("starts of the members", several.history["start"])
for start in range(len(fits)):
    own = several.history["start"] == start
    before, after = (
        several.elbo_init[own].mean(),
        several.elbo_final[own].mean(),
    )
    print(f"start {start}: bound {before:.1f}, refined {after:.1f} nats")
print(f"test NLL {test_nll(several):.2f}")

# %% [markdown]
# The bands are two standard deviations of the curve, without the noise. These five
# starts found the same curve, so that one refined posterior predicts as well as five. Where
# starts end in different modes, the ensemble has them all.

# %%
bands = {}
for name, one in (
    ("IVON", posterior),
    ("refined", refined),
    ("refined, five starts", several),
):
    found = one.summarize(grid, 300, seed=1)
    bands[name] = {"mean": found.mean[:, 0], "scale": found.std[:, 0]}
figure, panels = plt.subplots(
    1, 3, figsize=(9, 3), sharey=True, layout="constrained"
)
axes = plotting.predictive_bands(
    grid[:, 0],
    bands,
    data=(x_train[:, 0], y_train[:, 0]),
    truth=curve(grid[:, 0]),
    num_scales=2,
    ax=panels,
)

# %% [markdown]
# ## What to try next
# Let the data choose the parameters of the prior in [Collapsed bounds](https://github.com/tfp-refine/tfp_refine/blob/main/colab/collapsed_bounds.ipynb), or start from trained networks: [Refine a deep ensemble](https://github.com/tfp-refine/tfp_refine/blob/main/docs/how_to/refine_ensemble.md).
