"""Refinement at the end of `fit`."""

import os
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.functional import resumable
from tfp_refine.optimizers import weight_draws
from tfp_refine.refinement import adaptive_steps
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import refine as refine_lib
from tfp_refine.refinement import settings as settings_lib


class RefinementCallback(_validation.Shown, keras.callbacks.Callback):
    """Refines a model's mean-field posterior when its training ends.

    That of its variational layers, or of all its weights if it is trained with
    `optimizers.IVON`.

    The model is not changed. Arguments are checked at once; the model and the
    data when training begins. Put it last in the list of callbacks: some, such
    as `EarlyStopping`, choose the model's weights when training ends.

    The arguments are those of `refine`. A callback does not see the data of
    `fit`: give it the same, with the same `sample_weight` or `class_weight`, or
    it refines another bound than the one that was trained. Only whether there
    are weights is seen, where training calls `model.compute_loss`.

    Args:
        x: Training inputs, of any kind that `refine` takes.
        y: Training targets.
        sample_weight: Weights of examples.
        class_weight: Weights by class number.
        num_members: Ensemble members.
        variance_ratios: Parts of the remaining prior variance, one for each
            auxiliary variable.
        steps: Adam steps for each auxiliary variable and member, or
            `AdaptiveSteps`.
        batch_size: Examples in a step.
        learning_rate: Adam's before the first auxiliary variable.
        learning_rate_decay: Within each auxiliary variable; by default linear
            to zero.
        loss: Negative log likelihood.
        kl_scale: Factor on the KL divergence, or one for each member.
        keep_better: Whether an optimization that lowered the bound is undone.
        num_eval_samples: Weight draws in each evaluation of the bound, or a
            third, as in `refine`.
        max_eval_examples: Training examples in each evaluation of the bound.
        refine_deterministic: Whether weights without a posterior are optimized
            too.
        members: Indices of the members to compute.
        mapping: How members are computed together.
        members_per_batch: Members that are computed at a time.
        coordinator: Coordinator of a cluster.
        checkpoint_dir: Folder to save progress in, and to continue from.
        seed: Integer that fixes the result.
        verbose: 0 is silent, 1 a progress bar, 2 lines.

    Attributes:
        ensemble: `RefinedEnsemble`, or `None` before the end of training.
        history: The ensemble's `history`, or `None`.

    Raises:
        ValueError: If an argument is invalid; in training, if the data does not
            fit the model, or `fit` has weights of examples and this has none.

    Warns:
        UserWarning: In training, if this has weights and `fit` has none.

    Example:

    ```python
    callback = tfp_refine.RefinementCallback(x_train, y_train, seed=1)
    model.fit(x_train, y_train, epochs=1000, callbacks=[callback])
    draws = callback.ensemble.predict(x_test)
    ```

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
        num_members: int = 10,
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
    ) -> None:
        super().__init__()
        self._settings = settings_lib.Settings(
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
        self._data = {
            "x": functional.sources.lasting(x),
            "y": y,
            "sample_weight": sample_weight,
            "class_weight": class_weight,
        }
        self._checked = False
        self.ensemble: Any = None
        self.history = None

    def _shown_arguments(self) -> dict[str, Any]:
        """Returns the arguments that `repr` shows, by name."""
        return self._data | vars(self._settings)

    def on_train_begin(self, logs: Any = None):
        if self._settings.checkpoint_dir is not None:
            resumable.check_folder(self._settings.checkpoint_dir)
        self._checked = False
        if self._has_posterior():
            data = self._check()
        else:
            data, _ = functional.streams.examples(**self._data)
        _compare_weights(self.model, len(functional.streams.specs(data)) == 3)

    def on_train_batch_end(self, batch: Any, logs: Any = None):
        if not self._checked and self._has_posterior():
            self._check()

    def on_train_end(self, logs: Any = None):
        self.ensemble = refine_lib.run(self.model, self._data, self._settings)
        self.history = self.ensemble.history

    def _has_posterior(self):
        """Returns whether the model is built, and IVON has made a step."""
        optimizer = weight_draws.optimizer_of(self.model)
        return self.model.built and (
            optimizer is None or int(optimizer.iterations) > 0
        )

    def _check(self):
        objective = objective_lib.of_settings(
            self.model, self._data, self._settings
        )
        self._checked = True
        return objective.data


def _compare_weights(model, has_weights):
    """Makes the first step of training say whether `fit` has weights too.

    They are arguments of `compute_loss`, which is called while a step is
    traced. Its replacement is removed at the first call.
    """
    compute_loss = vars(model).get("compute_loss")
    if hasattr(compute_loss, "of_refinement"):  # of a step that failed
        del model.compute_loss
        compute_loss = None
    original = model.compute_loss

    def compared(
        x=None, y=None, y_pred=None, sample_weight=None, *args, **kwargs
    ):
        if compute_loss is None:
            del model.compute_loss
        else:
            model.compute_loss = compute_loss
        if sample_weight is not None and not has_weights:
            raise ValueError(
                "`fit` weighs examples, but RefinementCallback would not: give "
                "it the same `sample_weight` or `class_weight`. Received: "
                "sample_weight=None, class_weight=None"
            )
        if sample_weight is None and has_weights:
            _validation.warn(
                "RefinementCallback weighs examples, but `fit` does not: it "
                "trains another bound than the one that is refined. Give it "
                "the same `sample_weight` or `class_weight`."
            )
        return original(x, y, y_pred, sample_weight, *args, **kwargs)

    compared.of_refinement = True
    model.compute_loss = compared
    model.make_train_function(force=True)  # one that is traced again
