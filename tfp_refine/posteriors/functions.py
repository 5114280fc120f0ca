"""The protocol as functions, of models and posteriors alike."""

from typing import Any

import keras
import numpy as np

from tfp_refine import _validation
from tfp_refine.posteriors import protocol
from tfp_refine.posteriors import summary
from tfp_refine.posteriors import variational


def predict(
    model_or_posterior: keras.Model | protocol.Posterior,
    x: Any,
    num_samples: int = 100,
    *,
    seed: int | None = None,
    sample: bool = True,
    batch_size: int = 1024,
) -> Any:
    """Draws outputs of a model or a posterior.

    Args:
        model_or_posterior: `keras.Model`, whose posterior is that of its
            variational layers, or any posterior of this package.
        x: Inputs of any kind that `keras.Model.predict` takes: `[N, ...]` (or
            nested), or batches of them, such as a `tf.data.Dataset`, a
            `keras.utils.PyDataset` or a generator.
        num_samples: `S`, number of draws, in all.
        seed: Integer that fixes the draws; a fresh one if `None`.
        sample: If `False`, a model is called at its posterior means.
        batch_size: Examples computed at a time.

    Returns:
        draws: `numpy` array `[S, N, ...]` (or nested).

    Raises:
        ValueError: If an argument is invalid.

    Warns:
        UserWarning: If all draws are equal, as the model has no layer that
            draws.
        RuntimeWarning: If outputs are NaN or infinite.

    Example:

    ```python
    draws = tfp_refine.predict(model, x, num_samples=100, seed=1)
    mean, std = draws.mean(axis=0), draws.std(axis=0)
    ```
    """
    return _posterior(model_or_posterior, num_samples, sample).predict(
        x, num_samples, seed=seed, batch_size=batch_size
    )


def predict_proba(
    model_or_posterior: keras.Model | protocol.Posterior,
    x: Any,
    num_samples: int = 100,
    *,
    method: str = "mc",
    seed: int | None = None,
    sample: bool = True,
    batch_size: int = 1024,
) -> np.ndarray:
    """Computes class probabilities, averaged over a posterior.

    Args:
        model_or_posterior: As for `predict`.
        x: As for `predict`.
        num_samples: As for `predict`.
        method: As for `Posterior.predict_proba`.
        seed: As for `predict`.
        sample: As for `predict`.
        batch_size: As for `predict`.

    Returns:
        probs: `numpy` array `[N, C]`.

    Raises:
        ValueError: If an argument is invalid, or the model is not a classifier.

    Warns:
        UserWarning: As for `predict`.

    Example:

    ```python
    bayesian = tfp_refine.models.to_bayesian(model, num_train_examples=60000)
    bayesian.compile("adam", tfp_refine.losses.CategoricalNLL())
    probs = tfp_refine.predict_proba(bayesian, x_test, num_samples=30, seed=1)
    classes = probs.argmax(axis=-1)
    ```
    """
    return _posterior(model_or_posterior, num_samples, sample).predict_proba(
        x, num_samples, method=method, seed=seed, batch_size=batch_size
    )


def summarize(
    model_or_posterior: keras.Model | protocol.Posterior,
    x: Any,
    num_samples: int = 100,
    *,
    quantiles: tuple[float, ...] = (0.025, 0.5, 0.975),
    seed: int | None = None,
    sample: bool = True,
    batch_size: int = 1024,
) -> summary.Summary:
    """Computes statistics of the predictive distribution.

    Args:
        model_or_posterior: As for `predict`.
        x: As for `predict`.
        num_samples: As for `predict`.
        quantiles: Probabilities in (0, 1), perhaps none.
        seed: As for `predict`.
        sample: As for `predict`.
        batch_size: As for `predict`.

    Returns:
        summary: `Summary`.

    Raises:
        ValueError: If an argument is invalid.

    Warns:
        UserWarning: As for `predict`.

    Example:

    ```python
    summary = tfp_refine.summarize(model, x_test, num_samples=30, seed=1)
    mean, std = summary.mean, summary.std
    ```
    """
    return _posterior(model_or_posterior, num_samples, sample).summarize(
        x, num_samples, quantiles=quantiles, seed=seed, batch_size=batch_size
    )


def _posterior(model_or_posterior, num_samples, sample):
    if isinstance(model_or_posterior, keras.Model):
        posterior = variational.posterior(model_or_posterior, sample=sample)
        if (
            sample
            and num_samples != 1
            and isinstance(posterior, variational.VariationalPosterior)
            and not posterior.view.is_random
        ):
            _validation.warn(
                f"All draws are equal: the model '{model_or_posterior.name}' "
                "has no layer that draws in inference. Such layers come from "
                "`tfp_refine.layers`; `tfp_refine.models.to_bayesian` and "
                "`to_mc_dropout` convert a model.",
            )
        return posterior
    if not isinstance(model_or_posterior, protocol.Posterior):
        raise ValueError(
            "`model_or_posterior` must be a keras.Model or a posterior. "
            f"Received: {type(model_or_posterior).__name__}"
        )
    if not sample:
        raise ValueError(
            "`sample=False` needs a keras.Model. "
            f"Received: {type(model_or_posterior).__name__}"
        )
    return model_or_posterior
