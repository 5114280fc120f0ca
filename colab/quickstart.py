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
# # Quick start
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/quickstart.ipynb)
#
# We train a Bayesian network on handwritten digits with mean-field variational
# inference (VI), refine it in one call, and look at its predictions. This takes about
# two minutes on one CPU core.
#
# Method: [Havasi et al., 2021](https://doi.org/10.3390/e23111475).
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

# %% [markdown]
# ## Fifteen lines
# The data are 1797 images of 8 x 8 pixels that come with scikit-learn. The two dense
# layers have a Gaussian posterior for each weight. `set_num_train_examples` scales the
# KL divergence from the prior, which the layers add to the loss. `tfr.refine` turns the
# trained model into an ensemble with a higher evidence lower bound (ELBO). The numbers
# are negative log likelihoods (NLL) of the test images, in nats per image: first
# mean-field VI, then its refinement.

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Hides TensorFlow's logs.

import keras

import tfp_refine as tfr

keras.utils.set_random_seed(1)
digits = tfr.datasets.standardized_images(tfr.datasets.load_images("digits"))
x, y = digits.x_train.reshape(-1, 64), digits.y_train
model = keras.Sequential([keras.Input((64,))])
model.add(tfr.layers.DenseLocalReparameterization(50, activation="relu"))
model.add(tfr.layers.DenseLocalReparameterization(10))
tfr.layers.set_num_train_examples(model, len(x))
model.compile(keras.optimizers.Adam(1e-2), tfr.losses.CategoricalNLL())
model.fit(x, y, batch_size=256, epochs=200, verbose=0)
refined = tfr.refine(model, x, y, verbose=0)
for posterior in (tfr.posterior(model), refined):
    probs = posterior.predict_proba(digits.x_test.reshape(-1, 64))
    print(tfr.metrics.negative_log_likelihood(digits.y_test, probs))

# %% [markdown]
# ## The least certain predictions
# `predict_proba` averages class probabilities over draws of the weights, `[N, 10]`.
# These are the six test images with the largest predictive entropy of the refined
# posterior. The title is the correct class.

# %%
import matplotlib.pyplot as plt
import numpy as np

from tfp_refine import plotting

# %matplotlib inline

x_test, y_test = digits.x_test.reshape(-1, 64), digits.y_test
probs = {
    "mean-field VI": tfr.posterior(model).predict_proba(x_test, seed=1),
    "refined": refined.predict_proba(x_test, seed=1),
}
entropy = tfr.metrics.predictive_entropy(probs["refined"][None])
uncertain = np.argsort(entropy)[::-1][:6]
figure, panels = plt.subplots(
    2, 6, figsize=(10, 3.4), sharex="row", sharey="row", layout="constrained"
)
for column, index in zip(panels.T, uncertain, strict=True):
    column[0].imshow(digits.x_test[index], cmap="gray_r")
    column[0].set(title=f"a {y_test[index]}", xticks=[], yticks=[])
    for shift, color, name in (
        (-0.2, "0.7", "mean-field VI"),
        (0.2, "#084594", "refined"),
    ):
        column[1].bar(
            np.arange(10) + shift,
            probs[name][index],
            0.4,
            color=color,
            label=name,
        )
    column[1].set(xlabel="class", xticks=range(0, 10, 3), ylim=(0, 1))
panels[1, 0].set_ylabel("probability")
figure.legend(
    *panels[1, 0].get_legend_handles_labels(),
    loc="outside lower center",
    ncols=2,
)
plt.show()

# %% [markdown]
# ## Can the probabilities be trusted?
# A calibrated classifier is right in 80% of the predictions that it makes with 80%
# confidence: its line follows the diagonal. Mean-field VI is underconfident here. The
# expected calibration error (ECE) is the mean distance from the diagonal.

# %%
bins = {
    name: tfr.metrics.calibration_bins(y_test, values[None])
    for name, values in probs.items()
}
axes = plotting.reliability_diagram(bins)
for name, values in probs.items():
    nll = tfr.metrics.negative_log_likelihood(y_test, values[None])
    ece = tfr.metrics.expected_calibration_error(y_test, values[None])
    accuracy = tfr.metrics.accuracy(y_test, values[None])
    print(f"{name:14s} NLL {nll:.3f}  accuracy {accuracy:.3f}  ECE {ece:.3f}")

# %% [markdown]
# ## The bound
# Refinement draws an auxiliary variable for each weight, conditions the posterior on
# it, and optimizes it again, five times. The ELBO rises each time.

# %%
axes = plotting.elbo_staircase(refined.history)
print(f"mean-field ELBO {refined.elbo_init.mean():.0f} nats")
print(f"refined ELBO    {refined.elbo_final.mean():.0f} nats")

# %% [markdown]
# ## More networks, better predictions
# `tfr.refined_deep_ensemble` starts from plain Keras layers. It trains several networks,
# gives each a narrow posterior, and refines it with several factors on the KL divergence:
# cold members, with a factor below 1, are sharper. Others are refined after a short training.
# A fifth of the training data weighs these candidates. This is the longest part;
# `refine_steps=200` is shorter.

# %%
network = keras.Sequential([keras.Input((64,))])
network.add(keras.layers.Dense(50, "relu"))
network.add(keras.layers.Dense(10))
network.compile(loss=tfr.losses.CategoricalNLL())
ensemble = tfr.refined_deep_ensemble(
    network, x, y, num_networks=5, steps=2000, seed=1, verbose=0
)
values = ensemble.predict_proba(x_test, seed=1)
nll = tfr.metrics.negative_log_likelihood(y_test, values[None])
ece = tfr.metrics.expected_calibration_error(y_test, values[None])
accuracy = tfr.metrics.accuracy(y_test, values[None])
print(f"refined ensemble NLL {nll:.3f}  accuracy {accuracy:.3f}  ECE {ece:.3f}")
print("factors:", ensemble.history["candidate_kl_scales"])
print("steps of training:", ensemble.history["candidate_steps"])
print("weights:", ensemble.history["held_out_weights"].round(2))

# %% [markdown]
# ## Save it
# Any posterior is saved to one file, with its model.

# %%
ensemble.save("digits.posterior")
loaded = tfr.load_posterior("digits.posterior")
loaded.predict_proba(x_test[:1], seed=1).round(2)

# %% [markdown]
# ## What to try next
# Start from a network that you have already trained, in [From a trained network to a Bayesian one](https://github.com/tfp-refine/tfp_refine/blob/main/colab/to_bayesian.ipynb), or compare the methods by cost and result in [Which method when](https://github.com/tfp-refine/tfp_refine/blob/main/docs/which_method.md).
