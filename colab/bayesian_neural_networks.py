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
# # Probabilistic Bayesian neural networks
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/bayesian_neural_networks.ipynb)
#
# What a network does not know has two parts. *Epistemic* uncertainty is about its
# weights, and shrinks with more data; *aleatoric* uncertainty is noise in the
# data, and stays. We train a standard network, one with posteriors of its weights,
# and one that has a distribution at its output as well, and tell the two parts
# apart.
#
# The plan is that of the example [Probabilistic Bayesian Neural
# Networks](https://keras.io/examples/keras_recipes/bayesian_neural_networks/) on
# keras.io, whose layers need Keras 2. About two minutes on a laptop's CPU.
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

import socket

import keras
import matplotlib.pyplot as plt
import numpy as np

import tfp_refine as tfr

# %matplotlib inline

# Fewer steps where only the code is tested.
FAST = os.environ.get("TFP_REFINE_FAST") == "1"
keras.utils.set_random_seed(1)

# %% [markdown]
# ## The data set
# Quality of 4898 white wines, by 11 measurements, from TensorFlow Datasets. Where
# it cannot be downloaded, the strength of 1030 samples of concrete takes its
# place, by 8 measurements: this set comes with the package. 85% are for training.
# Inputs and targets are standardized; results are in original units.


# %%
def load_wine():
    """Downloads the wine data; fails at once without a network."""
    import tensorflow_datasets as tfds

    socket.getaddrinfo("archive.ics.uci.edu", None)
    rows = list(
        tfds.load("wine_quality/white", split="train").as_numpy_iterator()
    )
    names = sorted(rows[0]["features"])
    return tfr.datasets.RegressionData(
        name="wine",
        features=np.array([[r["features"][n] for n in names] for r in rows]),
        target=np.array([[r["quality"]] for r in rows], float),
        feature_names=tuple(names),
        target_name="quality",
    )


if FAST:
    data = tfr.datasets.load_uci("concrete")
else:
    try:
        data = load_wine()
    except Exception as error:
        print(f"No wine data: {type(error).__name__}: {error}")
        data = tfr.datasets.load_uci("concrete")
split = tfr.datasets.train_test_split(data, split=0, test_fraction=0.15)
unit = split.y_scaler.scale[0]
print(
    f"{data.name}: {len(split.x_train)} training and {len(split.x_test)} test "
    f"examples; {data.target_name} has a standard deviation of {unit:.2f}"
)

# %% [markdown]
# ## Named inputs, and one way to train
# Each feature is an input of its own; the models concatenate and normalize them.
# All have two hidden layers of 8 sigmoid units.

# %%
HIDDEN_UNITS = (8, 8)
BATCH_SIZE = 256
NAMES = [name.split(" (")[0] for name in data.feature_names]  # without units


def named(x):
    """Makes a dict of columns of the features, `[N, P]`."""
    return {name: x[:, i : i + 1] for i, name in enumerate(NAMES)}


def create_inputs():
    inputs = {name: keras.Input((1,), name=name) for name in NAMES}
    features = keras.layers.Concatenate()(list(inputs.values()))
    return inputs, keras.layers.BatchNormalization()(features)


def train(model, loss, steps, rows=None):
    """Trains on the first rows of the training set."""
    x, y = split.x_train[:rows], split.y_train[:rows]
    steps = 100 if FAST else steps
    model.compile(
        keras.optimizers.Adam(
            keras.optimizers.schedules.CosineDecay(1e-2, steps)
        ),
        loss,
        steps_per_execution=50,
        jit_compile=False,
    )
    batches = tfr.datasets.training_batches(x, y, BATCH_SIZE, seed=1)
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
# Point estimates of the weights, and the mean squared error.

# %%
inputs, features = create_inputs()
for units in HIDDEN_UNITS:
    features = keras.layers.Dense(units, activation="sigmoid")(features)
baseline = keras.Model(inputs, keras.layers.Dense(1)(features))
train(baseline, keras.losses.MeanSquaredError(), 2000)

predicted = split.y_scaler.inverse(baseline.predict(x_test, verbose=0))
print(f"test RMSE {rmse(baseline.predict(x_test, verbose=0)[None]):.2f}")
for value, actual in zip(predicted[:10, 0], targets[:10, 0], strict=True):
    print(f"predicted {value:6.2f}   actual {actual:6.2f}")

