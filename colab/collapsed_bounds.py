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
# Mean-field variational inference underfits: it gives weights up that the data could
# use. A prior whose means or variances are inferred along with the weights, in
# closed form, makes it fit, by one argument of the layers. We compare such priors
# with a fixed one and a learned one, look at the units that each gives up, and go
# deeper. About five minutes on a laptop's CPU.
#
# Method: [Tomczak et al., 2021](https://openreview.net/forum?id=ykN3tbJ0qmX).
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
import logging
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Training many networks is no mistake that deserves a warning.
logging.getLogger("tensorflow").setLevel(logging.ERROR)

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
# ## Data and network
# The resistance of 308 yachts, by 6 features. A perceptron with two hidden layers of
# 50 units has two outputs: the mean, and the raw scale of the noise.

# %%
split = tfr.datasets.train_test_split(tfr.datasets.load_uci("yacht"), split=1)
loss = tfr.losses.HeteroscedasticGaussianNLL()


def fit(regularizer, data, hidden=(50, 50), steps=10000):
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
        steps_per_epoch=100 if FAST else steps,
        shuffle=False,
        verbose=0,
    )
    return model


def evaluate(model, data):
    """Returns test log likelihood and RMSE, in original units."""
    draws = tfr.predict(model, data.x_test, 100, seed=1)
    loc, scale = (np.asarray(v) for v in loss.loc_and_scale(draws))
    nll = tfr.metrics.gaussian_negative_log_likelihood(data.y_test, loc, scale)
    return data.y_scaler.inverse_log_likelihood(
        -nll
    ), tfr.metrics.root_mean_squared_error(
        data.y_test_original, data.y_scaler.inverse(loc)
    )


# %% [markdown]
# ## Priors
# The usual prior is `N(0, 1 / fan_in)`. In the hierarchical ones each weight has a
# prior mean, or a prior variance, or both, of its own, with a prior in turn; for any
# posterior of the weight, the best posterior of these is known in closed form, and
# put into the bound.
#
# | | prior of a weight | inferred |
# |---|---|---|
# | Gaussian | `N(0, gamma)` | nothing |
# | EB | `N(0, v)` | `v`, one for each tensor, as a point |
# | CM | `N(m, gamma)`, `m ~ N(0, h)` | `m` |
# | CM-OPT | the same | `m`; and `alpha_reg = gamma / (gamma + h)`, one for each layer, as a point, freely or with an exponential prior of it |
# | CV | `N(0, 1 / tau)`, `tau ~ Gamma(a, b)` | `tau` |
# | CMV | `N(m, 1 / tau)`, and priors of both | `m` and `tau` |

# %%
priors = {
    "Gaussian": tfr.regularizers.GaussianKL("fan_in"),
    "EB": tfr.regularizers.EmpiricalBayesKL(initial_prior_scale="fan_in"),
    "CM": tfr.regularizers.CollapsedMeanKL(0.05),
    "CM-OPT, free": tfr.regularizers.CollapsedMeanKL(learn="closed_form"),
    "CM-OPT": tfr.regularizers.CollapsedMeanKL(
        learn="closed_form", exponential_rate=5.0
    ),
    "CV": tfr.regularizers.CollapsedVarianceKL(0.5, 0.01),
    "CMV": tfr.regularizers.CollapsedMeanVarianceKL(0.5, 0.01, 0.05),
}
models = {name: fit(prior, split) for name, prior in priors.items()}

# %% [markdown]
# ## What they are worth
# The draws, the steps and the network are the same. A unit is used if the root mean
# square of `mean / standard deviation` of its incoming weights is above 1; the
# default of `layer.pruned_units()`, 0.25, is for posteriors that were trained longer.


# %%
def hidden_layers(model):
    return [layer for layer in model.layers if layer.name.startswith("hidden")]


def unused_units(layer):
    return layer.pruned_units(threshold=1.0)


print("             test log likelihood   RMSE   used units of 50 and 50")
for name, model in models.items():
    log_likelihood, rmse = evaluate(model, split)
    used = [int(np.sum(~unused_units(layer))) for layer in hidden_layers(model)]
    print(f"{name:12s} {log_likelihood:19.3f}   {rmse:4.2f}   {used}")

# %% [markdown]
# The more units are used, the better the fit.
#
# ## Where the weights are
# Each dot is a weight of the second layer. Under the fixed prior most stay near that
# prior: mean zero, variance 1/50 (dotted; for CM given the prior means). With
# inferred means or variances, those that the data need go farther.


# %%
def describe(layer):
    """Returns what `posterior_scatter` shows of a layer."""
    values = {}
    for weight in layer.variational_weights:
        prefix = "" if weight.name == "kernel" else "bias_"
        values[f"{prefix}loc"] = np.ravel(weight.loc)
        values[f"{prefix}scale"] = np.ravel(weight.scale)
    return values


axes = plotting.posterior_scatter(
    {
        name: describe(models[name].get_layer("hidden_1"))
        for name in ("Gaussian", "EB", "CM", "CV", "CMV")
    },
    {name: 1.0 / 50 for name in ("Gaussian", "CM")},
)

