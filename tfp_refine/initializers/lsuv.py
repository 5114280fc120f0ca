"""Layer-sequential unit-variance initialization of posteriors."""

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import layers
from tfp_refine.initializers import data_free
from tfp_refine.initializers import initializer
from tfp_refine.initializers import traversal


class LSUV(data_free.Orthogonal):
    """Starts at orthogonal means, scaled to outputs of unit variance.

    Layer after layer, the means of the kernel are divided by the standard
    deviation of the layer's pre-activations on a batch, until on a new batch
    their variance is near 1. The layers before are at their means. The
    variances of the posterior are `2 / fan_in`.

    Args:
        batch_size: Examples in a batch. Defaults to `256`.
        tolerance: How far from 1 the variance may be. Defaults to `0.1`.
        max_iterations: Batches that a layer sees at most. Defaults to `10`.
        seed: As for `PosteriorInitializer`.
        verbose: Likewise.

    Raises:
        ValueError: If an argument is invalid; and, when called, if the outputs
            of a layer are constant.

    Example:

    ```python
    tfp_refine.initializers.LSUV()(model, x_train)
    ```

    References:
        - [Mishkin and Matas, 2016](https://arxiv.org/abs/1511.06422)
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083), Sec. 4
    """

    needs = ("x",)

    def __init__(
        self,
        batch_size: int = 256,
        tolerance: float = 0.1,
        max_iterations: int = 10,
        seed: int | None = None,
        verbose: int = True,
    ) -> None:
        super().__init__(seed, verbose)
        self.batch_size = initializer.check_batch_size("batch_size", batch_size)
        self.tolerance = _validation.positive("tolerance", tolerance)
        self.max_iterations = _validation.positive_integer(
            "max_iterations", max_iterations
        )

    def _initialize(self, model, chosen, x, y, weights, rng, bar):
        calls, _ = traversal.calls_in_order(model, chosen, x)
        for call in calls:
            self._initialize_layer(call.layer, rng)
            with layers.mean_weights():
                self._scale(model, call, x, rng)
            bar.add(initializer.num_units(call.layer))
        traversal.update_moving_statistics(model, x, rng)

    def _scale(self, model, call, x, rng):
        layer = call.layer
        for _ in range(self.max_iterations):
            batch = traversal.random_batch(x, self.batch_size, rng)
            inputs = traversal.layer_inputs(model, call, batch)
            outputs = tf.concat(
                [
                    tf.reshape(tf.cast(layer.mean_outputs(v), tf.float32), [-1])
                    for v in inputs
                ],
                axis=0,
            )
            variance = float(tf.math.reduce_variance(outputs))
            if not (np.isfinite(variance) and variance > 0.0):
                raise ValueError(
                    f"The outputs of the layer '{layer.name}' must vary from "
                    "example to example to have their variance scaled. "
                    f"Received: variance {variance}"
                )
            if abs(variance - 1.0) < self.tolerance:
                return
            layer.kernel.assign(layer.kernel / variance**0.5)
