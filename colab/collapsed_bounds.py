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
# # Collapsed bounds
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/collapsed_bounds.ipynb)
#
# Mean-field variational inference underfits: it switches off units that the data could
# use. A hierarchical prior, whose means or variances are inferred along with the
# weights, gives a better fit. Its posterior is known in closed form, so that one argument of
# the layers selects it. We compare such priors with a fixed and a learned one, count
# the units that each uses, and train deeper networks. This takes about two minutes on
# one CPU core.
#
# Method: [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX).
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
# ## Data and network
# The data are the resistance of 308 yachts, with 6 features. The network has two hidden
# layers of 50 units, and two outputs: the mean, and the raw scale of the noise.

# %%
yacht = tfr.datasets.train_test_split(tfr.datasets.load_uci("yacht"), split=1)
loss = tfr.losses.HeteroscedasticGaussianNLL()


def fit(regularizer, data, hidden=(50, 50), steps=6000):
    """Trains a network with this prior of all weights and biases."""
    model = tfr.models.MLP(
        data.x_train.shape[1:],
        outputs=2,
        hidden=hidden,
        kernel_regularizer=regularizer,
        bias_regularizer=regularizer,
        num_train_examples=len(data.x_train),
        seed=1,
    )
    model.compile(
        keras.optimizers.Adam(2e-3),
        loss,
        steps_per_execution=100,
        jit_compile=False,
    )
    model.fit(
        tfr.datasets.training_batches(
            data.x_train, data.y_train, batch_size=256, seed=1
        ),
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
    )
    return model


def evaluate(model, data):
    """Returns test log likelihood and RMSE, in original units."""
    draws = tfr.predict(model, data.x_test, num_samples=100, seed=1)
    loc, scale = (np.asarray(v) for v in loss.loc_and_scale(draws))
    nll = tfr.metrics.gaussian_negative_log_likelihood(data.y_test, loc, scale)
    rmse = tfr.metrics.root_mean_squared_error(
        data.y_test_original, data.y_scaler.inverse(loc)
    )
    return data.y_scaler.inverse_log_likelihood(-nll), rmse


# %% [markdown]
# ## Priors
# The usual prior is `N(0, 1 / fan_in)`. In the hierarchical priors each weight has its
# own prior mean, prior variance, or both, which have priors in turn. For any posterior
# of the weight, the best posterior of these parameters is known in closed form and
# inserted into the bound.
#
# | | prior of a weight | inferred |
# |---|---|---|
# | Gaussian | `N(0, gamma)` | nothing |
# | EB | `N(0, v)` | `v`, one for each tensor, as a point |
# | CM | `N(m, gamma)`, `m ~ N(0, h)` | `m` |
# | CV | `N(0, 1 / tau)`, `tau ~ Gamma(a, b)` | `tau` |
# | CMV | `N(m, 1 / tau)`, with priors of both | `m` and `tau` |

# %%
priors = {
    "Gaussian": tfr.regularizers.GaussianKL("fan_in"),
    "EB": tfr.regularizers.EmpiricalBayesKL(initial_prior_scale="fan_in"),
    "CM": tfr.regularizers.CollapsedMeanKL(0.05),
    "CV": tfr.regularizers.CollapsedVarianceKL(0.5, 0.01),
    "CMV": tfr.regularizers.CollapsedMeanVarianceKL(0.5, 0.01, 0.05),
}
models = {name: fit(prior, yacht) for name, prior in priors.items()}

# %% [markdown]
# ## Test metrics and units in use
# A unit is in use if the root mean square of `mean / standard deviation` of its incoming
# weights is above 1. (The default threshold of `layer.pruned_units()`, 0.25, is for
# posteriors that were trained longer.)


# %%
def hidden_layers(model):
    return [layer for layer in model.layers if layer.name.startswith("hidden")]


def unused_units(layer):
    return layer.pruned_units(threshold=1.0)


print("          test log likelihood   RMSE   units in use, of 50 and 50")
for name, model in models.items():
    log_likelihood, rmse = evaluate(model, yacht)
    used = [int(np.sum(~unused_units(layer))) for layer in hidden_layers(model)]
    print(f"{name:9s} {log_likelihood:19.3f}   {rmse:4.2f}   {used}")

# %% [markdown]
# ## The weights
# Each dot is a weight of the second hidden layer. Under the fixed prior most weights
# stay close to it, with mean zero and variance 1/50 (dotted lines). With inferred
# parameters, the weights that the data need move away.