# %% [markdown]
# ## Unused units
# The KL divergence of each unit's weights from their prior, `layer.unit_kl()`, and
# the signal-to-noise ratio that `pruned_units` looks at, of the units of the second
# layer in order. Both tell the same units apart from the rest. Collapsed divergences
# have no zero, so compare only units of the same network.

# %%
figure, panels = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
for name in ("Gaussian", "CM", "CMV"):
    layer = models[name].get_layer("hidden_1")
    panels[0].plot(np.sort(layer.unit_kl())[::-1], label=name)
    panels[1].semilogy(np.sort(layer.unit_signal_to_noise())[::-1], label=name)
panels[0].set_ylabel("KL divergence (nats)")
panels[1].set_ylabel("signal-to-noise ratio")
panels[1].axhline(1.0, color="0.5", linestyle=":", label="unused below")
for axes in panels:
    axes.set_xlabel("unit, in order")
panels[1].legend()
plt.show()

# %% [markdown]
# What are the others worth? `remove_units` sets their incoming weights to zero:

# %%
for name in ("Gaussian", "CM", "CMV"):
    smaller = keras.models.clone_model(models[name])
    smaller.set_weights(models[name].get_weights())
    removed = 0
    for layer in hidden_layers(smaller):
        unused = unused_units(layer)
        layer.remove_units(unused)
        removed += int(unused.sum())
    print(
        f"{name:12s} test log likelihood {evaluate(models[name], split)[0]:7.3f}, "
        f"without {removed:2d} units {evaluate(smaller, split)[0]:7.3f}"
    )

# %% [markdown]
# Next to nothing with CM and CMV; with the fixed prior there is a little left in them.
#
# ## The prior that was inferred
# Of CM, the posterior of a prior mean is `N((1 - alpha_reg) loc, (1 - alpha_reg)
# gamma)` for a weight's posterior `N(loc, scale**2)`: it follows the weight, all but
# `alpha_reg` of the way. With the means integrated out, CM is the Gaussian prior
# `N(0, gamma / alpha_reg)`, which is what `weight.prior` returns and refinement
# starts from. EB learns the prior's standard deviation of each tensor.
#
# CM-OPT that learns `alpha_reg` freely arrives at 1 here, where CM is the Gaussian
# prior again, and predicts like it: that maximizes the bound. With the exponential
# prior of the paper's plots, of rate 5, `alpha_reg` stays small.

# %%
for name in ("Gaussian", "EB", "CM", "CM-OPT, free", "CM-OPT"):
    print(name)
    for layer in models[name].layers:
        for weight in getattr(layer, "variational_weights", ()):
            line = f"  {layer.name:9s} {weight.name:7s}"
            line += f"prior scale {float(weight.prior.scale):6.3f}"
            if isinstance(weight.regularizer, tfr.regularizers.CollapsedMeanKL):
                alpha_reg = weight.regularizer.current_alpha_reg(
                    keras.ops.convert_to_tensor(weight.loc),
                    weight.prior_weights,
                )
                line += f"  alpha_reg {float(alpha_reg):6.4f}"
            print(line)

# %% [markdown]
# ## The bound
# Collapsed bounds pay for the posterior of the prior's parameters, and are lower for
# that. What compares with the others is the bound with the means integrated out,
# `marginal_prior=True`. (The marginal prior of CV and CMV is not Gaussian, and there
# is no such bound.) The Gaussian prior has the higher bound, and CM the better
# predictions: 246 yachts weigh little against 3002 weights, so that this bound says
# more about the weights than about the data.

# %%
for name in ("Gaussian", "EB", "CM", "CM-OPT, free", "CM-OPT"):
    bounds = [
        tfr.elbo(
            models[name],
            split.x_train,
            split.y_train,
            marginal_prior=marginal,
            seed=1,
        )
        for marginal in (False, True)
    ]
    print(
        f"{name:12s} ELBO {bounds[0]:8.1f} nats, marginal {bounds[1]:8.1f} nats"
    )

# %% [markdown]
# ## Deeper
# The same in networks of more and more layers. Energy: the heating load of 768
# buildings, hidden layers of 50 units, 5000 steps.

# %%
energy = tfr.datasets.train_test_split(tfr.datasets.load_uci("energy"), split=0)
depths = (1,) if FAST else (1, 2, 3, 4, 5)
curves = {}
for name in ("Gaussian", "CM"):
    values = []
    for depth in depths:
        model = fit(priors[name], energy, hidden=(50,) * depth, steps=5000)
        values.append(evaluate(model, energy)[0])
    curves[name] = {"depth": depths, "values": np.array(values)[:, None]}
    print(f"{name:12s}", np.round(values, 2))
axes = plotting.depth_sweep(
    curves, "test log likelihood (nats)\nhigher is better"
)

# %% [markdown]
# Under the fixed prior the fit breaks down with the third layer; with inferred means
# it falls off later, and less.
#
# More priors and posteriors, on more splits, with tables and plots:
# `python -m tfp_refine.experiments.uci --systems=vi,cm`, and
# `experiments.image` with `--pruning` for images.