# %% [markdown]
# It says nothing about how sure it is.
#
# ## Experiment 2: a Bayesian network
# Weights have distributions: `N(0, 1)` a priori, independent Gaussians a
# posteriori. The layers add their KL divergence to the loss by themselves, once
# they know the number of training examples; there is no `kl_weight` to compute.
#
# The loss must be a likelihood. `GaussianNLL` has a known noise, here the error
# that the standard network makes on its training set. (The mean squared error would
# be a Gaussian, too: one with a variance of 1/2, whatever the data.)

# %%
residuals = baseline.predict(x_train, verbose=0) - split.y_train
noise = float(np.sqrt(np.mean(residuals**2)))
print(f"noise {unit * noise:.2f}, standardized {noise:.2f}")


def create_bayesian(num_train_examples, outputs=1):
    inputs, features = create_inputs()
    for units in HIDDEN_UNITS:
        features = tfr.layers.DenseLocalReparameterization(
            units, activation="sigmoid"
        )(features)
    outputs = tfr.layers.DenseLocalReparameterization(outputs)(features)
    model = keras.Model(inputs, outputs)
    tfr.layers.set_num_train_examples(model, num_train_examples)
    return model


# %% [markdown]
# More data mean less epistemic uncertainty. So we train on 30% of the training set
# first, then on all of it.

# %%
models = {}
for part in (0.3, 1.0):
    rows = int(part * len(split.x_train))
    models[part] = create_bayesian(rows)
    train(models[part], tfr.losses.GaussianNLL(noise), 8000, rows)

# %% [markdown]
# Each call of a Bayesian network draws its weights anew. `tfr.predict` makes 100
# such predictions in one call, `[draws, examples, outputs]`. The wider they range,
# the less the network knows.

# %%
for part, model in models.items():
    draws = tfr.predict(model, x_test, num_samples=100, seed=1)
    ranges = unit * np.ptp(draws, axis=0)
    print(
        f"\nTrained on {part:.0%}: test RMSE {rmse(draws):.2f}, "
        f"mean range {ranges.mean():.2f}"
    )
    for i in range(10):
        values = split.y_scaler.inverse(draws[:, i])
        print(
            f"mean {values.mean():6.2f}  min {values.min():6.2f}  "
            f"max {values.max():6.2f}  range {np.ptp(values):5.2f}   "
            f"actual {targets[i, 0]:6.2f}"
        )

# %%
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.hist(
    [
        unit * tfr.predict(model, x_test, 100, seed=1).std(axis=0)[:, 0]
        for model in models.values()
    ],
    bins=30,
    histtype="step",
    label=[f"trained on {part:.0%}" for part in models],
)
axes.set_xlabel(f"epistemic standard deviation of {data.target_name}")
axes.set_ylabel("test examples")
axes.legend()
plt.show()

# %% [markdown]
# ## Experiment 3: a probabilistic Bayesian network
# Now the network has two outputs, the mean and the (raw) scale of the noise, both
# functions of the input. `HeteroscedasticGaussianNLL` reads a Gaussian from them.

# %%
loss = tfr.losses.HeteroscedasticGaussianNLL()
model = create_bayesian(len(split.x_train), outputs=2)
train(model, loss, 8000)


def loc_and_scale(draws):
    """Returns means and noise scales of draws, in original units."""
    loc, scale = (np.asarray(v) for v in loss.loc_and_scale(draws))
    return split.y_scaler.inverse(loc), unit * scale


def report(name, loc, scale):
    variance = tfr.metrics.predictive_variance(loc, scale)
    nll = tfr.metrics.gaussian_negative_log_likelihood(targets, loc, scale)
    error = tfr.metrics.root_mean_squared_error(targets, loc)
    coverage = tfr.metrics.interval_coverage(targets, loc, scale, 0.95)
    print(
        f"{name:22s} log likelihood {-nll:6.3f}  RMSE {error:5.2f}  coverage "
        f"of 95% intervals {coverage:.3f}  mean standard deviations: aleatoric "
        f"{np.sqrt(variance.aleatoric).mean():.2f}, epistemic "
        f"{np.sqrt(variance.epistemic).mean():.2f}"
    )
    return variance


