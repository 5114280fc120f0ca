"""The loop over auxiliary variables."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfp_refine.functional import resumable
from tfp_refine.functional import seeds
from tfp_refine.refinement import member as member_lib
from tfp_refine.refinement import settings as settings_lib
from tfp_refine.refinement import state as state_lib

# Random streams: each with a number of its own below the seed.
_INITIAL, _AUXILIARY, _STEPS, _SELECTION, _FINAL, _ROWS = range(6)

# Reports (and chances to save) for each auxiliary variable.
_REPORTS = 10
# Examples above which not all of them are permuted, of which to pick some.
_PERMUTED = 2**24
# The choice between two posteriors takes a part of an evaluation's draws: they
# are the same for both, and all choices together should cost little.
_CHOICE = 3
# Members whose bounds are evaluated between two chances to save, by a worker.
_EVALUATED_TOGETHER = 4


@dataclasses.dataclass
class Loop:
    """Advances a refinement to its end, and saves it.

    `report` is called with the steps done and the mean bound, now and then;
    `clock` returns seconds.

    Attributes:
        state: `RefinementState`, which is changed.
        save_every: Least seconds between two saves within one auxiliary
            variable.
        save_ratio: The same, as a multiple of the time of the last save.
    """

    save_every = 10.0
    save_ratio = 20.0

    engine: Any
    settings: settings_lib.Settings
    num_examples: int
    state: state_lib.RefinementState
    checkpoint: resumable.Checkpoint | None
    report: Callable[[int, float], Any]
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self):
        self._saved_at = self.clock()
        self._save_seconds = 0.0

    def finish(self):
        """Does all that is left."""
        state, settings = self.state, self.settings
        if state.auxiliary == 0 and state.step == 0:
            self._evaluate(_INITIAL, state.elbo_init)
        while state.auxiliary < len(settings.variance_ratios):
            if state.step == 0 and not (np.any(state.ahead) or state.checks):
                self._condition()
            while not self._is_optimized():
                self._optimize()
            self._select()
            state.steps[state.auxiliary] = state.step
            state.auxiliary += 1
            state.step = 0
            state.checks = []
            self._save()
        self._evaluate(_FINAL, state.elbo_final)

    def _evaluate(self, purpose, elbo):
        """Fills in missing bounds, NaN.

        A few members at a time, but not those that failed.
        """
        rows = self._rows()
        missing = np.flatnonzero(np.isnan(elbo) & ~np.array(self._failed()))
        size = _EVALUATED_TOGETHER * self.engine.num_workers
        for first in range(0, len(missing), size):
            part = missing[first : first + size]
            elbo[part] = self._elbo(purpose, rows, part=part)
            self._save_now_and_then()

    def _condition(self):
        state, k = self.state, self.state.auxiliary
        self.engine.condition(
            state.members,
            self.settings.variance_ratios[k],
            self._keys(_AUXILIARY, k),
        )
        state.start[...] = state.members.params
        for moment in state.moments:
            moment[...] = 0.0

    def _is_optimized(self):
        """Decides whether an auxiliary variable has had its steps.

        Where they adapt, it evaluates the bound that a check needs.
        """
        state, schedule = self.state, self.settings.schedule
        is_last = state.step >= self._limit()
        if schedule is None:
            return is_last
        number = -(-state.step // schedule.check_every)
        is_check = is_last or state.step % schedule.check_every == 0
        if is_check and len(state.checks) <= number:
            state.checks.append(self._elbo(_SELECTION, self._rows()))
            self._save_now_and_then()
        return is_last or schedule.has_ended(state.checks)

    def _limit(self):
        """Returns the most steps of the auxiliary variable in work."""
        settings, k = self.settings, self.state.auxiliary
        if settings.schedule is None:
            return settings.steps
        return settings.schedule.limit(
            int(self.state.steps[:k].sum()), len(settings.variance_ratios) - k
        )

    def _optimize(self):
        state, settings = self.state, self.settings
        k, begin = state.auxiliary, state.step
        if settings.schedule is None:
            end = begin - (-settings.steps // _REPORTS)
        else:
            every = settings.schedule.check_every
            end = (begin // every + 1) * every
        end = self.engine.part(k, begin, min(end, self._limit()))
        behind = np.flatnonzero(~state.ahead)
        results = self.engine.run(
            _rows_of(state.members, behind),
            _rows_of(state.moments, behind),
            np.array(self._keys(_STEPS, k))[behind],
            settings.learning_rates()[k],
            begin,
            end,
        )
        for result in results:
            batch, behind = np.split(behind, [len(result.loss)])
            self._advance(batch, result)
            if len(behind):
                self._save_now_and_then()
        state.step = end
        state.ahead[:] = False
        cost = state.members.kl_scale * state.members.cost
        elbo = -self.num_examples * state.loss - cost
        elbo[self._failed()] = np.nan
        done = int(state.steps[:k].sum()) + end
        state.trace_step.append(done)
        state.trace_elbo.append(elbo)
        if not np.all(np.isnan(elbo)):
            self.report(done, float(np.nanmean(elbo)))
        self._save_now_and_then()

    def _advance(self, indices, result):
        """Takes over the trained values of some members."""
        state = self.state
        trained = result.state
        for stacked, values in zip(
            (state.members.params, *state.moments),
            (trained.params, *trained.slots),
            strict=True,
        ):
            stacked[indices] = values
        prior = _rows_of(state.members, indices)
        kl = _kl_divergences(trained.params, prior.prior_loc, prior.prior_scale)
        state.loss[indices] = result.loss.numpy() + prior.kl_scale * (
            kl.numpy().astype(np.float64) / self.num_examples
        )
        state.ahead[indices] = True
        for index, step in zip(
            indices, result.failed_step.numpy(), strict=True
        ):
            if step >= 0:
                self._fail(index, f"its loss was not finite at step {step}")

    def _select(self):
        """Keeps the better of the posteriors before and after optimization."""
        state, k = self.state, self.state.auxiliary
        if state.checks:
            elbo_before, *_, elbo_after = state.checks
        else:
            rows = self._rows()
            num_samples = -(-self.settings.num_eval_samples // _CHOICE)
            elbo_before, elbo_after = (
                self._elbo(_SELECTION, rows, members, num_samples=num_samples)
                for members in (
                    state.members._replace(params=state.start),
                    state.members,
                )
            )
        for index in np.flatnonzero(~np.isfinite(elbo_after)):
            self._fail(index, "its bound was not finite after optimization")
        keep = np.full(len(elbo_after), True)
        if self.settings.keep_better:
            keep = elbo_after >= elbo_before
        for index in np.flatnonzero(~keep):
            state.members.params[index] = state.start[index]
        elbo = np.where(keep, elbo_after, elbo_before)
        elbo[self._failed()] = np.nan
        staircase = state.staircase
        staircase["elbo_conditioned"][:, k] = elbo_before
        staircase["elbo_aux"][:, k] = elbo
        staircase["cost"][:, k] = state.members.cost
        staircase["kept"][:, k] = keep

    def _elbo(self, purpose, rows, state=None, part=None, num_samples=None):
        """Estimates bounds, `[M]`, or those of the members in `part`."""
        state = self.state.members if state is None else state
        num_samples = num_samples or self.settings.num_eval_samples
        keys = np.array(self._keys(purpose, self.state.auxiliary))
        failed = np.array(self._failed())
        if part is not None:
            state = _rows_of(state, part)
            keys, failed = keys[part], failed[part]
        log_likelihood, kl = self.engine.evaluate(
            state, keys, rows, num_samples
        )
        paid = state.kl_scale * (kl + state.cost)
        elbo = (log_likelihood - paid).numpy()
        elbo[failed] = np.nan
        return elbo

    def _rows(self):
        """Picks the training examples of the evaluations."""
        size = self.settings.max_eval_examples
        if size >= self.num_examples:
            return np.arange(self.num_examples)
        rng = np.random.default_rng(seeds.key(self.settings.seed, _ROWS))
        if self.num_examples > _PERMUTED:
            return rng.choice(self.num_examples, size, replace=False)
        return rng.permutation(self.num_examples)[:size]

    def _keys(self, purpose, auxiliary):
        settings = self.settings
        return [
            seeds.key(settings.seed, purpose, member, auxiliary)
            for member in settings.members
        ]

    def _fail(self, index, reason):
        member = self.settings.members[index]
        self.state.failures.setdefault(
            member, f"{reason} (auxiliary variable {self.state.auxiliary})"
        )

    def _failed(self):
        failures = self.state.failures
        return [member in failures for member in self.settings.members]

    def _save_now_and_then(self):
        pause = max(self.save_every, self.save_ratio * self._save_seconds)
        if self.clock() - self._saved_at > pause:
            self._save()

    def _save(self):
        begin = self.clock()
        if self.checkpoint is not None:
            self.checkpoint.save(self.state.to_arrays())
        self._saved_at = self.clock()
        self._save_seconds = self._saved_at - begin


@tf.function
def _kl_divergences(params, prior_loc, prior_scale):
    """Computes `KL(q(w) || p(w | a_1:k))` of each member, nats, `[M]`."""
    # One by one: rounding must not depend on who is computed together.
    return tf.map_fn(
        lambda one: member_lib.kl_divergence(*one),
        (params, prior_loc, prior_scale),
        fn_output_signature=params.dtype,
    )


def _rows_of(stacked, rows):
    """Returns arrays `[M, ...]` (nested) for some members, in order.

    Neighbours are not copied.
    """
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:
        rows = slice(rows[0], rows[-1] + 1)
    return tf.nest.map_structure(lambda leaf: leaf[rows], stacked)
