"""Refinement at the end of `fit`."""

import inspect

import keras

from tfp_refine.refinement import plan as plan_lib
from tfp_refine.refinement import refine as refine_lib


class RefinementCallback(keras.callbacks.Callback):
    """Refines a model's mean-field posterior when its training ends.

    The model is not changed. What could stop the refinement, an argument, a
    model without variational layers, data that does not fit, is checked when
    training begins.

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
        self.ensemble = None
        self.history = None

    def on_train_begin(self, logs=None):
        arguments = dict(self._arguments.arguments, model=self.model)
        arguments.pop("verbose")
        plan_lib.Plan(**arguments)

    def on_train_end(self, logs=None):
        arguments = dict(self._arguments.arguments, model=self.model)
        self.ensemble = refine_lib.refine(**arguments)
        self.history = self.ensemble.history
