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
# # Refinement in depth
#
# [![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)](https://colab.research.google.com/github/tfp-refine/tfp_refine/blob/main/colab/refinement.ipynb)
#
# What the auxiliary variables of refined variational inference do: first for one
# weight, where all can be drawn and integrated, then for a network. How many
# variables, how many members, at what cost; what happens when it is interrupted;
# and a recurrent network. About five minutes on a laptop's CPU. `quickstart` is the
# short version.
#
# Method: [Havasi et al., 2021](https://doi.org/10.3390/e23111475).
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

import _thread
import tempfile
import threading
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import tfp_refine as tfr
from tfp_refine import plotting
from tfp_refine.experiments.four_modes import target
from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian
from tfp_refine.math import variance_schedule

# %matplotlib inline

# Fewer steps where only the code is tested.
FAST = os.environ.get("TFP_REFINE_FAST") == "1"
keras.utils.set_random_seed(1)

# %% [markdown]
# ## One weight, four modes
# A model that outputs its only weight `w`, with the prior `N(0, 1)` and a likelihood
# of four bumps. Bounds on the log evidence come from numerical integration over
# `w`. The Gaussian with the best bound covers all modes, and what is between them.

# %%
grid = target.GRID
exact = target.likelihood(grid) * stats.norm.pdf(grid)
exact /= target.integral(exact)
mean_field = stats.norm.pdf(grid, target.BEST_LOC, target.BEST_SCALE)
print(f"log evidence    {target.log_evidence():7.3f}")
print(f"mean-field ELBO {target.bound(mean_field):7.3f}")

# %% [markdown]
# Refinement splits the weight a priori into two independent parts, `w = a + rest`:
# the auxiliary variable `a` takes `r` of the variance, here `r = 0.8`. The posterior
# `q(w)` then has a part for `a`, `q(a)`, and for each value of `a` a narrower
# `q(w | a)`. Averaged over `q(a)` these are `q(w)` again: nothing is gained yet. But
# each of them can now be optimized for its own `a`, and most settle in a mode. For
# each member of the ensemble one `a` is drawn; a few of them:

# %%
RATIO = 0.8


def refine_four_modes(num_members, variance_ratios):
    return tfr.refine(
        target.mean_field_model(),
        *target.data(),
        num_members=num_members,
        variance_ratios=variance_ratios,
        steps=20 if FAST else 400,
        learning_rate=0.1,
        learning_rate_decay="linear",
        num_eval_samples=100,
        seed=1,
        verbose=0,
    )


ensemble = refine_four_modes(10 if FAST else 200, (RATIO,))
prior = gaussian.Gaussian(np.zeros(1), np.ones(1))
q = gaussian.Gaussian(
    np.array([target.BEST_LOC]), np.array([target.BEST_SCALE])
)
# A member's prior is p(w | a), whose mean is `a`.
drawn = ensemble.prior.loc.astype(float)
conditioned = auxiliary.posterior_given_auxiliary(q, prior, RATIO, drawn)

