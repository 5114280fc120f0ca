"""The loop over auxiliary variables."""

import time

import numpy as np

from tfp_refine.functional import seeds
from tfp_refine.refinement import members
from tfp_refine.refinement import progress as progress_lib

# Random streams: each with a number of its own below the seed.
_INITIAL, _AUXILIARY, _STEPS, _SELECTION, _STAIRCASE, _FINAL, _ROWS = range(7)

# Reports (and chances to save) for each auxiliary variable.
_REPORTS = 10
# Members whose bounds are evaluated between two chances to save, by a worker.
_EVALUATED_TOGETHER = 4
# Least seconds between two saves within one auxiliary variable, by themselves
# and as a multiple of what the last save took.
_SAVE_EVERY = 10.0
_SAVE_RATIO = 20.0


class Run:
    """Carries a refinement from its progress so far to its end.

    Args:
        engine: `Engine`.
        settings: `Settings`.
        num_examples: `N`.
        progress: `Progress` to continue from.
        checkpoint: `Checkpoint`, or `None`.
        report: Function of `(steps_done, elbo)`, called now and then.
    """

    def __init__(
        self, engine, settings, num_examples, progress, checkpoint, report
    ):
        self.progress = progress
        self._engine = engine
        self._settings = settings
        self._num_examples = num_examples
        self._checkpoint = checkpoint
        self._report = report
        self._saved_at = time.monotonic()
        self._save_seconds = 0.0

    def finish(self):
        """Runs all that is left."""
        progress, settings = self.progress, self._settings
        if progress.auxiliary == 0 and progress.step == 0:
            self._evaluate(_INITIAL, progress.elbo_init)
        while progress.auxiliary < len(settings.variance_ratios):
            if progress.step == 0 and not np.any(progress.ahead):
                self._condition()
            while progress.step < settings.steps:
                self._optimize()
            self._select()
            progress.auxiliary += 1
            progress.step = 0
            self._save()
        self._evaluate(_FINAL, progress.elbo_final)

    def _evaluate(self, purpose, elbo):
        """Fills in bounds from all examples, a few members at a time.

        Args:
            purpose: Random stream.
            elbo: Bounds, `[M]`; NaN where one is missing, and where a member
                failed.
        """
        everything = np.arange(self._num_examples)
        missing = np.flatnonzero(np.isnan(elbo) & ~np.array(self._failed()))
        size = _EVALUATED_TOGETHER * self._engine.num_workers
        for first in range(0, len(missing), size):
            part = missing[first : first + size]
            elbo[part] = self._elbo(purpose, everything, part=part)
            self._save_now_and_then()

    def _condition(self):
        progress, k = self.progress, self.progress.auxiliary
        progress.state = self._engine.condition(
            progress.state,
            self._settings.variance_ratios[k],
            self._keys(_AUXILIARY, k),
        )
        progress.start = progress.state.params
        progress.moments = progress_lib.zero_moments(progress.start)

    def _optimize(self):
        progress, settings = self.progress, self._settings
        k, begin = progress.auxiliary, progress.step
        end = min(begin + -(-settings.steps // _REPORTS), settings.steps)
        behind = np.flatnonzero(~progress.ahead)
        results = self._engine.run(
            _rows_of(progress.state, behind),
            _rows_of(progress.moments, behind),
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
        progress.step = end
        progress.ahead[:] = False
        elbo = -self._num_examples * progress.loss - np.asarray(
            progress.state.cost
        )
        elbo[self._failed()] = np.nan
        done = k * settings.steps + end
        progress.trace_step.append(done)
        progress.trace_elbo.append(elbo)
        if not np.all(np.isnan(elbo)):
            self._report(done, float(np.nanmean(elbo)))
        self._save_now_and_then()

    def _advance(self, indices, result):
        """Takes over what some members have become."""
        progress = self.progress
        progress.state = progress.state._replace(
            params=members.replace(
                progress.state.params, indices, result.params
            )
        )
        progress.moments = progress.moments._make(
            members.replace(all_of_it, indices, values)
            for all_of_it, values in zip(
                progress.moments, result.moments, strict=True
            )
        )
        progress.loss[indices] = result.loss.numpy()
        progress.ahead[indices] = True
        for index, step in zip(
            indices, result.failed_step.numpy(), strict=True
        ):
            if step >= 0:
                self._fail(index, f"its loss was not finite at step {step}")

    def _select(self):
        """Keeps the better of the posteriors before and after optimization."""
        progress, k = self.progress, self.progress.auxiliary
        optimized = progress.state
        before = optimized._replace(params=progress.start)
        rows = self._rows()
        # The same draws for both, so that only the posteriors differ.
        elbo_before = self._elbo(_SELECTION, rows, before)
        elbo_after = self._elbo(_SELECTION, rows, optimized)
        for index in np.flatnonzero(~np.isfinite(elbo_after)):
            self._fail(index, "its bound was not finite after optimization")
        keep = np.full(len(elbo_after), True)
        if self._settings.keep_better:
            keep = elbo_after >= elbo_before
        params = np.where(
            keep[:, np.newaxis, np.newaxis], optimized.params, before.params
        )
        progress.state = optimized._replace(params=params)
        staircase = progress.staircase
        staircase["elbo_conditioned"][:, k] = elbo_before
        staircase["elbo_aux"][:, k] = self._elbo(_STAIRCASE, rows)
        staircase["cost"][:, k] = np.asarray(progress.state.cost)
        staircase["kept"][:, k] = keep

    def _elbo(self, purpose, rows, state=None, part=None):
        """Estimates bounds, `[M]`, or those of the members in `part`."""
        state = self.progress.state if state is None else state
        keys = np.array(self._keys(purpose, self.progress.auxiliary))
        failed = np.array(self._failed())
        if part is not None:
            state = _rows_of(state, part)
            keys, failed = keys[part], failed[part]
        log_likelihood, kl = self._engine.evaluate(state, keys, rows)
        elbo = (log_likelihood - kl - state.cost).numpy()
        elbo[failed] = np.nan
        return elbo

    def _rows(self):
        """Picks the training examples of the evaluations on the way."""
        size = self._settings.max_eval_examples
        if size >= self._num_examples:
            return np.arange(self._num_examples)
        key = seeds.key(self._settings.seed, _ROWS)
        return np.random.default_rng(key).permutation(self._num_examples)[:size]

    def _keys(self, purpose, auxiliary):
        settings = self._settings
        return [
            seeds.key(settings.seed, purpose, member, auxiliary)
            for member in settings.members
        ]

    def _fail(self, index, reason):
        member = self._settings.members[index]
        self.progress.failures.setdefault(
            member, f"{reason} (auxiliary variable {self.progress.auxiliary})"
        )

    def _failed(self):
        failures = self.progress.failures
        return [member in failures for member in self._settings.members]

    def _save_now_and_then(self):
        pause = max(_SAVE_EVERY, _SAVE_RATIO * self._save_seconds)
        if time.monotonic() - self._saved_at > pause:
            self._save()

    def _save(self):
        begin = time.monotonic()
        if self._checkpoint is not None:
            self._checkpoint.save(self.progress.to_arrays())
        self._saved_at = time.monotonic()
        self._save_seconds = self._saved_at - begin


def _rows_of(stacked, rows):
    """Returns a named tuple `[M, ...]` of some members."""
    if len(rows) == len(stacked[0]):
        return stacked
    return stacked._make(np.asarray(leaf)[rows] for leaf in stacked)