# %%
def describe(layer):
    """Returns the values that `posterior_scatter` draws."""
    values = {}
    for weight in layer.variational_weights:
        prefix = "" if weight.name == "kernel" else "bias_"
        values[f"{prefix}loc"] = np.ravel(weight.loc)
        values[f"{prefix}scale"] = np.ravel(weight.scale)
    return values


shown = ("Gaussian", "CM", "CMV")
axes = plotting.posterior_scatter(
    {name: describe(models[name].get_layer("hidden_1")) for name in shown},
    {name: 1.0 / 50 for name in ("Gaussian", "CM")},
)

# %% [markdown]
# ## Units that are not used
# `layer.unit_kl()` returns the KL divergence of each unit's weights from their prior,
# and `layer.unit_signal_to_noise()` the ratio that `pruned_units` compares with its
# threshold. Collapsed divergences have no natural zero, so compare only units of the
# same network.

# %%
figure, panels = plt.subplots(1, 2, figsize=(8.4, 3), layout="constrained")
for name, color, line in zip(
    shown, ("#084594", "#e69f00", "black"), ("-", "--", ":"), strict=True
):
    layer = models[name].get_layer("hidden_1")
    look = {"color": color, "linestyle": line, "label": name}
    panels[0].plot(np.sort(layer.unit_kl())[::-1], **look)
    panels[1].semilogy(np.sort(layer.unit_signal_to_noise())[::-1], **look)
panels[0].set(xlabel="unit, sorted", ylabel="KL divergence (nats)")
panels[1].set(xlabel="unit, sorted", ylabel="signal-to-noise ratio")
panels[1].axhline(1.0, color="0.6", linewidth=1)
panels[1].annotate("threshold", (49, 1.05), ha="right", va="bottom")
panels[0].legend()
plt.show()

# %% [markdown]
# `remove_units` sets the incoming weights of units to zero. The unused ones contribute
# little, and with CM next to nothing.

# %%
for name in shown:
    smaller = keras.models.clone_model(models[name])
    smaller.set_weights(models[name].get_weights())
    removed = 0
    for layer in hidden_layers(smaller):
        unused = unused_units(layer)
        layer.remove_units(unused)
        removed += int(unused.sum())
    print(
        f"{name:9s} test log likelihood {evaluate(models[name], yacht)[0]:7.3f}, "
        f"without {removed:2d} units {evaluate(smaller, yacht)[0]:7.3f}"
    )

# %% [markdown]
# ## The bound
# Collapsed bounds also pay for the posterior of the prior's parameters. To compare CM
# with a fixed prior, integrate the prior means out: `marginal_prior=True`. (The
# marginal priors of CV and CMV are not Gaussian, and have no such bound.) The highest
# bound need not give the best predictions: 246 yachts weigh little against 3002
# weights, so that the bound depends more on the weights than on the data.

# %%
for name in ("Gaussian", "EB", "CM"):
    bound = tfr.elbo(
        models[name], yacht.x_train, yacht.y_train, marginal_prior=True, seed=1
    )
    print(f"{name:9s} marginal ELBO {bound:8.1f} nats")

# %% [markdown]
# ## Deeper networks
# The heating load of 768 buildings (energy), hidden layers of 50 units, 2000 steps.

# %%
energy = tfr.datasets.train_test_split(tfr.datasets.load_uci("energy"), split=0)
depths = (1, 2, 3, 4)
curves = {}
for name in ("Gaussian", "CM"):
    values = [
        evaluate(fit(priors[name], energy, (50,) * depth, steps=2000), energy)[
            0
        ]
        for depth in depths
    ]
    curves[name] = {"depth": depths, "values": np.array(values)[:, None]}
    print(f"{name:9s}", *np.round(values, 2))
axes = plotting.depth_sweep(
    curves, "test log likelihood (nats)\nhigher is better"
)

# %% [markdown]
# With the fixed prior the fit becomes worse with each layer. With CM it depends less on
# the depth, and is better from the second layer on.
#
# ## What to try next
# Give a network that you have already trained a posterior, without training it again, in [Laplace's approximation](https://github.com/tfp-refine/tfp_refine/blob/main/colab/laplace_refinement.ipynb). [Choose a prior](https://github.com/tfp-refine/tfp_refine/blob/main/docs/how_to/prior.md) says when each of these priors helps.
