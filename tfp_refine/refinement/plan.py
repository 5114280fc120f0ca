"""A refinement whose arguments, model and data have been checked."""

import warnings

import keras
import numpy as np

from tfp_refine import functional
from tfp_refine.functional import checkpoint as checkpoint_lib
from tfp_refine.refinement import ensemble as ensemble_lib
from tfp_refine.refinement import mapping as mapping_lib
from tfp_refine.refinement import places
from tfp_refine.refinement import problem as problem_lib
from tfp_refine.refinement import progress as progress_lib
from tfp_refine.refinement import run as run_lib
from tfp_refine.refinement import settings as settings_lib


class Plan:
    """Checks everything when it is made, and does the work when it is run.

    The arguments are those of `refine`.

    Raises:
        ValueError: If an argument is invalid, or does not fit the others.
    """

    def __init__(
        self,
        model,
        x,
        y,
        *,
        loss,
        mapping,
        members_per_batch,
        coordinator,
        checkpoint_dir,
        seed,
        **settings,
    ):
        if checkpoint_dir is not None and seed is None:
            raise ValueError(
                "`checkpoint_dir` needs a `seed`, so that work can be "
                "continued. Received: seed=None"
            )
        self._settings = settings_lib.check(
            seed=functional.seeds.check(seed), **settings
        )
        self._execution = settings_lib.Execution.check(
            mapping,
            members_per_batch,
            len(self._settings.members),
            coordinator,
        )
        if coordinator is not None:
            places.check_reachable(model)
        self._problem = problem_lib.Problem(
            model, x, y, loss, self._settings.refine_deterministic
        )
        self._checkpoint, self._arrays = None, None
        if checkpoint_dir is not None:
            self._checkpoint = self._open_checkpoint(checkpoint_dir)
            self._arrays = self._checkpoint.load()

    def run(self, verbose):
        """Does the work, or what is left of it.

        Args:
            verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

        Returns:
            ensemble: `RefinedEnsemble`.

        Raises:
            FloatingPointError: If all members diverged.
        """
        settings = self._settings
        bar = keras.utils.Progbar(
            settings.steps * len(settings.variance_ratios),
            verbose=verbose,
            unit_name="step",
            stateful_metrics=["elbo"],
        )
        problem = self._problem
        if self._arrays is None:
            progress = progress_lib.Progress.begin(
                problem.params, problem.prior, settings
            )
        else:
            progress = progress_lib.Progress.from_arrays(self._arrays)
        engine = mapping_lib.make_engine(
            problem, settings, self._execution, progress
        )
        run = run_lib.Run(
            engine,
            settings,
            problem.num_examples,
            progress,
            self._checkpoint,
            lambda done, elbo: bar.update(done, [("elbo", elbo)]),
        )
        try:
            run.finish()
        finally:
            engine.close()
        return self._ensemble(progress)

    def _open_checkpoint(self, directory):
        problem = self._problem
        fingerprint = checkpoint_lib.fingerprint(
            self._settings._asdict(),
            {
                "x": problem.data[0],
                "y": problem.data[1],
                "posterior": problem.params,
                "prior": problem.prior,
                "other_weights": problem.others,
            },
        )
        # Architecture and loss, seen through what they compute; rounded, as
        # machines may differ in the last digits.
        fingerprint["likelihood"] = [
            f"{value:.3e}" for value in problem.head_nll.ravel()
        ]
        return checkpoint_lib.Checkpoint(directory, "refinement", fingerprint)

    def _ensemble(self, progress):
        members, elbo = self._settings.members, progress.elbo_final
        for index in np.flatnonzero(~np.isfinite(elbo)):
            progress.failures.setdefault(
                members[index], "its final bound was not finite"
            )
        alive = [
            index
            for index, member in enumerate(members)
            if member not in progress.failures
        ]
        _report_failures(progress.failures, members)
        state = progress.state
        return ensemble_lib.RefinedEnsemble(
            self._problem.model,
            params=np.asarray(state.params)[alive],
            prior_loc=np.asarray(state.prior_loc)[alive],
            prior_scale=np.asarray(state.prior_scale)[alive],
            refined_deterministic=self._settings.refine_deterministic,
            others=[np.asarray(value) for value in self._problem.others],
            input_specs=keras.tree.map_structure(
                ensemble_lib.input_spec, self._problem.data[0]
            ),
            history={
                "members": np.array([members[index] for index in alive]),
                "elbo_init": progress.elbo_init[alive],
                "elbo_final": elbo[alive],
                **{k: v[alive] for k, v in progress.staircase.items()},
                "trace_step": np.array(progress.trace_step),
                "trace_elbo": np.array(progress.trace_elbo)[:, alive].T,
            },
        )


def _report_failures(failures, members):
    if not failures:
        return
    report = "; ".join(
        f"member {member}: {reason}" for member, reason in failures.items()
    )
    if len(failures) == len(members):
        raise FloatingPointError(f"All members diverged. {report}")
    warnings.warn(
        f"{len(failures)} of {len(members)} members diverged and are left out "
        f"of the ensemble. {report}",
        RuntimeWarning,
        stacklevel=5,
    )
