"""The posterior of a model with variational layers."""

import weakref
from typing import Any

import keras
import numpy as np

from tfp_refine import functional
from tfp_refine.functional import files
from tfp_refine.functional import links
from tfp_refine.functional import objective
from tfp_refine.optimizers import weight_draws
from tfp_refine.posteriors import covariances
from tfp_refine.posteriors import gaussian
from tfp_refine.posteriors import protocol

# Views, with their compiled programs, for as long as the model lives.
_VIEWS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class VariationalPosterior(protocol.Posterior):
    """Posterior that the variational layers of a model hold.

    Made by `tfp_refine.posterior`. Unlike other posteriors it follows the
    model: its draws are of the weights that the model has at the call. Each
    draw of `predict` has its own randomness; the part that examples share
    depends on the layers: with `DenseReparameterization` one draw of the
    weights for each `batch_size` of them, with local reparameterization and
    Flipout less.

    `sample` draws the variational weights, each flattened, in the order of the
    layers; deterministic weights are left out.

    Args:
        model: The model.
        view: `WeightView` of it with `select="none"`.
        link: `Link` of the outputs, or `None`.

    Example:

    ```python
    posterior = tfp_refine.posterior(model)
    draws = posterior.predict(x_test, num_samples=30)  # [30, N, ...]
    ```
    """

    def __init__(
        self,
        model: keras.Model,
        view: functional.WeightView,
        link: functional.links.Link | None = None,
    ) -> None:
        super().__init__(view, link)
        self._model = model

    @property
    def model(self) -> keras.Model:
        """The model, whose weights are those of the posterior."""
        return self._model

    def _shown_arguments(self):
        return {"model": self.model.name, "sample": self.view.sample}

    def _draw(self, num_samples, seed, at_once):
        del seed, at_once
        yield protocol.Draws(
            np.zeros([1, 0], np.float32),
            np.zeros(num_samples, np.int32),
            self.view.fixed(),
        )

    def _weights(self, draws, seed, first):
        key = functional.seeds.key(seed) % 2**31
        generator = keras.random.SeedGenerator(key)
        weights = functional.variational_weights(self.model)
        return np.stack(
            [
                np.concatenate(
                    [
                        np.ravel(weight.sample(generator, weight.loc.dtype))
                        for weight in weights
                    ]
                )
                for _ in range(len(draws.members))
            ]
        )

    def _contents(self):
        return {}, files.pack(self.view.fixed())

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        del description, arrays  # the model in the file has these weights
        return cls(view.model, view, link)


def posterior(
    model: keras.Model, *, loss: Any = None, sample: bool = True
) -> protocol.Posterior:
    """Returns the posterior of a model.

    A model that is compiled with `optimizers.IVON` has the Gaussian posterior
    that it was trained to, a copy. Any other has that of its variational
    layers; without them, that of its noise, such as `MCDropout`'s; of a
    deterministic one all draws are equal.

    Args:
        model: Built `keras.Model`.
        loss: The loss that it is trained with, which says whether it is a
            classifier; the one that it was compiled with if `None`.
        sample: If `False`, layers use their posterior means.

    Returns:
        posterior: `GaussianPosterior` of all trainable weights, with the prior
            of the optimizer; `VariationalPosterior`.

    Raises:
        ValueError: If it is not a built model, or IVON has not trained it.

    Example:

    ```python
    posterior = tfp_refine.posterior(model)
    summary = posterior.summarize(x_test)
    ```
    """
    functional.data.check_model(model)
    link = links.find(model, loss)
    sample = bool(sample)
    optimizer = weight_draws.optimizer_of(model)
    if sample and optimizer is not None:
        return _of_optimizer(model, optimizer, link)
    views = _VIEWS.setdefault(model, {})
    if sample not in views:
        # A proxy, lest the dictionary's value keep its key alive.
        views[sample] = functional.WeightView(
            weakref.proxy(model), "none", sample=sample
        )
    return VariationalPosterior(model, views[sample], link)


def _of_optimizer(model, optimizer, link):
    """Returns the Gaussian posterior that IVON has trained."""
    view = functional.WeightView(model)
    has_begun = int(optimizer.iterations) > 0
    unknown = [
        v.path
        for v in view.variables
        if not (has_begun and optimizer.has_posterior_of(v))
    ]
    if unknown:
        raise ValueError(
            "IVON has a posterior of the weights that it trains, from the "
            f"first step on. Received: the model '{model.name}' with weights "
            f"that it has not trained: {', '.join(unknown)}. Call `fit` first; "
            "freeze weights, or make them trainable, before `compile`."
        )
    scales = [optimizer.scale_of(v) for v in view.variables]
    scale = functional.weight_view.flatten(scales, view.dtype)
    loc = view.params()
    objective.check_finite(model, posterior=(loc, scale))
    return gaussian.GaussianPosterior(
        view,
        loc.numpy(),
        covariances.Diagonal(scale),
        [*map(np.array, view.fixed())],
        link,
        prior_scale=optimizer.prior_scale,
        num_train_examples=optimizer.num_train_examples,
    )