loc, scale = loc_and_scale(tfr.predict(model, x_test, 100, seed=1))
variance = tfr.metrics.predictive_variance(loc, scale)
mean, total = loc.mean(axis=0), np.sqrt(variance.total)
for i in range(10):
    print(
        f"mean {mean[i, 0]:6.2f}  aleatoric "
        f"{np.sqrt(variance.aleatoric[i, 0]):5.2f}  epistemic "
        f"{np.sqrt(variance.epistemic[i, 0]):5.2f}  95% interval "
        f"[{mean[i, 0] - 1.96 * total[i, 0]:6.2f}, "
        f"{mean[i, 0] + 1.96 * total[i, 0]:6.2f}]   actual {targets[i, 0]:6.2f}"
    )

# %% [markdown]
# Does 95% mean 95%? `interval_coverage` counts the test examples inside of the
# central interval of the mixture of all draws. A model with epistemic uncertainty
# alone is far from it: the data are noisy, and it says nothing about that.

# %%
means = split.y_scaler.inverse(tfr.predict(models[1.0], x_test, 100, seed=1))
low, high = np.percentile(means, [2.5, 97.5], axis=0)
inside = np.mean((low <= targets) & (targets <= high))
print(f"{'epistemic alone':22s} coverage of 95% intervals {inside:.3f}")
report("noise known", means, np.full_like(means, unit * noise))
before = report("noise learned", loc, scale)

# %% [markdown]
# ## Refined
# The posteriors are independent Gaussians, so the bound is loose. `tfr.refine`
# makes an ensemble of better posteriors of the trained model, which is not changed.

# %%
ensemble = tfr.refine(
    model,
    x_train,
    split.y_train,
    num_members=2 if FAST else 10,
    steps=10 if FAST else 200,
    learning_rate=1e-2,
    learning_rate_decay="linear",
    seed=1,
    verbose=0,
)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.1f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.1f} nats")
report("mean-field VI", loc, scale)
refined_loc, refined_scale = loc_and_scale(
    tfr.predict(ensemble, x_test, 100, seed=1)
)
after = report("refined VI", refined_loc, refined_scale)

# %%
figure, panels = plt.subplots(
    1, 2, figsize=(10, 4), sharex=True, sharey=True, layout="constrained"
)
order = np.argsort(targets[:, 0])
for axes, (name, middle, parts) in zip(
    panels,
    (
        ("mean-field VI", mean, before),
        ("refined VI", refined_loc.mean(axis=0), after),
    ),
    strict=True,
):
    for part, style in (
        ("total", {"color": "C0", "elinewidth": 0.7}),
        ("epistemic", {"color": "C1", "elinewidth": 2.0}),
    ):
        axes.errorbar(
            np.arange(len(order)),
            middle[order, 0],
            yerr=1.96 * np.sqrt(getattr(parts, part))[order, 0],
            fmt="none",
            label=f"{part}, ± 1.96 standard deviations",
            **style,
        )
    axes.plot(targets[order, 0], "k.", markersize=3, label="measured")
    axes.set_title(name)
    axes.set_xlabel(f"test examples, by {data.target_name}")
panels[0].set_ylabel(data.target_name)
figure.legend(
    *panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3
)
plt.show()

# %% [markdown]
# ## Save it
# A model is saved to a `.keras` file, which loads without `custom_objects`; any
# posterior is saved to one file, with its model.

# %%
import tempfile

folder = tempfile.mkdtemp()
model.save(os.path.join(folder, "model.keras"))
ensemble.save(os.path.join(folder, "ensemble.posterior"))
loaded = keras.models.load_model(os.path.join(folder, "model.keras"))
np.testing.assert_array_equal(
    tfr.predict(loaded, x_test, 1, sample=False),
    tfr.predict(model, x_test, 1, sample=False),
)
again = tfr.load_posterior(os.path.join(folder, "ensemble.posterior"))
np.testing.assert_array_equal(
    again.predict(x_test, seed=2), ensemble.predict(x_test, seed=2)
)
