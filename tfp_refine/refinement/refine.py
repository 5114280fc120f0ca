"""Refinement of a mean-field posterior, as one function."""

import os
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import posteriors
from tfp_refine.functional import large
from tfp_refine.functional import progress
from tfp_refine.functional import resumable
from tfp_refine.functional import streams
from tfp_refine.refinement import adaptive_steps
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import ensemble as ensemble_lib
from tfp_refine.refinement import loop as loop_lib
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import settings as settings_lib
from tfp_refine.refinement import starts as starts_lib
from tfp_refine.refinement import state as state_lib


def refine(
    model: keras.Model
    | posteriors.Posterior
    | Sequence[keras.Model | posteriors.Posterior],
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: dict[int, float] | None = None,
    num_members: int | None = None,
    variance_ratios: Sequence[float] = (0.7,) * 5,
    steps: int | adaptive_steps.AdaptiveSteps = 200,
    batch_size: int = 256,
    learning_rate: float = 1e-2,
    learning_rate_decay: str | None = None,
    loss: str | Callable | keras.losses.Loss | None = None,
    kl_scale: float | Sequence[float] = 1.0,
    keep_better: bool = True,
    num_eval_samples: int = 10,
    max_eval_examples: int = 2048,
    refine_deterministic: bool = False,
    members: Sequence[int] | None = None,
    mapping: str = "auto",
    members_per_batch: int | None = None,
    coordinator: tf.distribute.coordinator.ClusterCoordinator | None = None,
    checkpoint_dir: str | os.PathLike | None = None,
    seed: int | None = None,
    verbose: int = 1,
) -> ensemble_lib.RefinedEnsemble:
    """Refines a mean-field posterior into an ensemble.

    For each member, auxiliary variables are drawn one after another; each takes
    a part of the prior's variance, and the posterior, conditioned on its value,
    is optimized locally. A mixture of the members is a better posterior than
    the mean field that they start from, and so is its bound.

    The model is not changed. Its deterministic weights and its noise scale stay
    as they are unless `refine_deterministic`, its BatchNorm statistics in any
    case, and the prior is the one that stands when refinement begins. Memory:
    the data, or a few windows of them; 40 bytes for each weight and member,
    which are in temporary files where an array has more than 1 GiB; and for the
    members that are computed at a time 120 bytes for each weight, and
    activations.

    Args:
        model: Trained `keras.Model`, functional or subclassed, with variational
            layers. Its posterior must be mean-field and its prior Gaussian,
            as that of `CollapsedMeanKL` is with the means integrated out. Or
            one of any layers that was trained with `optimizers.IVON`, or a
            `GaussianPosterior` with a prior, of all trainable weights of a
            model or of its last layer, such as Laplace's approximation: then a
            step draws all these weights once for its examples, and a member as
            a model has its means. Correlated weights are refined along the
            eigenvectors of their covariance, in units of the prior if that
            differs between weights; and the features before a last layer are
            computed once. Or several of
            these, a list, or an ensemble such as `ensembles.deep_ensemble`
            makes of a variational model: independent fits of one architecture
            to the same data, for the same loss. Member `m` starts from number
            `m % len(model)`, from its posterior and its prior, and keeps the
            weights that are not refined, such as its noise scale.
        x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)` or
            `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator. Batches are read into
            memory if they have no more than 1 GiB; else again and again, in
            windows of 64 MiB, for some steps each, in which examples are
            shuffled. Then they should be shuffled already; with
            `checkpoint_dir`, in the same order each time.
        y: Training targets, `[N, ...]`; of several outputs a dict or list.
            `None` for batches.
        sample_weight: Weights, `[N]`: the likelihood of an example counts as
            often as its weight says. Those of positions too, `[N, T]`, with
            losses of `tfr.losses`; of several outputs a dict or list, or one
            for all. `None` for batches.
        class_weight: Weights by class number, a dict, in place of
            `sample_weight`; 1 for those left out.
        num_members: `M`, ensemble members; of several starting posteriors a
            multiple of their number. Defaults to `10` from one, and to one from
            each of several.
        variance_ratios: For each auxiliary variable the part of the remaining
            prior variance that it takes, each in (0, 1). The default leaves
            0.24% of the variance. Fractions of the original variance, as the
            paper prints them: `math.variance_schedule.ratios_from_fractions`.
        steps: Adam steps for each auxiliary variable and member, an integer; or
            `refinement.AdaptiveSteps`, as many as its bound needs within a
            budget, a number that depends on all members that are computed.
        batch_size: Examples in a step.
        learning_rate: Adam's before the first auxiliary variable; from there
            in proportion to the conditional prior's standard deviation. The
            paper has 1e-3, constant.
        learning_rate_decay: Within each auxiliary variable: `"linear"` or
            `"cosine"` to zero, or `"constant"`. Defaults to `"linear"`, and to
            `"constant"` with `AdaptiveSteps`, which does not know its steps.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats; of several outputs a dict or list,
            whose sum counts. Defaults to the loss, and the `loss_weights`, that
            the model was compiled with; of Laplace's approximation of a
            regression, to Gaussian noise of its `noise_scale`.
        kl_scale: Factor on the KL divergence: below 1 a cold posterior,
            narrower, as for data almost without noise; above 1 a warm one. A
            positive number, or one for each member, a sequence. Bounds in
            `history` contain the factor; they bound the evidence only if it is
            1. Defaults to `1.0`.
        keep_better: Whether an optimization that lowered the bound is undone.
        num_eval_samples: Weight draws in each evaluation of the bound; of the
            two, with common draws, that say whether to keep an optimization, a
            third.
        max_eval_examples: Training examples in each evaluation of the bound,
            the same ones in all, which are held in memory; the bound is
            estimated for all `N`.
        refine_deterministic: Whether trainable weights without a posterior are
            optimized along, each member's for itself, with their Keras
            regularizers in the loss. The members' bounds then are no longer
            bounds of one model. Defaults to `False`.
        members: Indices of the members to compute, for work on several
            machines; all if `None`. A member's result depends on `seed` and
            its index alone, unless steps are adaptive.
        mapping: How members are computed together: `"map"`, each on a core of
            its own; `"vmap"`, each operation for all at once, with rounding
            that depends on `members_per_batch`; or `"auto"`: the faster of the
            two, `"map"` without an accelerator, and by a short trial with one.
            XLA compiles the steps where it would those of the model's `fit`,
            as `jit_compile` of `model.compile` says, but for a `coordinator`.
        members_per_batch: Members that are computed at a time, which bounds
            memory, that of an accelerator too. If `None`, as many as have 2
            million weights together, at least one; with a `coordinator` at
            most an equal part for each worker.
        coordinator: `tf.distribute.coordinator.ClusterCoordinator`, such as
            `distribute.connect` returns, whose workers compute the members,
            each on all its cores; or `None`: in this process. Each worker
            keeps the data in memory, where they must fit. The result does not
            depend on the worker that computes a member, nor on workers that
            die.
        checkpoint_dir: Folder to save progress in, and to continue from: the
            finished steps of each member, every ten seconds or so, less often
            if saving takes long.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Returns:
        ensemble: `RefinedEnsemble`.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            the checkpoint belongs to a different refinement, starting
            posteriors share weights or differ in architecture or loss, or the
            model has no bound that refinement could raise: layers with
            `sample=False`, frozen variational weights, constrained weights
            among those to refine, another `num_train_examples`, a Keras loss
            of masked outputs, a loss that is no log likelihood, or is a mean
            over outputs or has several values for an example.
        FloatingPointError: If all members diverged.

    Example:

    ```python
    model.fit(x_train, y_train, epochs=1000)
    ensemble = tfp_refine.refine(model, x_train, y_train, seed=1)
    draws = ensemble.predict(x_test)

    fits = tfp_refine.ensembles.deep_ensemble(model, x_train, y_train)
    ensemble = tfp_refine.refine(fits, x_train, y_train)  # one of each
    ```

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
    """
    sources = starts_lib.sources_of(model)
    if num_members is None:
        num_members = 10 if len(sources) == 1 else len(sources)
    settings = settings_lib.Settings(
        num_members=num_members,
        variance_ratios=variance_ratios,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        learning_rate_decay=learning_rate_decay,
        loss=loss,
        kl_scale=kl_scale,
        keep_better=keep_better,
        num_eval_samples=num_eval_samples,
        max_eval_examples=max_eval_examples,
        refine_deterministic=refine_deterministic,
        members=members,
        mapping=mapping,
        members_per_batch=members_per_batch,
        coordinator=coordinator,
        checkpoint_dir=checkpoint_dir,
        seed=seed,
        verbose=verbose,
    )
    given = {
        "x": x,
        "y": y,
        "sample_weight": sample_weight,
        "class_weight": class_weight,
    }
    return run(sources, given, settings)


