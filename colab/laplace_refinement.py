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
# # A posterior for a pretrained network
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/laplace_refinement.ipynb)
#
# Laplace's approximation gives the last layer of a trained Keras classifier a Gaussian
# posterior in seconds, without further training. Where a Gaussian fits badly, a short
# normalizing flow refines it. We use the no-U-turn sampler (NUTS) to measure the error
# of each. This takes about two minutes on one CPU core.
#
# Method: [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041).
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

keras.utils.set_random_seed(1)

# %% [markdown]
# ## A trained network
# Nothing in it is Bayesian, and nothing needs to change. Any model works that ends in a
# `Dense` layer, with or without a softmax.

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
model.fit(x_train, y_train, epochs=30, verbose=0)
model.evaluate(x_test, y_test, verbose=0, return_dict=True)

# %% [markdown]
# ## Laplace's approximation
# The features before the last layer are computed once. The posterior is a Gaussian
# around the trained weights, with the curvature of the log likelihood there. Its only
# hyperparameter is the precision of the prior. We choose the one with the highest
# evidence, so that no validation data are needed.

# %%
laplace = tfr.laplace.LastLayerLaplace(model, "classification")
laplace.fit(x_train, y_train, verbose=0)
precisions = np.logspace(-2.0, 1.5, 50)
evidence = [laplace.log_marginal_likelihood(p) for p in precisions]
best = laplace.optimize_prior_precision()

figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
axes.semilogx(precisions, evidence, color="#084594")
axes.axvline(best, color="0.4", linestyle=":", label=f"best: {best:.2g}")
axes.set(xlabel="prior precision", ylabel="log evidence (nats)")
axes.legend()
plt.show()

# %% [markdown]
# `predict_proba` returns class probabilities, averaged over draws of the weights
# (`"mc"`). The other methods are closed forms: faster, but approximate. The numbers are
# negative log likelihoods (NLL) of the test images.

# %%
for method in ("mc", "linearized", "probit", "mean_field"):
    probs = laplace.predict_proba(x_test, method=method, seed=1)
    nll = tfr.metrics.negative_log_likelihood(y_test, probs[None])
    print(f"{method:12s} {nll:.3f}")

# %% [markdown]
# ## Refinement by a flow
# `refine` transforms draws from this Gaussian by a chain of radial flows, which raises
# the evidence lower bound. It needs only the cached features.

# %%
refined = {
    length: laplace.refine(flow_length=length, seed=1, verbose=0)
    for length in (1, 5)
}
print(f"Laplace bound {laplace.elbo().mean():.1f} nats")
for length, posterior in refined.items():
    print(f"{length} flow(s)     {posterior.elbo().mean():.1f} nats")

# %% [markdown]
# ## Refinement through auxiliary variables
# `tfr.refine` refines the same Gaussian in another way: into a mixture of narrower ones,
# along the eigenvectors of its covariance.

# %%
mixture = tfr.refine(
    laplace, x_train, y_train, num_members=50, steps=200, seed=1, verbose=0
)
print(f"Laplace bound {mixture.elbo_init.mean():.1f} nats")
print(f"50 members    {mixture.elbo_final.mean():.1f} nats")

# %% [markdown]
# ## Comparison with NUTS
# NUTS samples from the exact posterior, but takes longer. R-hat compares its chains: it
# is 1 if they agree.

# %%
samples = tfr.sampling.nuts_last_layer(
    laplace, num_warmup=500, num_samples=500, seed=1, verbose=0
)
print(
    f"largest R-hat {samples.diagnostics['max_r_hat']:.3f}, smallest effective "
    f"sample size {samples.diagnostics['min_effective_sample_size']:.0f}"
)

# %% [markdown]
# The maximum mean discrepancy (MMD) is a distance between two sets of samples. Half of
# the chains are the reference; the other half shows its noise. ECE is the expected
# calibration error.

# %%
posteriors = {
    "Laplace": laplace,
    "1 flow": refined[1],
    "5 flows": refined[5],
    "50 members": mixture,
    "NUTS": samples,
}
reference, others = (
    samples.samples[:, first::2].reshape(-1, laplace.loc.size)
    for first in (0, 1)
)
print("             MMD     NLL     ECE")
for name, posterior in posteriors.items():
    probs = posterior.predict(x_test, num_samples=200, seed=1)
    drawn = (
        others if name == "NUTS" else posterior.sample(len(reference), seed=1)
    )
    print(
        f"{name:10s}"
        f"{tfr.metrics.mmd(reference, drawn):8.4f}"
        f"{tfr.metrics.negative_log_likelihood(y_test, probs):8.3f}"
        f"{tfr.metrics.expected_calibration_error(y_test, probs):8.3f}"
    )

# %% [markdown]
# Laplace's approximation is underconfident on test digits; the refined posteriors are
# about as confident as NUTS. By the MMD the flows come nearer to it: the mixture is
# rough, unless it has many members.
#
# ## Unknown inputs
# Each pixel of a shuffled image comes from a different digit. Predictions for such
# images should be uncertain.

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
        if name not in ("1 flow", "50 members")
    }
)

# %% [markdown]
# ## Two weights
# A posterior of two weights can be drawn. This one belongs to a logistic regression on
# 50 points; the contours hold 50, 90 and 99% of the exact posterior.

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
linear.fit(points, labels[:, None], batch_size=50, epochs=300, verbose=0)

gaussian = tfr.laplace.LastLayerLaplace(
    linear, "classification", prior_precision=0.01
).fit(points, labels, verbose=0)
flow = gaussian.refine(flow_length=10, seed=1, verbose=0)
exact = tfr.sampling.nuts_last_layer(
    gaussian,
    num_warmup=1000,
    num_samples=1000,
    target_accept_prob=0.95,
    seed=1,
    verbose=0,
)


def log_density(theta):
    """Returns the log density of the posterior, up to a constant."""
    logits = np.where(labels == 1, 1.0, -1.0) * (theta @ points.T)
    prior = -0.5 * 0.01 * np.sum(theta**2, axis=-1)
    return prior - np.logaddexp(0.0, -logits).sum(axis=-1)


drawn = {
    "Laplace": gaussian.sample(2000, seed=1),
    "refined": flow.sample(2000, seed=1),
    "NUTS": exact.sample(2000, seed=1),
}
low, high = np.quantile(drawn["NUTS"], [0.002, 0.998], axis=0)
lines = np.linspace(low - 1.0, high + 1.0, 121).T
grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
axes = plotting.posterior_contours(*lines, log_density(grid), drawn)
for name in ("Laplace", "refined"):
    distance = tfr.metrics.mmd(drawn["NUTS"], drawn[name])
    print(f"{name:8s} MMD to NUTS {distance:.4f}")

# %% [markdown]
# ## Save it
# A posterior is saved with its model, without the training data.

# %%
refined[5].save("refined.posterior")
loaded = tfr.load_posterior("refined.posterior")
loaded.predict_proba(x_test[:1], seed=1).round(2)

# %% [markdown]
# ## What to try next
# Train deep Bayesian networks from good starting points in [Initialization](https://github.com/tfp-refine/tfp_refine/blob/main/colab/initialization.ipynb), or follow the recipe in [Calibrate a classifier](https://github.com/tfp-refine/tfp_refine/blob/main/docs/how_to/calibrate.md).
