"""Posteriors that start as wide as trained weights are large."""

import keras

from tfp_refine import _validation
from tfp_refine import functional


class MOPED(_validation.Shown):
    """Keeps the posteriors' means; scales become a part of their size.

    For means that are trained weights, such as `models.to_bayesian` leaves:
    `scale = max(delta * abs(mean), min_scale)`, for all weights of a model that
    are not frozen.

    Args:
        delta: Scale of a weight over its size. Defaults to `0.1`.
        min_scale: Least standard deviation, that of means of 0. Defaults to
            `1e-4`.

    Raises:
        ValueError: If an argument is not positive.

    Example:

    ```python
    bayesian = tfp_refine.models.to_bayesian(model, num_train_examples=60000)
    tfp_refine.initializers.MOPED(delta=0.05)(bayesian)
    ```

    Reference:
        - [Krishnan et al., 2020](https://arxiv.org/abs/1906.05323)
    """

    def __init__(self, delta: float = 0.1, min_scale: float = 1e-4) -> None:
        self.delta = _validation.scale("delta", delta)
        self.min_scale = _validation.scale("min_scale", min_scale)

    def __call__(
        self, model, x=None, y=None, sample_weight=None, class_weight=None
    ):
        """Initializes a model.

        Args:
            model: Built `keras.Model` with variational layers.
            x: Not used.
            y: Not used.
            sample_weight: Not used.
            class_weight: Not used.

        Returns:
            model: The same.

        Raises:
            ValueError: If there is nothing to initialize.
        """
        del x, y, sample_weight, class_weight
        for weight in functional.variational_weights(model):
            if weight.loc.trainable:
                loc = keras.ops.convert_to_tensor(weight.loc)
                scale = self.delta * keras.ops.abs(loc)
                weight.initialize(loc, keras.ops.maximum(scale, self.min_scale))
        return model
