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
# # Bayesian neural networks
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/bayesian_neural_networks.ipynb)
#
# The uncertainty of a prediction has two parts. *Epistemic* uncertainty is about the
# weights, and decreases with more data; *aleatoric* uncertainty is noise in the data,
# and remains. We train a standard network, one with posteriors of its weights, and one
# that also predicts the noise, and separate the two parts.
#
# The outline is that of the example [Probabilistic Bayesian Neural
# Networks](https://keras.io/examples/keras_recipes/bayesian_neural_networks/) on
# keras.io, whose layers need Keras 2. This takes about two minutes on one CPU core.
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

# %matplotlib inline

keras.utils.set_random_seed(1)

# %% [markdown]
# ## Data
# The compressive strength of 1030 samples of concrete, with 8 features, comes with the
# package. Inputs and targets are standardized; results are in original units (MPa).

# %%
data = tfr.datasets.load_uci("concrete")
split = tfr.datasets.train_test_split(data, split=0, test_fraction=0.15)
unit = split.y_scaler.scale[0]
print(
    f"{len(split.x_train)} training and {len(split.x_test)} test examples; the "
    f"strength has a standard deviation of {unit:.1f} MPa"
)

# %% [markdown]
# ## Named inputs
# Each feature has its own input; the models concatenate and normalize them. All have
# two hidden layers of 8 sigmoid units, and are trained in the same way.

# %%
NAMES = [name.split(" (")[0] for name in data.feature_names]  # without units


def named(x):
    """Returns the columns of the features `[N, P]` by name."""
    return {name: x[:, i : i + 1] for i, name in enumerate(NAMES)}


def create_inputs():
    inputs = {name: keras.Input((1,), name=name) for name in NAMES}
    features = keras.layers.Concatenate()(list(inputs.values()))
    return inputs, keras.layers.BatchNormalization()(features)


def train(model, loss, steps, rows=None):
    """Trains on the first rows of the training set."""
    x, y = split.x_train[:rows], split.y_train[:rows]
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, steps)
    model.compile(
        keras.optimizers.Adam(schedule),
        loss,
        steps_per_execution=50,
        jit_compile=False,
    )
    batches = tfr.datasets.training_batches(x, y, 256, seed=1)
    model.fit(
        batches.map(lambda x, y: (named(x), y)),
        steps_per_epoch=steps,
        shuffle=False,
        verbose=0,
    )


x_train, x_test = named(split.x_train), named(split.x_test)
targets = split.y_test_original


def rmse(loc):
    return tfr.metrics.root_mean_squared_error(
        targets, split.y_scaler.inverse(loc)
    )


# %% [markdown]
# ## Experiment 1: a standard network
# It has point estimates of the weights, and minimizes the mean squared error.

# %%
inputs, features = create_inputs()
for units in (8, 8):
    features = keras.layers.Dense(units, activation="sigmoid")(features)
baseline = keras.Model(inputs, keras.layers.Dense(1)(features))
train(baseline, keras.losses.MeanSquaredError(), 2000)

outputs = baseline.predict(x_test, verbose=0)
predicted = split.y_scaler.inverse(outputs)
print(f"test RMSE {rmse(outputs[None]):.2f} MPa")
for value, actual in zip(predicted[:5, 0], targets[:5, 0], strict=True):
    print(f"predicted {value:5.1f}   actual {actual:5.1f}")

# %% [markdown]
# Its predictions do not say how certain they are.
#
# ## Experiment 2: a Bayesian network
# Weights have distributions: the prior is `N(0, 1)`, and the posterior a product of
# Gaussians. The layers add their KL divergence to the loss and scale it with the number
# of training examples; there is no `kl_weight` to compute.
#
# The loss must be a likelihood. `GaussianNLL` has a known noise: here the error of the
# standard network on its training set.

# %%
residuals = baseline.predict(x_train, verbose=0) - split.y_train
noise = float(np.sqrt(np.mean(residuals**2)))
print(f"noise {unit * noise:.2f} MPa, standardized {noise:.2f}")


def create_bayesian(num_train_examples, outputs=1):
    inputs, features = create_inputs()
    for units in (8, 8):
        features = tfr.layers.DenseLocalReparameterization(
            units, activation="sigmoid"
        )(features)
    outputs = tfr.layers.DenseLocalReparameterization(outputs)(features)
    model = keras.Model(inputs, outputs)
    tfr.layers.set_num_train_examples(model, num_train_examples)
    return model


# %% [markdown]
# More data reduce epistemic uncertainty. We train on 30% of the training set, and on
# all of it.

# %%
models = {}
for part in (0.3, 1.0):
    rows = int(part * len(split.x_train))
    models[part] = create_bayesian(rows)
    train(models[part], tfr.losses.GaussianNLL(noise), 4000, rows)

# %% [markdown]
# Each call of a Bayesian network draws its weights again. `tfr.predict` returns 100
# such predictions, `[draws, examples, outputs]`. The wider their range, the less
# certain the model.

