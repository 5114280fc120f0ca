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
# # A Bayesian convolutional network
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/bayesian_cnn.ipynb)
#
# We train LeNet-5 with a posterior for every weight, refine it at the end of `fit`, and
# rotate a digit until the network is no longer certain. The images have 8 x 8 pixels
# and come with scikit-learn; `load_images("mnist", download=True)` loads larger ones,
# for which you want a GPU. This takes about two minutes on one CPU core.
#
# Methods: [Havasi et al., 2021](https://doi.org/10.3390/e23111475) (refinement),
# [Wen et al., 2018](https://arxiv.org/abs/1803.04386) (Flipout),
# [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961) (the rotated digit).
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
# ## Data
# Pixels are standardized with the mean and scale of the training images.

# %%
raw = tfr.datasets.load_images("digits")
data = tfr.datasets.standardized_images(raw)
data.x_train.shape, data.x_test.shape, data.num_classes

# %% [markdown]
# ## The model
# `LeNet5` uses Flipout for convolutions and local reparameterization for dense layers,
# which keeps the variance of the gradients low. The prior mean of each weight is inferred
# with the weight (a collapsed bound), so that the model underfits less.

# %%
posterior = tfr.layers.MeanFieldPosterior(initial_scale=1e-2)
prior = tfr.regularizers.CollapsedMeanKL(0.05)
model = tfr.models.LeNet5(
    data.x_train.shape[1:],
    data.num_classes,
    kernel_posterior=posterior,
    bias_posterior=posterior,
    kernel_regularizer=prior,
    bias_regularizer=prior,
    num_train_examples=len(data.x_train),
    seed=1,
)
for layer in model.layers[1:]:
    print(f"{layer.name:10s} {type(layer).__name__:28s} {layer.output.shape}")

# %% [markdown]
# ## Fit, then refine
# The callback refines the posterior when training ends, and leaves the model itself
# unchanged. In the history, `nll` is the negative log likelihood (NLL) of a training
# image, and `loss` includes the KL divergence per image.

# %%
callback = tfr.RefinementCallback(
    data.x_train,
    data.y_train,
    num_members=5,
    steps=100,
    learning_rate=3e-3,
    batch_size=128,
    learning_rate_decay="linear",
    seed=1,
)
nll = tfr.losses.CategoricalNLL()
model.compile(
    keras.optimizers.Adam(3e-3),
    nll,
    metrics=["accuracy", tfr.metrics.MeanLoss(nll)],
    steps_per_execution=10,
    jit_compile=False,
)
fit = model.fit(
    tfr.datasets.training_batches(
        data.x_train, data.y_train, batch_size=128, seed=1
    ),
    steps_per_epoch=60,
    epochs=20,
    shuffle=False,
    verbose=0,
    callbacks=[callback],
)
ensemble = callback.ensemble
axes = plotting.learning_curves(fit.history)

# %% [markdown]
# ## The bound
# It rises with each auxiliary variable of the refinement.

# %%
axes = plotting.elbo_staircase(ensemble.history)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.0f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.0f} nats")

# %% [markdown]
# ## Calibration
# A calibrated classifier is right in 80% of the predictions that it makes with 80%
# confidence. ECE is the expected calibration error.

# %%
draws = {
    "VI": tfr.predict(model, data.x_test, num_samples=100, seed=1),
    "refined VI": ensemble.predict(data.x_test, num_samples=100, seed=1),
}
bins = {}
for name, logits in draws.items():
    bins[name] = tfr.metrics.calibration_bins(
        data.y_test, logits, from_logits=True
    )
    scores = (
        metric(data.y_test, logits, from_logits=True)
        for metric in (
            tfr.metrics.negative_log_likelihood,
            tfr.metrics.accuracy,
            tfr.metrics.expected_calibration_error,
        )
    )
    print(
        f"{name:10s}", "NLL {:.3f}  accuracy {:.3f}  ECE {:.3f}".format(*scores)
    )
axes = plotting.reliability_diagram(bins)

# %% [markdown]
# ## A rotated digit
# Each dot is the probability under one draw of the weights. Where the draws disagree,
# the model is uncertain; a network without a posterior has a single dot per angle.

# %%
angles = np.arange(0, 181, 15)
digit = raw.x_test[data.y_test == 3][:1]
rotated = np.concatenate([tfr.datasets.rotate_images(digit, a) for a in angles])
x_rotated = tfr.datasets.standardize_pixels(rotated, data.scaler)


def probabilities(posterior):
    """Returns class probabilities of 50 draws, `[50, A, C]`."""
    logits = tfr.predict(posterior, x_rotated, num_samples=50, seed=2)
    return np.asarray(keras.ops.softmax(logits))


axes = plotting.rotated_digit(
    rotated,
    angles,
    {"VI": probabilities(model), "refined VI": probabilities(ensemble)},
    class_names=raw.class_names,
)

# %% [markdown]
# ## Save it
# The model is saved to a `.keras` file, and any posterior to one file, with its model.

# %%
model.save("lenet5.keras")
ensemble.save("ensemble.posterior")
loaded = tfr.load_posterior("ensemble.posterior")
loaded.predict_proba(data.x_test[:1], seed=1).round(2)

# %% [markdown]
# ## What to try next
# Put posteriors on word embeddings in [Text](https://github.com/tfp-refine/tfp_refine/blob/main/colab/text.ipynb), or separate known from unknown images with [Detect unknown inputs](https://github.com/tfp-refine/tfp_refine/blob/main/docs/how_to/out_of_distribution.md).
