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
# # A trained network becomes Bayesian, and back
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/to_bayesian.ipynb)
#
# We train a small convolutional network of Keras, give all of its weights
# posteriors in one line, and go on training for a while: the likelihood of the test
# set rises, and the draws disagree about classes that the network has never seen.
# At the end it becomes an ordinary network again. About a minute on a laptop's CPU.
#
# Method: [Krishnan et al., 2020](https://arxiv.org/abs/1906.05323) (MOPED).
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
# ## Data
# Images of digits, 8 x 8 pixels, which come with scikit-learn. The network sees 0
# to 7, 300 images of them; the test images of 8 and 9 are set apart, as what it cannot
# know.

# %%
known, unseen = tfr.datasets.split_classes(
    tfr.datasets.load_images("digits"), list(range(8))
)
split = tfr.datasets.standardized_images(known)
x_train, y_train = split.x_train[:300], split.y_train[:300]
x_test, y_test = split.x_test, split.y_test
x_unseen = tfr.datasets.standardize_pixels(unseen, split.scaler)
x_train.shape, x_test.shape, x_unseen.shape

# %% [markdown]
# ## A network of Keras, trained

# %%
network = keras.Sequential(
    [
        keras.Input(x_train.shape[1:]),
        keras.layers.Conv2D(16, 3, activation="relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(8),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
network.compile("adam", loss)
network.fit(
    x_train, y_train, epochs=2 if FAST else 60, batch_size=64, verbose=0
)
network.summary()

# %% [markdown]
# ## One line
# Dense layers, convolutions, embeddings and recurrent layers get posteriors, the
# rest is copied: here the normalization. The trained weights are the posteriors'
# means, the standard deviations a tenth of their size. At its means the copy is
# the network that it was made of.

# %%
bayesian = tfr.models.to_bayesian(
    network, num_train_examples=len(x_train), seed=1
)
for layer in bayesian.layers:
    print(f"{layer.name:22s} {type(layer).__name__}")
at_means = tfr.predict(bayesian, x_test, 1, sample=False)[0]
trained = network.predict(x_test, verbose=0)
print(f"largest difference of logits: {np.abs(at_means - trained).max():.1e}")

# %% [markdown]
# ## Some epochs of variational inference
# An epoch is 5 steps. `KLAnnealing` lets the KL divergence in little by little; at a
# factor of 1, after 20 epochs, the loss is the bound. `ELBOLogger` puts the parts of
# the bound in the logs, in nats for the whole training set. It needs the negative log
# likelihood without the KL divergence, which the metric `MeanLoss` is. Validation
# data are the test set here, only to be looked at.

# %%
EPOCHS = 2 if FAST else 100
bayesian.compile(
    keras.optimizers.Adam(1e-3), loss, metrics=[tfr.metrics.MeanLoss(loss)]
)
fit = bayesian.fit(
    x_train,
    y_train,
    validation_data=(x_test, y_test),
    epochs=EPOCHS,
    batch_size=64,
    verbose=0,
    callbacks=[
        tfr.callbacks.KLAnnealing(tfr.callbacks.linear_warmup(num_epochs=20)),
        tfr.callbacks.ELBOLogger(),
    ],
)
axes = plotting.learning_curves(
    {
        name: fit.history[name]
        for name in ("nll", "val_nll", "kl_scale", "kl", "elbo")
    }
)

# %% [markdown]
# The KL divergence has a long way to go still. The likelihood of images that were not
# trained on is what gains first.
#
# ## What it gains
# For a fair comparison the network of Keras goes on training, too, for as many epochs.
# It becomes surer, of its errors as well, and its likelihood falls.

# %%
longer = keras.models.clone_model(network)
longer.set_weights(network.get_weights())
longer.compile(keras.optimizers.Adam(1e-3), loss)
longer.fit(x_train, y_train, epochs=EPOCHS, batch_size=64, verbose=0)

NUM_SAMPLES = 20 if FAST else 100


def logits_of(x):
    """Returns the draws of each predictor, `[S, N, C]`."""
    return {
        "Keras": network.predict(x, verbose=0)[None],
        "Keras, longer": longer.predict(x, verbose=0)[None],
        "Bayesian": tfr.predict(bayesian, x, NUM_SAMPLES, seed=1),
    }


options = {"from_logits": True}
for name, logits in logits_of(x_test).items():
    nll = tfr.metrics.negative_log_likelihood(y_test, logits, **options)
    accuracy = tfr.metrics.accuracy(y_test, logits, **options)
    ece = tfr.metrics.expected_calibration_error(y_test, logits, **options)
    print(f"{name:14s} NLL {nll:.4f}  accuracy {accuracy:.4f}  ECE {ece:.4f}")

# %% [markdown]
# ## Digits that it has never seen
# The predictive entropy is to tell 8 and 9 from the digits that were trained on;
# AUROC is the probability that it is larger for one that was not.

# %%
seen_draws, unseen_draws = logits_of(x_test), logits_of(x_unseen)
entropies = {
    name: {
        "0 to 7": tfr.metrics.predictive_entropy(seen_draws[name], **options),
        "8 and 9": tfr.metrics.predictive_entropy(
            unseen_draws[name], **options
        ),
    }
    for name in seen_draws
}
axes = plotting.entropy_histogram(entropies)
for name, values in entropies.items():
    auroc = tfr.metrics.auroc(-values["0 to 7"], -values["8 and 9"])
    print(f"{name:14s} AUROC {auroc:.3f}")

# %% [markdown]
# Only draws that differ can tell ignorance from noise: the mutual information of
# the class and the weights is zero for a network without posteriors.

# %%
for name in seen_draws:
    information = [
        tfr.metrics.mutual_information(draws[name], **options).mean()
        for draws in (seen_draws, unseen_draws)
    ]
    print(
        f"{name:14s} mutual information: 0 to 7 {information[0]:.3f}, "
        f"8 and 9 {information[1]:.3f} nats"
    )

# %% [markdown]
# ## And back
# `to_deterministic` makes an ordinary network of Keras, at the posteriors' means, or,
# with a seed, at a draw. It can go wherever networks of Keras go.

# %%
import tempfile

plain = tfr.models.to_deterministic(bayesian)
plain.save(os.path.join(tempfile.mkdtemp(), "plain.keras"))
for layer in plain.layers:
    print(f"{layer.name:22s} {type(layer).__name__}")
for name, model in {
    "means": plain,
    "a draw": tfr.models.to_deterministic(bayesian, seed=1),
}.items():
    logits = model.predict(x_test, verbose=0)[None]
    nll = tfr.metrics.negative_log_likelihood(y_test, logits, **options)
    accuracy = tfr.metrics.accuracy(y_test, logits, **options)
    print(f"{name:14s} NLL {nll:.4f}  accuracy {accuracy:.4f}")
