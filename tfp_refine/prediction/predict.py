"""Draws of the predictive distribution of a model or an ensemble."""

import keras

from tfp_refine import functional
from tfp_refine.prediction import compilation


def predict(
    model_or_ensemble,
    x,
    num_samples=100,
    seed=None,
    *,
    sample=True,
    batch_size=1024,
):
    """Draws outputs of a Bayesian model.

    Each draw has randomness of its own. What a draw shares among examples
    depends on the layers: with `DenseReparameterization` one draw of the
    weights for each `batch_size` of them, with local reparameterization
    nothing. A model is compiled at its first use; a layer's `sample` set
    afterwards is not seen.

    Args:
        model_or_ensemble: `keras.Model`, or an object with a method
            `predictive_draws(x, num_samples, seed, batch_size)`, such as a
            `RefinedEnsemble`.
        x: Inputs, `[N, ...]` (or nested).
        num_samples: `S`, the number of draws; for an ensemble, of all its
            members together. Defaults to `100`.
        seed: Integer that fixes the draws; fresh ones if `None`.
        sample: If `False`, a model is called at its posterior means. Defaults
            to `True`.
        batch_size: Examples computed at a time: `S * batch_size` outputs are
            held besides the result. Defaults to `1024`.

    Returns:
        draws: Outputs of the model (means, logits, ...: what it returns), a
            `numpy` array `[S, N, ...]` (or nested).

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    draws = tfp_refine.predict(model, x, num_samples=100, seed=1)
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    ```
    """
    if hasattr(model_or_ensemble, "predictive_draws"):
        if not sample:
            raise ValueError(
                "`sample=False` needs a single model; an ensemble is random "
                f"by nature. Received: {type(model_or_ensemble).__name__}"
            )
        return model_or_ensemble.predictive_draws(
            x, num_samples, seed, batch_size
        )
    if not isinstance(model_or_ensemble, keras.Model):
        raise ValueError(
            "`predict` needs a keras.Model or an ensemble. "
            f"Received: {type(model_or_ensemble).__name__}"
        )
    functional.arrays.check_built(model_or_ensemble)
    forward, predictor = compilation.compiled(model_or_ensemble, bool(sample))
    return predictor(
        x, None, forward.other_values(), num_samples, seed, batch_size
    )