def run(model, given, settings):
    """Refines with checked settings and the data that were given, a dict."""
    objective = objective_lib.of_settings(model, given, settings)
    starts = objective.starts
    checkpoint = resumable.open_checkpoint(
        settings.checkpoint_dir,
        "refinement",
        # Architecture and loss are seen through their values.
        settings.depends_on()
        | {
            "likelihood": resumable.rounded(objective.head_nll),
            "jit_compile": objective.jit_compile,  # XLA has its own draws
        },
        objective.identity(),
    )
    arrays = checkpoint and checkpoint.load()
    if arrays is None:
        state = state_lib.RefinementState.begin(starts, settings)
    else:
        state = state_lib.RefinementState.from_arrays(
            arrays, state_lib.fixed_of(starts, settings)
        )
    engine = engine_lib.make_engine(objective, settings, state)
    bar = progress.Progress(
        "refinement",
        settings.budget,
        settings.verbose,
    )
    loop = loop_lib.Loop(
        engine,
        settings,
        objective.num_examples,
        state,
        checkpoint,
        lambda done, elbo: bar.update(done, elbo=elbo),
    )
    try:
        loop.finish()
        bar.close()  # of steps that adapt, perhaps before the last one
    finally:
        engine.close()
    return _ensemble(objective, settings, state)


