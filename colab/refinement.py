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
# Refinement turns a mean-field posterior into an ensemble with a higher evidence lower
# bound (ELBO). We first refine the posterior of a single weight, where everything can
# be drawn and integrated, and then that of a network: how many auxiliary variables, how
# many members, and how to choose the learning rate. This takes about two minutes on one
# CPU core.
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

# %%
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # Hides TensorFlow's logs.

import keras
import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import tfp_refine as tfr
from tfp_refine import plotting
from tfp_refine.experiments.four_modes import target
from tfp_refine.math import auxiliary
from tfp_refine.math import gaussian

# %matplotlib inline

keras.utils.set_random_seed(1)

# %% [markdown]
# ## One weight, four modes
# The model returns its only weight `w`. The prior is `N(0, 1)`, and the likelihood has
# four bumps. The best Gaussian posterior covers all four modes and the space between
# them. The bounds are computed by numerical integration over `w`.

# %%
grid = target.GRID
exact = target.posterior()
mean_field = stats.norm.pdf(grid, target.BEST_LOC, target.BEST_SCALE)
print(f"log evidence    {target.log_evidence():7.3f}")
print(f"mean-field ELBO {target.bound(mean_field):7.3f}")

# %% [markdown]
# Refinement writes the weight as the sum of two parts that are independent under the
# prior, `w = a + rest`. The auxiliary variable `a` has a fraction `r` of the prior
# variance, here `r = 0.8`. Given a value of `a`, the posterior `q(w | a)` is narrower
# than `q(w)`; averaged over `q(a)`, these posteriors equal `q(w)`, so that nothing is
# gained yet. But each of them can now be optimized for its own `a`, and most settle in
# one mode. Each member of the ensemble draws one `a`. The figure shows eight members
# before and after their optimization.

# %%
RATIO = 0.8


def refine_four_modes(variance_ratios):
    return tfr.refine(
        target.mean_field_model(),
        *target.data(),
        num_members=200,
        variance_ratios=variance_ratios,
        steps=400,
        learning_rate=0.1,
        learning_rate_decay="linear",
        num_eval_samples=100,
        seed=1,
        verbose=0,
    )


ensemble = refine_four_modes((RATIO,))
prior = gaussian.Gaussian(np.zeros(1), np.ones(1))
q = gaussian.Gaussian(
    np.array([target.BEST_LOC]), np.array([target.BEST_SCALE])
)
drawn = ensemble.prior.loc.astype(float)  # The mean of p(w | a) is `a`.
conditioned = auxiliary.posterior_given_auxiliary(q, prior, RATIO, drawn)

figure, panels = plt.subplots(
    1, 2, figsize=(8.4, 3), sharex=True, sharey=True, layout="constrained"
)
for axes, members, title in zip(
    panels,
    (conditioned, ensemble),
    ("q(w | a) before optimization", "q(w | a) after optimization"),
    strict=True,
):
    axes.fill_between(grid, exact, color="0.82", label="exact posterior")
    for index in np.argsort(drawn[:, 0])[::25]:
        density = stats.norm.pdf(
            grid,
            np.broadcast_to(members.loc, drawn.shape)[index, 0],
            np.broadcast_to(members.scale, drawn.shape)[index, 0],
        )
        axes.plot(grid, density, color="#084594", linewidth=1)
    axes.set(title=title, xlabel="value of the weight", xlim=(-3, 3))
panels[0].set_ylabel("probability density")
panels[0].legend()
plt.show()

# %% [markdown]
# ## Bounds
# `elbo_final`, averaged over the members, is `ELBO_aux` in the paper: the bound of `w`
# and `a` together, which is optimized. The bound of the mixture over all values of `a`,
# `ELBO_ref`, is higher, but needs numerical integration.


# %%
def mixture(ensemble):
    return target.mixture(np.ravel(ensemble.loc), np.ravel(ensemble.scale))


print(f"ELBO_init    {target.bound(mean_field):7.3f}")
print(f"ELBO_aux     {ensemble.elbo_final.mean():7.3f}")
print(f"ELBO_ref     {target.bound(mixture(ensemble)):7.3f}")
print(f"log evidence {target.log_evidence():7.3f}")

# %% [markdown]
# A mixture of few members is rough. More members only cost time.

# %%
curves = {"exact posterior": exact, "mean-field VI": mean_field}
for count in (3, 10, 200):
    curves[f"{count} members"] = np.mean(
        stats.norm.pdf(grid, ensemble.loc[:count], ensemble.scale[:count]),
        axis=0,
    )
axes = plotting.densities(grid, curves)

# %% [markdown]
# ## How much variance?
# A variable with very little variance changes nothing; one with nearly all the variance
# leaves nothing to optimize. Several variables in sequence raise `ELBO_aux` further.
# Their members are narrower, and a good mixture needs more of them: `ELBO_ref` is that
# of 200 members. Each ratio is a fraction of the variance that remains.