# %%
draws = {
    f"trained on {part:.0%}": tfr.predict(
        model, x_test, num_samples=100, seed=1
    )
    for part, model in models.items()
}
for name, values in draws.items():
    ranges = unit * np.ptp(values, axis=0)
    print(
        f"{name}: RMSE {rmse(values):.2f}, mean range {ranges.mean():.2f} MPa"
    )

figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(
    [unit * values.std(axis=0)[:, 0] for values in draws.values()],
    bins=30,
    histtype="step",
    color=["black", "#e69f00"],
    linestyle=["-", "--"],
    label=list(draws),
)
axes.set(
    xlabel="epistemic standard deviation of the strength (MPa)",
    ylabel="test examples",
)
axes.legend()
plt.show()

# %% [markdown]
# ## Experiment 3: a probabilistic Bayesian network
# Now the network has two outputs, the mean and the (raw) scale of the noise, which both
# depend on the input. `HeteroscedasticGaussianNLL` reads a Gaussian from them.

# %%
loss = tfr.losses.HeteroscedasticGaussianNLL()
model = create_bayesian(len(split.x_train), outputs=2)
train(model, loss, 4000)


def loc_and_scale(draws):
    """Returns means and noise scales of draws, in original units."""
    loc, scale = (np.asarray(v) for v in loss.loc_and_scale(draws))
    return split.y_scaler.inverse(loc), unit * scale


loc, scale = loc_and_scale(tfr.predict(model, x_test, 100, seed=1))
variance = tfr.metrics.predictive_variance(loc, scale)
mean, total = loc.mean(axis=0), np.sqrt(variance.total)
for i in range(5):
    print(
        f"mean {mean[i, 0]:5.1f}  aleatoric "
        f"{np.sqrt(variance.aleatoric[i, 0]):4.1f}  epistemic "
        f"{np.sqrt(variance.epistemic[i, 0]):4.1f}  95% interval "
        f"[{mean[i, 0] - 1.96 * total[i, 0]:5.1f}, "
        f"{mean[i, 0] + 1.96 * total[i, 0]:5.1f}]  actual {targets[i, 0]:5.1f}"
    )

# %% [markdown]
# Do 95% intervals contain 95% of the test examples? `interval_coverage` counts those in
# the central interval of the mixture of all draws. Intervals of epistemic uncertainty
# alone contain far fewer, because they ignore the noise.


# %%
def report(name, loc, scale):
    nll = tfr.metrics.gaussian_negative_log_likelihood(targets, loc, scale)
    error = tfr.metrics.root_mean_squared_error(targets, loc)
    coverage = tfr.metrics.interval_coverage(targets, loc, scale, 0.95)
    print(
        f"{name:22s} NLL {nll:.3f}  RMSE {error:.2f}  coverage {coverage:.3f}"
    )


means = split.y_scaler.inverse(draws["trained on 100%"])
low, high = np.percentile(means, [2.5, 97.5], axis=0)
inside = np.mean((low <= targets) & (targets <= high))
print(f"{'epistemic alone':22s} coverage {inside:.3f}")
report("known noise", means, np.full_like(means, unit * noise))
report("learned noise", loc, scale)

# %% [markdown]
# ## Refinement
# `tfr.refine` turns the posterior into an ensemble with a higher evidence lower bound
# (ELBO), and leaves the model unchanged.

# %%
ensemble = tfr.refine(
    model,
    x_train,
    split.y_train,
    num_members=5,
    steps=200,
    seed=1,
    verbose=0,
)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.1f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.1f} nats")
report("mean-field VI", loc, scale)
refined_loc, refined_scale = loc_and_scale(
    tfr.predict(ensemble, x_test, 100, seed=1)
)
report("refined VI", refined_loc, refined_scale)

# %%
figure, panels = plt.subplots(
    1, 2, figsize=(9, 3.6), sharex=True, sharey=True, layout="constrained"
)
order = np.argsort(targets[:, 0])
for axes, title, values in (
    (panels[0], "mean-field VI", (loc, scale)),
    (panels[1], "refined VI", (refined_loc, refined_scale)),
):
    middle = values[0].mean(axis=0)
    parts = tfr.metrics.predictive_variance(*values)
    for part, look in (
        ("total", {"color": "0.75", "elinewidth": 2.0}),
        ("epistemic", {"color": "#084594", "elinewidth": 2.0}),
    ):
        axes.errorbar(
            np.arange(len(order)),
            middle[order, 0],
            yerr=1.96 * np.sqrt(getattr(parts, part))[order, 0],
            fmt="none",
            label=f"{part}, ± 1.96 standard deviations",
            **look,
        )
    axes.plot(targets[order, 0], "k.", markersize=4, label="measured")
    axes.set(title=title, xlabel="test examples, sorted by strength")
panels[0].set_ylabel("strength (MPa)")
figure.legend(
    *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3
)
plt.show()

# %% [markdown]
# ## What to try next
# This is the end of the course; [Quick start](https://github.com/tfp-refine/tfp_refine/blob/main/colab/quickstart.ipynb) is its shortest part. Predict intervals for your own table with [Predict intervals](https://github.com/tfp-refine/tfp_refine/blob/main/docs/how_to/intervals.md).
