"""Refinement at the end of `fit`."""

import inspect

import keras

from tfp_refine import functional
from tfp_refine.functional import checkpoint as checkpoint_lib
from tfp_refine.refinement import plan as plan_lib
from tfp_refine.refinement import refine as refine_lib


class RefinementCallback(keras.callbacks.Callback):
    """Refines a model's mean-field posterior when its training ends.

    The model is not changed. What could stop the refinement, an argument, a
    model without variational layers, data that does not fit, is checked when
    training begins. Put it last in the list of callbacks: some, such as
    `EarlyStopping`, choose the model's weights when training ends.

    Args:
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        **options: Keyword arguments of `refine`: `num_members=10`,
            `variance_ratios=(0.7,) * 5`, `steps=200`, `batch_size=256`,
            `learning_rate=1e-3`, `seed=None`, ...

    Attributes:
        ensemble: `RefinedEnsemble`, or `None` before the end of training.
        history: The ensemble's `history`, or `None`.

    Raises:
        ValueError: If an argument is invalid.
        TypeError: If an option is unknown.

    Example:

    ```python
    callback = tfp_refine.RefinementCallback(x_train, y_train, seed=1)
    model.fit(x_train, y_train, epochs=1000, callbacks=[callback])
    draws = callback.ensemble.predict(x_test)
    ```

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
    """

    def __init__(self, x, y=None, **options):
        super().__init__()
        self._arguments = inspect.signature(refine_lib.refine).bind(
            None, x, y, **options
        )
        self._arguments.apply_defaults()
        self._checked = False
        self.ensemble = None
        self.history = None

    def on_train_begin(self, logs=None):
        arguments = self._arguments.arguments
        functional.arrays.examples(arguments["x"], arguments["y"])
        if arguments["checkpoint_dir"] is not None:
            checkpoint_lib.check_folder(arguments["checkpoint_dir"])
        self._checked = False
        if self.model.built:
            self._check()

    def on_train_batch_end(self, batch, logs=None):
        # `fit` builds some models at their first batch only.
        if not self._checked:
            self._check()

    def on_train_end(self, logs=None):
        arguments = dict(self._arguments.arguments, model=self.model)
        self.ensemble = refine_lib.refine(**arguments)
        self.history = self.ensemble.history

    def _check(self):
        # Not its checkpoint, which is of the posterior after training.
        arguments = dict(
            self._arguments.arguments, model=self.model, checkpoint_dir=None
        )
        arguments.pop("verbose")
        plan_lib.Plan(**arguments)
        self._checked = True
