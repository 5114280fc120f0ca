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
# # A posterior for a network that is trained already
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/laplace_refinement.ipynb)
#
# A trained Keras classifier gets a posterior of its last layer in seconds, without
# being trained again: Laplace's approximation. Where that Gaussian is a poor fit,
# a short normalizing flow refines it, and the no-U-turn sampler tells how near the
# truth either is.
#
# About three minutes on a laptop's CPU.
#
# Method: [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041).
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
from matplotlib import pyplot as plt

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

# Fewer steps where only the code is tested.
FAST = os.environ.get("TFP_REFINE_FAST") == "1"
keras.utils.set_random_seed(1)

# %% [markdown]
# ## A network like any other
# Nothing of it is Bayesian, and nothing needs to be changed. Any model will do
# that ends in a `Dense` layer, with a softmax after it or without.

# %%
digits = tfr.datasets.standardized_images(tfr.datasets.load_images("digits"))
x_train, y_train = digits.x_train, digits.y_train
x_test, y_test = digits.x_test, digits.y_test

model = keras.Sequential(
    [
        keras.Input(x_train.shape[1:]),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(40, activation="relu"),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(x_train, y_train, epochs=2 if FAST else 30, verbose=0)
model.evaluate(x_test, y_test, verbose=0, return_dict=True)

# %% [markdown]
# ## Laplace's approximation
# The features before the last layer are computed once. The posterior is Gaussian,
# around the trained weights, with the curvature of the likelihood there. Its one
# hyper-parameter, the precision of the prior, is the one under which the data are
# most probable: no validation data are needed.

# %%
laplace = tfr.laplace.LastLayerLaplace(model, "classification")
laplace.fit(x_train, y_train, verbose=0)
precisions = np.logspace(-2.0, 1.5, 50)
evidence = [laplace.log_marginal_likelihood(p) for p in precisions]
best = laplace.optimize_prior_precision()

_, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.semilogx(precisions, evidence)
axes.axvline(best, color="C1", linestyle=":", label=f"best, {best:.2g}")
axes.set_xlabel("prior precision")
axes.set_ylabel("log evidence (nats)")
axes.legend()
# %% [markdown]
# `predict` returns draws of what the model returns, `[draws, examples, classes]`,
# and `predict_proba` class probabilities, averaged, as everywhere in this package.
# Closed forms are quicker, and approximate:

# %%
for method in ("mc", "linearized", "probit", "mean_field"):
    probs = laplace.predict_proba(x_test, method=method, seed=1)
    nll = tfr.metrics.negative_log_likelihood(y_test, probs[np.newaxis])
    print(f"{method:12s} {nll:.3f}")

# %% [markdown]
# ## Refined by a flow
# `refine` moves draws of this Gaussian by a chain of radial flows, so that the
# bound on the evidence rises. It works on the cached features alone.

# %%
epochs = {"epochs": 2} if FAST else {}
refined = {
    length: laplace.refine(flow_length=length, seed=1, verbose=0, **epochs)
    for length in (1, 5)
}
print(f"bound: Laplace {laplace.elbo().mean():.1f} nats")
for length, posterior in refined.items():
    print(f"{length} flows {posterior.elbo().mean():.1f} nats")

# %% [markdown]
# ## How near the truth?
# The no-U-turn sampler samples the exact posterior, but takes longer. R-hat measures
# whether its chains agree: it is 1 if they do.

# %%
steps = 10 if FAST else 500
samples = tfr.sampling.nuts_last_layer(
    laplace, num_warmup=steps, num_samples=steps, seed=1, verbose=0
)
print(
    f"largest R-hat {samples.diagnostics['max_r_hat']:.3f}, smallest effective "
    f"sample size {samples.diagnostics['min_effective_sample_size']:.0f}"
)

# %%
posteriors = {
    "Laplace": laplace,
    "1 flow": refined[1],
    "5 flows": refined[5],
    "NUTS": samples,
}
# Half of the chains are the reference; the other half shows its noise.
reference = samples.samples[:, ::2].reshape(-1, laplace.loc.size)
print("             MMD     NLL     ECE")
for name, posterior in posteriors.items():
    probs = posterior.predict(x_test, num_samples=200, seed=1)
    drawn = (
        samples.samples[:, 1::2].reshape(reference.shape)
        if name == "NUTS"
        else posterior.sample(len(reference), seed=1)
    )
    print(
        f"{name:10s}"
        f"{tfr.metrics.mmd(reference, drawn):8.4f}"
        f"{tfr.metrics.negative_log_likelihood(y_test, probs):8.3f}"
        f"{tfr.metrics.expected_calibration_error(y_test, probs):8.3f}"
    )

# %% [markdown]
# Laplace's approximation is too unsure of what the network knows well; the refined
# one is as sure as the sampler. What none of them has seen, they should not know:
# images whose pixels are those of different digits.

# %%
shuffled = np.random.default_rng(1).permuted(
    x_test.reshape(len(x_test), -1), axis=0
)
shuffled = shuffled.reshape(x_test.shape)


def entropies(predict):
    """Returns predictive entropies of digits and of shuffled ones."""
    return {
        "digits": tfr.metrics.predictive_entropy(predict(x_test)),
        "shuffled": tfr.metrics.predictive_entropy(predict(shuffled)),
    }


axes = plotting.entropy_histogram(
    {"trained network": entropies(lambda x: model.predict(x, verbose=0)[None])}
    | {
        name: entropies(lambda x, p=posterior: p.predict(x, seed=1))
        for name, posterior in posteriors.items()
        if name != "1 flow"
    }
)

# %% [markdown]
# ## Two weights
# Where a posterior has two weights, it can be drawn: a logistic regression on 50
# points. Lines hold 50, 90 and 99% of the true posterior.

# %%
rng = np.random.default_rng(3)
labels = np.arange(50) % 2
sides = np.where(labels == 1, 2.0, -2.0)[:, None]
points = sides * np.eye(2)[rng.integers(0, 2, 50)] + rng.normal(size=(50, 2))
points = points.astype("float32")

linear = keras.Sequential(
    [keras.Input((2,)), keras.layers.Dense(1, use_bias=False)]
)
linear.compile(
    keras.optimizers.Adam(0.1),
    keras.losses.BinaryCrossentropy(from_logits=True),
)
linear.fit(points, labels[:, None], 50, epochs=10 if FAST else 300, verbose=0)

gaussian = tfr.laplace.LastLayerLaplace(
    linear, "classification", prior_precision=0.01
).fit(points, labels, verbose=0)
flow = gaussian.refine(flow_length=10, seed=1, verbose=0, **epochs)
steps = 10 if FAST else 1000
truth = tfr.sampling.nuts_last_layer(
    gaussian,
    num_warmup=steps,
    num_samples=steps,
    target_accept_prob=0.95,
    seed=1,
    verbose=0,
)


def log_density(theta):
    """Returns the logarithm of the posterior, but for a constant."""
    logits = np.where(labels == 1, 1.0, -1.0) * (theta @ points.T)
    prior = -0.5 * 0.01 * np.sum(theta**2, axis=-1)
    return prior - np.logaddexp(0.0, -logits).sum(axis=-1)


drawn = {
    name: posterior.sample(2000, seed=1)
    for name, posterior in (
        ("Laplace", gaussian),
        ("refined", flow),
        ("NUTS", truth),
    )
}
low, high = np.quantile(drawn["NUTS"], [0.002, 0.998], axis=0)
lines = np.linspace(low - 1.0, high + 1.0, 121).T
grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
axes = plotting.posterior_contours(
    *lines,
    log_density(grid),
    {
        f"{name}: MMD {tfr.metrics.mmd(drawn['NUTS'], values):.4f}": values
        for name, values in drawn.items()
        if name != "NUTS"
    }
    | {"NUTS": drawn["NUTS"]},
)

# %% [markdown]
# ## Kept
# A posterior is saved with its model, and without the training data.

# %%
refined[5].save("refined.posterior")
loaded = tfr.load_posterior("refined.posterior")
np.testing.assert_array_equal(
    loaded.predict(x_test[:5], seed=1), refined[5].predict(x_test[:5], seed=1)
)
