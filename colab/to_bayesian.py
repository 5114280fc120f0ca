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
# # From a trained network to a Bayesian one, and back
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/to_bayesian.ipynb)
#
# We train a small convolutional Keras network, give all of its weights posteriors in
# one line, and continue training. The test likelihood rises, and the draws of the
# weights disagree about classes that the network has never seen. At the end we convert
# the model back to an ordinary network. This takes about a minute on one CPU core.
#
# Method: [Krishnan et al., 2020](https://arxiv.org/abs/1906.05323) (MOPED).
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

import tfp_refine as tfr
from tfp_refine import plotting

# %matplotlib inline

keras.utils.set_random_seed(1)

# %% [markdown]
# ## Data
# Images of digits, 8 x 8 pixels, come with scikit-learn. The network is trained on 300
# images of 0 to 7. The test images of 8 and 9 serve as unknown inputs.

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
# ## A Keras network

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
loss = tfr.losses.CategoricalNLL()
network.compile("adam", loss)
network.fit(x_train, y_train, epochs=60, batch_size=64, verbose=0)
network.evaluate(x_test, y_test, verbose=0)

# %% [markdown]
# ## One line
# `to_bayesian` gives posteriors to dense layers, convolutions, embeddings and recurrent
# layers, and copies all other layers, here the normalization. The trained weights
# become the means of the posteriors, and a tenth of their size the standard deviations.

# %%
bayesian = tfr.models.to_bayesian(
    network, num_train_examples=len(x_train), seed=1
)
for layer in bayesian.layers:
    print(f"{layer.name:22s} {type(layer).__name__}")

# %% [markdown]
# ## Variational inference
# `KLAnnealing` raises the weight of the KL divergence from 0 to 1 over the first 20
# epochs; from then on, the loss is the negative evidence lower bound. `ELBOLogger`
# logs the terms of the bound, in nats for the whole training set. It needs the
# negative log likelihood (NLL) without the KL divergence, which the metric `MeanLoss`
# computes. The validation curve is for inspection only.

# %%
bayesian.compile(
    keras.optimizers.Adam(1e-3), loss, metrics=[tfr.metrics.MeanLoss(loss)]
)
fit = bayesian.fit(
    x_train,
    y_train,
    validation_data=(x_test, y_test),
    epochs=100,
    batch_size=64,
    verbose=0,
    callbacks=[
        tfr.callbacks.KLAnnealing(tfr.callbacks.linear_warmup(num_epochs=20)),
        tfr.callbacks.ELBOLogger(),
    ],
)
axes = plotting.learning_curves(
    {name: fit.history[name] for name in ("nll", "val_nll", "kl", "elbo")}
)

# %% [markdown]
# The KL divergence has not converged yet, but the NLL of the test images has improved.
#
# ## Comparison
# For a fair comparison, the Keras network is trained for the same number of additional
# epochs. It becomes more confident, also where it is wrong: its accuracy rises, but its
# NLL does not improve.

# %%
longer = keras.models.clone_model(network)
longer.set_weights(network.get_weights())
longer.compile(keras.optimizers.Adam(1e-3), loss)
longer.fit(x_train, y_train, epochs=100, batch_size=64, verbose=0)


def logits_of(x):
    """Returns the draws of each predictor, `[S, N, C]`."""
    return {
        "Keras": network.predict(x, verbose=0)[None],
        "Keras, longer": longer.predict(x, verbose=0)[None],
        "Bayesian": tfr.predict(bayesian, x, num_samples=100, seed=1),
    }


for name, logits in logits_of(x_test).items():
    scores = {
        "NLL": tfr.metrics.negative_log_likelihood,
        "accuracy": tfr.metrics.accuracy,
        "ECE": tfr.metrics.expected_calibration_error,
    }
    values = [f(y_test, logits, from_logits=True) for f in scores.values()]
    line = (f"{k} {v:.3f}" for k, v in zip(scores, values, strict=True))
    print(f"{name:14s}", *line)

# %% [markdown]
# ## Unknown digits
# Predictive entropy should separate 8 and 9 from the digits of the training set. AUROC
# is the probability that it is larger for an unknown digit than for a known one. All
# three networks separate them about equally well.

# %%
known_draws, unseen_draws = logits_of(x_test), logits_of(x_unseen)
entropies = {
    name: {
        label: tfr.metrics.predictive_entropy(draws[name], from_logits=True)
        for label, draws in {
            "0 to 7": known_draws,
            "8 and 9": unseen_draws,
        }.items()
    }
    for name in known_draws
}
axes = plotting.entropy_histogram(entropies)
for name, values in entropies.items():
    auroc = tfr.metrics.auroc(-values["0 to 7"], -values["8 and 9"])
    print(f"{name:14s} AUROC {auroc:.3f}")

# %% [markdown]
# The mutual information between the class and the weights measures epistemic
# uncertainty: how much the draws disagree. It is zero for a network without posteriors,
# and here larger for the unknown digits.

# %%
for name, draws in (("0 to 7", known_draws), ("8 and 9", unseen_draws)):
    information = tfr.metrics.mutual_information(
        draws["Bayesian"], from_logits=True
    )
    print(f"{name:8s} mutual information {information.mean():.3f} nats")

# %% [markdown]
# ## And back
# `to_deterministic` returns an ordinary Keras network, at the means of the posteriors
# or, with a seed, at a draw. It runs wherever Keras networks run.

# %%
plain = tfr.models.to_deterministic(bayesian)
plain.save("plain.keras")
for layer in plain.layers:
    print(f"{layer.name:22s} {type(layer).__name__}")
logits = plain.predict(x_test, verbose=0)[None]
nll = tfr.metrics.negative_log_likelihood(y_test, logits, from_logits=True)
print(f"NLL at the means {nll:.3f}")

# %% [markdown]
# ## What to try next
# Improve a variational posterior in [Refinement](https://github.com/tfp-refine/tfp_refine/blob/main/colab/refinement.ipynb), or read which
# of your own networks can be converted in [Pretrained networks](https://github.com/tfp-refine/tfp_refine/blob/main/docs/pretrained.md).