figure, panels = plt.subplots(
    1, 2, figsize=(10, 3.4), sharex=True, sharey=True, layout="constrained"
)
for axes, members, title in zip(
    panels,
    (conditioned, ensemble),
    ("q(w | a), before optimization", "and after"),
    strict=True,
):
    axes.fill_between(grid, exact, color="0.85", label="posterior")
    for index in np.argsort(drawn[:, 0])[:: max(1, len(drawn) // 8)]:
        density = stats.norm.pdf(
            grid,
            np.broadcast_to(members.loc, drawn.shape)[index, 0],
            np.broadcast_to(members.scale, drawn.shape)[index, 0],
        )
        axes.plot(grid, density, linewidth=1)
    axes.set_title(title)
    axes.set_xlabel("weight")
panels[0].set_xlim(-3, 3)
panels[0].set_ylabel("density")
panels[0].legend()
plt.show()

# %% [markdown]
# ## Bounds
# `elbo_final`, averaged over the members, is `ELBO_aux` of the paper: the bound of `w`
# and `a` together, which is optimized. The bound of the mixture over all values of
# `a`, `ELBO_ref`, is higher, but it can be computed only by numerical integration.

# %%
print(f"ELBO_init    {target.bound(mean_field):7.3f}")
print(f"ELBO_aux     {ensemble.elbo_final.mean():7.3f}")
print(f"ELBO_ref     {target.bound(target.mixture(ensemble)):7.3f}")
print(f"log evidence {target.log_evidence():7.3f}")

# %% [markdown]
# The mixture of few members is rough; more of them cost time, and nothing else.

# %%
curves = {"posterior": exact, "mean-field VI": mean_field}
for count in (3, 10, len(drawn)):
    curves[f"{count} members"] = np.mean(
        stats.norm.pdf(grid, ensemble.loc[:count], ensemble.scale[:count]),
        axis=0,
    )
axes = plotting.densities(grid, curves)

# %% [markdown]
# ## How much variance?
# A variable with hardly any variance leaves the posterior as it was; one with
# nearly all of it leaves nothing to optimize. Several variables, one after the other,
# raise `ELBO_aux` further. Their members are narrower, and a good mixture needs more
# of them: `ELBO_ref` is that of 200.

# %%
print("variance ratios      ELBO_aux  ELBO_ref")
several = ((0.1,), (0.5,), (0.8,), (0.99,), (0.5,) * 3, (0.7,) * 5)
for ratios in several[-1:] if FAST else several:
    other = refine_four_modes(10 if FAST else 200, ratios)
    name = f"{ratios[0]}" + (f", {len(ratios)} times" if ratios[1:] else "")
    print(
        f"{name:20s} {other.elbo_final.mean():8.3f}  "
        f"{target.bound(target.mixture(other)):8.3f}"
    )

# %% [markdown]
# Each ratio is of the variance that is left. The paper prints fractions of the whole:

# %%
fractions = variance_schedule.fractions_from_ratios((0.7,) * 5)
print("fractions", np.round(fractions, 5), "left", 1.0 - sum(fractions))
variance_schedule.ratios_from_fractions((0.7, 0.21, 0.063))

# %% [markdown]
# ## A network
# The yachts of `quickstart`: 50 hidden units, 451 weights.

# %%
split = tfr.datasets.train_test_split(tfr.datasets.load_uci("yacht"), split=1)
x_train, y_train = split.x_train, split.y_train
model = tfr.models.MLP(
    (6,), noise_scale=1.0, num_train_examples=len(x_train), seed=1
)
likelihood = tfr.losses.HeteroscedasticGaussianNLL()
model.compile(
    keras.optimizers.Adam(1e-3),
    likelihood,
    steps_per_execution=100,
    jit_compile=False,
)
start = time.perf_counter()
model.fit(
    tfr.datasets.training_batches(x_train, y_train, batch_size=256, seed=1),
    steps_per_epoch=500 if FAST else 15000,
    shuffle=False,
    verbose=0,
)
seconds = {"training": time.perf_counter() - start}


def refine(**options):
    """Refines, with the usual options unless others are given."""
    options = {
        "num_members": 3 if FAST else 10,
        "variance_ratios": (0.7,) * 5,
        "steps": 10 if FAST else 200,
        "learning_rate": 1e-2,
        "learning_rate_decay": "linear",
        "seed": 1,
        "verbose": 0,
    } | options
    return tfr.refine(model, x_train, y_train, **options)


def log_likelihood(draws):
    """Returns the test log likelihood of draws, in original units."""
    loc, scale = (np.asarray(v) for v in likelihood.loc_and_scale(draws))
    nll = tfr.metrics.gaussian_negative_log_likelihood(split.y_test, loc, scale)
    return split.y_scaler.inverse_log_likelihood(-nll)


start = time.perf_counter()
ensemble = refine()
seconds["refinement, 10 members"] = time.perf_counter() - start
axes = plotting.elbo_staircase(ensemble.history)

# %% [markdown]
# `history` has the bounds of each member (a row) and auxiliary variable (a column):
# once it was drawn, `elbo_conditioned`, and after its 200 steps, `elbo_aux`. A draw
# moves the bound a little, up or down; its optimization raises it.

# %%
for name in ("elbo_conditioned", "elbo_aux"):
    print(f"{name:17s}", ensemble.history[name].mean(axis=0).round(1))
error = ensemble.elbo_final.std(ddof=1) / np.sqrt(ensemble.num_members)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.1f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.1f} ± {error:.1f} nats")

# %% [markdown]
# ## How many variables?
# All have the same number of steps together. The bound keeps rising with their
# number; the likelihood of the 62 test yachts does not follow it all the way.

# %%
mean_field_draws = tfr.predict(model, split.x_test, 100, seed=1)
print("variables  refined ELBO  test log likelihood")
print(
    f"0          {ensemble.elbo_init.mean():12.1f}  "
    f"{log_likelihood(mean_field_draws):19.3f}"
)
for count in (2,) if FAST else (1, 2, 5, 10):
    other = refine(
        variance_ratios=(0.7,) * count, steps=(50 if FAST else 1000) // count
    )
    draws = tfr.predict(other, split.x_test, 100, seed=1)
    print(
        f"{count:<9d}  {other.elbo_final.mean():12.1f}  {log_likelihood(draws):19.3f}"
    )

# %% [markdown]
# ## How many members?
# `ensemble.predict` draws from all members; draw `s` is of member `s % M`. Here are
# 100 draws each time, of the first few members alone. A single member is a posterior
# given one draw of the auxiliary variables: it is narrower, and less likely to be
# near the truth.

# %%
per_member = ensemble.predict(
    split.x_test, num_samples=100 * ensemble.num_members, seed=1
)
per_member = per_member.reshape(
    100, ensemble.num_members, *per_member.shape[1:]
)
print("members  test log likelihood  epistemic standard deviation")
for count in (1, 2, 5, 10):
    draws = per_member[: 100 // count, :count].reshape(
        -1, *per_member.shape[2:]
    )
    loc, scale = likelihood.loc_and_scale(draws)
    variance = tfr.metrics.predictive_variance(loc, scale)
    spread = split.y_scaler.scale[0] * np.sqrt(variance.epistemic).mean()
    print(f"{count:<7d}  {log_likelihood(draws):19.3f}  {spread:28.3f}")

# %% [markdown]
# ## Steps that make it worse
# With a learning rate that is too large an optimization may end below where it
# began. `keep_better`, on by default, then undoes it; `history["kept"]` shows which
# ones were kept.

# %%
for keep_better in (False, True):
    other = refine(
        learning_rate=0.1,
        learning_rate_decay="constant",
        steps=20,
        keep_better=keep_better,
    )
    print(
        f"keep_better={keep_better}: refined ELBO {other.elbo_final.mean():.1f}, "
        f"kept {other.history['kept'].mean():.0%} of the optimizations"
    )

# %% [markdown]
# ## Interrupted
# With `checkpoint_dir` the work is saved after each auxiliary variable, and every few
# seconds. We stop it half-way, and call it again: it goes on, and ends with the very
# numbers of an ensemble that was never interrupted.

# %%
folder = tempfile.mkdtemp()
alarm = threading.Timer(
    seconds["refinement, 10 members"] / 2, _thread.interrupt_main
)
try:
    alarm.start()
    refine(checkpoint_dir=folder)
except KeyboardInterrupt:
    print("interrupted")
finally:
    alarm.cancel()
start = time.perf_counter()
resumed = refine(checkpoint_dir=folder)
print(f"resumed, and done in {time.perf_counter() - start:.1f} s")
np.testing.assert_array_equal(resumed.loc, ensemble.loc)

# %% [markdown]
# Members do not depend on each other, only on the seed and their number, so they may
# be computed on several machines: `members=range(5)` on one, `range(5, 10)` on
# another.

# %%
some = refine(members=range(1, 3))
difference = some.loc - ensemble.loc[1:3]
print(f"largest difference of a mean: {np.abs(difference).max():.1e}")

# %% [markdown]
# ## A recurrent network
# Any layer with a mean-field posterior can be refined. A GRU reads the digits of
# scikit-learn, row by row.

# %%
digits = tfr.datasets.standardized_images(tfr.datasets.load_images("digits"))
x_rows, y_rows = digits.x_train[..., 0], digits.y_train
num_train_examples = len(x_rows)
recurrent = keras.Sequential(
    [
        keras.Input(x_rows.shape[1:]),
        tfr.layers.GRUReparameterization(
            16, num_train_examples=num_train_examples
        ),
        tfr.layers.DenseLocalReparameterization(
            10, num_train_examples=num_train_examples
        ),
    ]
)
recurrent.compile(
    keras.optimizers.Adam(3e-3),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=False,
)
start = time.perf_counter()
recurrent.fit(
    tfr.datasets.training_batches(x_rows, y_rows, batch_size=256, seed=1),
    steps_per_epoch=100 if FAST else 5000,
    shuffle=False,
    verbose=0,
)
seconds["GRU, training"] = time.perf_counter() - start
start = time.perf_counter()
recurrent_ensemble = tfr.refine(
    recurrent,
    x_rows,
    y_rows,
    num_members=2 if FAST else 10,
    steps=5 if FAST else 100,
    learning_rate=1e-2,
    learning_rate_decay="linear",
    seed=1,
    verbose=0,
)
seconds["GRU, refinement, 10 members"] = time.perf_counter() - start
print(f"mean-field ELBO {recurrent_ensemble.elbo_init.mean():.0f} nats")
print(f"refined ELBO    {recurrent_ensemble.elbo_final.mean():.0f} nats")
options = {"from_logits": True}
for name, posterior in {
    "mean-field VI": recurrent,
    "refined VI": recurrent_ensemble,
}.items():
    logits = tfr.predict(posterior, digits.x_test[..., 0], 100, seed=1)
    nll = tfr.metrics.negative_log_likelihood(digits.y_test, logits, **options)
    accuracy = tfr.metrics.accuracy(digits.y_test, logits, **options)
    print(f"{name:14s} log likelihood {-nll:.3f}  accuracy {accuracy:.3f}")

# %% [markdown]
# ## What it costs
# A step of a member costs about what a training step costs: 10 members with 5
# variables of 200 steps cost as much as 10000 training steps. All share one compiled
# program, and members are computed at once, on as many cores as there are.

# %%
start = time.perf_counter()
refine(num_members=1)
seconds["refinement, 1 member"] = time.perf_counter() - start
for name in sorted(seconds):
    print(f"{name:28s} {seconds[name]:6.1f} s")