def _ensemble(objective, settings, state):
    """Returns the ensemble of the members that did not diverge."""
    members, elbo = settings.members, state.elbo_final
    for index in np.flatnonzero(~np.isfinite(elbo)):
        state.failures.setdefault(
            members[index], "its final bound was not finite"
        )
    alive = [
        index
        for index, member in enumerate(members)
        if member not in state.failures
    ]
    _report_failures(state.failures, members)
    members_alive = state.members
    if len(alive) < len(members):
        members_alive = tf.nest.map_structure(
            lambda value: large.stack([value[index] for index in alive]),
            members_alive,
        )
    params, prior_loc, prior_scale, _, fixed, _ = members_alive
    num_starts = len(objective.starts)
    if num_starts == 1:
        fixed = objective.fixed
    return ensemble_lib.RefinedEnsemble(
        objective.view,
        params,
        prior_loc,
        prior_scale,
        [np.asarray(value) for value in fixed],
        objective.link,
        history={
            "members": np.array([members[index] for index in alive]),
            "start": np.array([members[i] % num_starts for i in alive]),
            "elbo_init": state.elbo_init[alive],
            "elbo_final": elbo[alive],
            "steps": state.steps,
            **{k: v[alive] for k, v in state.staircase.items()},
            "trace_step": np.array(state.trace_step),
            "trace_elbo": np.array(state.trace_elbo)[:, alive].T,
        },
        stacked=num_starts > 1,
        input_specs=streams.specs(objective.given_data)[0],
    )


def _report_failures(failures, members):
    if not failures:
        return
    report = "; ".join(
        f"member {member}: {reason}" for member, reason in failures.items()
    )
    if len(failures) == len(members):
        raise FloatingPointError(f"All members diverged. {report}")
    _validation.warn(
        f"{len(failures)} of {len(members)} members diverged and are left out "
        f"of the ensemble. {report}",
        RuntimeWarning,
    )
