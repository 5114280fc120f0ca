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
# # A Bayesian LeNet-5, refined
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/bayesian_cnn.ipynb)
#
# We train a convolutional network with a posterior for every weight, refine it
# into an ensemble, and turn a digit until neither knows what it is. Images of 8 x
# 8 pixels, which come with scikit-learn; set `DATASET = "mnist"` for larger ones
# (and patience without a GPU).
#
# Methods: [Havasi et al., 2021](https://doi.org/10.3390/e23111475) (refinement),
# [Wen et al., 2018](https://arxiv.org/abs/1803.04386) (Flipout),
# [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961) (the turned digit).
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
DATASET = "digits"
keras.utils.set_random_seed(1)

# %% [markdown]
# ## Data
# Pixels are standardized by the training images alone.

# %%
raw = tfr.datasets.load_images(DATASET, download=DATASET != "digits")
data = tfr.datasets.standardized_images(raw)
data.x_train.shape, data.x_test.shape, data.num_classes

# %% [markdown]
# ## A Bayesian LeNet-5
# Convolutions by Flipout, dense layers by local reparameterization: the cheapest
# ways to low-variance gradients. The scale of the prior is learned for each
# tensor (empirical Bayes). `num_train_examples` weighs the prior.

# %%
posterior = tfr.layers.MeanFieldPosterior(initial_scale=1e-2)
prior = tfr.regularizers.EmpiricalBayesKL(initial_prior_scale=0.1)
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
model.summary()

# %% [markdown]
# ## Fit, and refine at the end
# The loss that Keras prints holds the negative log likelihood (`nll`) and the KL
# divergence, for each training image.

# %%
callback = tfr.RefinementCallback(
    data.x_train,
    data.y_train,
    num_members=2 if FAST else 10,
    steps=10 if FAST else 200,
    learning_rate=1e-2,
    learning_rate_decay="linear",
    seed=1,
)
model.compile(
    optimizer=keras.optimizers.Adam(3e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=[
        "accuracy",
        keras.metrics.SparseCategoricalCrossentropy(
            name="nll", from_logits=True
        ),
    ],
    jit_compile=False,
)
steps = 200 if FAST else 5000
fit = model.fit(
    tfr.datasets.training_batches(
        data.x_train, data.y_train, batch_size=256, seed=1
    ),
    steps_per_epoch=steps // 20,
    epochs=20,
    shuffle=False,
    verbose=2,
    callbacks=[callback],
)
ensemble = callback.ensemble

# %%
axes = plotting.learning_curves(fit.history)

# %% [markdown]
# ## The bound rises at every auxiliary variable

# %%
axes = plotting.elbo_staircase(callback.history)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.0f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.0f} nats")

# %% [markdown]
# ## Predictions before and after
# The same number of draws for both. Calibration: of predictions made with 80%
# confidence, 80% should be right.

# %%
NUM_SAMPLES = 20 if FAST else 100
draws = {
    "VI": tfr.predict(model, data.x_test, NUM_SAMPLES, seed=1),
    "refined VI": tfr.predict(ensemble, data.x_test, NUM_SAMPLES, seed=1),
}
bins = {}
for name, logits in draws.items():
    labels, options = data.y_test, {"from_logits": True}
    nll = tfr.metrics.negative_log_likelihood(labels, logits, **options)
    accuracy = tfr.metrics.accuracy(labels, logits, **options)
    bins[name] = tfr.metrics.calibration_bins(labels, logits, **options)
    print(
        f"{name:12s} log likelihood {-nll:.4f}  accuracy {accuracy:.4f}  "
        f"ECE {tfr.metrics.expected_calibration_error(labels, logits, **options):.4f}"
    )
axes = plotting.reliability_diagram(bins)

# %% [markdown]
# ## A digit that turns
# Each dot is what one draw of the weights says. Where the draws part, the network
# knows that it does not know; a network without a posterior has one dot.

# %%
angles = np.arange(0, 181, 15)
digit = raw.x_test[data.y_test == 3][:1]
turned = np.concatenate([tfr.datasets.rotate_images(digit, a) for a in angles])
x = tfr.datasets.standardize_pixels(turned, data.scaler)


def softmax(logits):
    return np.asarray(keras.ops.softmax(logits))


axes = plotting.rotated_digit(
    turned,
    angles,
    {
        "VI": softmax(tfr.predict(model, x, NUM_SAMPLES, seed=2)),
        "refined VI": softmax(tfr.predict(ensemble, x, NUM_SAMPLES, seed=2)),
    },
    class_names=raw.class_names,
)

# %% [markdown]
# ## Save it
# A model is saved to a `.keras` file, and any posterior to one file, with its model.

# %%
import tempfile

folder = tempfile.mkdtemp()
model.save(os.path.join(folder, "lenet5.keras"))
ensemble.save(os.path.join(folder, "ensemble.posterior"))
again = tfr.load_posterior(os.path.join(folder, "ensemble.posterior"))
np.testing.assert_array_equal(
    again.predict(data.x_test, 10, seed=3),
    ensemble.predict(data.x_test, 10, seed=3),
)