# %%
print("variance ratios      ELBO_aux  ELBO_ref")
for ratios in ((0.1,), (0.5,), (0.8,), (0.99,), (0.5,) * 3, (0.7,) * 5):
    other = refine_four_modes(ratios)
    name = f"{ratios[0]}" + (f", {len(ratios)} times" if ratios[1:] else "")
    print(
        f"{name:20s} {other.elbo_final.mean():8.3f}  "
        f"{target.bound(mixture(other)):8.3f}"
    )

# %% [markdown]
# ## A network
# A regression with 6 features: the resistance of 308 yachts. The network has 50 hidden
# units and 451 weights.

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
model.fit(
    tfr.datasets.training_batches(x_train, y_train, batch_size=256, seed=1),
    steps_per_epoch=15000,
    shuffle=False,
    verbose=0,
)


def refine(**options):
    """Refines with these settings, unless others are given."""
    options = {
        "num_members": 10,
        "variance_ratios": (0.7,) * 5,
        "steps": 200,
        "seed": 1,
        "verbose": 0,
    } | options
    return tfr.refine(model, x_train, y_train, **options)


ensemble = refine()
axes = plotting.elbo_staircase(ensemble.history)

# %% [markdown]
# `history` holds two bounds for each member and auxiliary variable: `elbo_conditioned`
# after the variable is drawn, and `elbo_aux` after the optimization that follows. A
# draw changes the bound little; its optimization raises it.

# %%
for name in ("elbo_conditioned", "elbo_aux"):
    print(f"{name:17s}", ensemble.history[name].mean(axis=0).round(1))
error = ensemble.elbo_final.std(ddof=1) / np.sqrt(ensemble.num_members)
print(f"mean-field ELBO {ensemble.elbo_init.mean():.1f} nats")
print(f"refined ELBO    {ensemble.elbo_final.mean():.1f} ± {error:.1f} nats")

# %% [markdown]
# ## How many variables?
# Each row has the same total number of steps. The bound rises with the number of
# variables; the log likelihood of the 62 test yachts does not follow it all the way.


# %%
def log_likelihood(draws):
    """Returns the test log likelihood of draws, in original units."""
    loc, scale = (np.asarray(v) for v in likelihood.loc_and_scale(draws))
    nll = tfr.metrics.gaussian_negative_log_likelihood(split.y_test, loc, scale)
    return split.y_scaler.inverse_log_likelihood(-nll)


print("variables  refined ELBO  test log likelihood")
for count in (0, 1, 2, 5, 10):
    if count:
        posterior = refine(variance_ratios=(0.7,) * count, steps=1000 // count)
        bound = posterior.elbo_final.mean()
    else:
        posterior, bound = model, ensemble.elbo_init.mean()
    draws = tfr.predict(posterior, split.x_test, num_samples=100, seed=1)
    print(f"{count:<9d}  {bound:12.1f}  {log_likelihood(draws):19.3f}")

# %% [markdown]
# ## How many members?
# `ensemble.predict` distributes its draws over all members: draw `s` comes from member
# `s % num_members`. Each row has 100 draws from the first few members. A single member
# is the posterior given one draw of the auxiliary variables: it is narrower than the
# mixture, and its test log likelihood is usually lower.

# %%
members = ensemble.num_members
per_member = ensemble.predict(split.x_test, num_samples=100 * members, seed=1)
per_member = per_member.reshape(100, members, *per_member.shape[1:])
print("members  test log likelihood  epistemic standard deviation")
for count in (1, 2, 5, 10):
    draws = per_member[: 100 // count, :count]
    draws = draws.reshape(-1, *per_member.shape[2:])
    variance = tfr.metrics.predictive_variance(
        *map(np.asarray, likelihood.loc_and_scale(draws))
    )
    spread = split.y_scaler.scale[0] * np.sqrt(variance.epistemic).mean()
    print(f"{count:<7d}  {log_likelihood(draws):19.3f}  {spread:28.3f}")

# %% [markdown]
# ## A learning rate that is too large
# Such an optimization may end below its start. `keep_better`, on by default, then undoes
# it. `history["kept"]` shows the optimizations that were kept.

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
# ## Long refinements
# With `checkpoint_dir`, a refinement that was interrupted continues where it stopped.
# Members depend only on the seed and their number, so that they can be computed on
# several machines: `members=range(5)` on one, `members=range(5, 10)` on another. All
# members train at once, in one compiled program; a step of one member costs about as
# much as a training step.
#
# ## What to try next
# Train and refine a posterior of any Keras model, without variational layers, in [IVON](https://github.com/tfp-refine/tfp_refine/blob/main/colab/ivon.ipynb). [Refine a posterior](https://github.com/tfp-refine/tfp_refine/blob/main/docs/how_to/refine.md) explains the settings one by one.
