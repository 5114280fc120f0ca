"""A refinement whose arguments, model and data have been checked."""

import warnings

import keras
import numpy as np

from tfp_refine import stateless
from tfp_refine.refinement import checkpoint as checkpoint_lib
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import ensemble as ensemble_lib
from tfp_refine.refinement import progress as progress_lib
from tfp_refine.refinement import run as run_lib
from tfp_refine.refinement import sampling_forward
from tfp_refine.refinement import settings as settings_lib


class Plan:
    """Checks everything when it is made, and does the work when it is run.

    The arguments are those of `refine`.

    Raises:
        ValueError: If an argument is invalid, or does not fit the others.
    """

    def __init__(self, model, x, y, *, loss, checkpoint_dir, seed, **settings):
        if checkpoint_dir is not None and seed is None:
            raise ValueError(
                "`checkpoint_dir` needs a `seed`, so that work can be "
                "continued. Received: seed=None"
            )
        self._model = model
        self._settings = settings_lib.check(
            seed=stateless.seeds.check(seed), **settings
        )
        self._layout = stateless.WeightLayout(model)
        self._prior = self._layout.prior()
        self._params = self._layout.params()
        self._loss = stateless.example_loss.resolve(model, loss)
        self._x, self._y, self._num_examples = stateless.arrays.examples(x, y)
        stateless.arrays.check_fits(model, self._x)
        self._forward = sampling_forward.sampling_forward(model, self._layout)
        self._others = self._forward.other_values()
        self._check_finite()
        self._check_likelihood()
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
        if self._arrays is None:
            progress = progress_lib.Progress.begin(
                self._params, self._prior, settings
            )
        else:
            progress = progress_lib.Progress.from_arrays(self._arrays)
        engine = engine_lib.Engine(
            self._forward,
            self._others,
            self._loss,
            self._x,
            self._y,
            self._num_examples,
            settings,
        )
        run = run_lib.Run(
            engine,
            settings,
            self._num_examples,
            progress,
            self._checkpoint,
            lambda done, elbo: bar.update(done, [("elbo", elbo)]),
        )
        elbo = run.finish()
        return self._ensemble(progress, elbo)

    def _check_finite(self):
        for name, value in (
            ("posterior", self._params),
            ("prior", self._prior),
            ("deterministic weights", self._others),
        ):
            for leaf in keras.tree.flatten(value):
                if not np.all(np.isfinite(leaf)):
                    raise ValueError(
                        f"The {name} of the model '{self._model.name}' must be "
                        "finite; it holds NaN or infinite values. Did training "
                        "diverge?"
                    )

    def _check_likelihood(self):
        """Runs two examples, so that a mismatch shows before long work."""
        x, y = keras.tree.map_structure(
            lambda value: value[:2], (self._x, self._y)
        )
        try:
            outputs = self._forward(x, self._params, self._others, 0, 0)
            nll = stateless.example_loss.negative_log_likelihood(
                self._loss, y, outputs
            )
        except Exception as error:
            shapes = keras.tree.map_structure(
                lambda value: tuple(value.shape), (self._x, self._y)
            )
            raise ValueError(
                "The model and its loss cannot be evaluated on the data. "
                f"Received: x of shape {shapes[0]}, y of shape {shapes[1]}, "
                f"loss={self._loss!r} ({error})"
            ) from error
        expected = keras.tree.flatten(x)[0].shape[0]
        if nll.shape.rank != 0 and nll.shape[0] != expected:
            raise ValueError(
                "The loss must return one value for each example. Received: "
                f"shape {tuple(nll.shape)} for {expected} examples"
            )

    def _open_checkpoint(self, directory):
        fingerprint = checkpoint_lib.fingerprint(
            self._settings,
            {
                "x": self._x,
                "y": self._y,
                "posterior": self._params,
                "prior": self._prior,
                "other_weights": self._others,
            },
        )
        return checkpoint_lib.Checkpoint(directory, fingerprint)

    def _ensemble(self, progress, elbo):
        members = self._settings.members
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
            self._model,
            params=np.asarray(state.params)[alive],
            prior_loc=np.asarray(state.prior_loc)[alive],
            prior_scale=np.asarray(state.prior_scale)[alive],
            others=[np.asarray(value) for value in self._others],
            input_specs=keras.tree.map_structure(
                ensemble_lib.input_spec, self._x
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
        stacklevel=4,
    )
