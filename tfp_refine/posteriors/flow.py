"""Posteriors made of standard normal draws by a chain of bijectors."""

import copy
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from tfp_refine import bijectors
from tfp_refine import functional
from tfp_refine.functional import files
from tfp_refine.posteriors import covariances
from tfp_refine.posteriors import evidence_bound
from tfp_refine.posteriors import protocol


class FlowPosterior(evidence_bound.EvidenceBound, protocol.Posterior):
    """Distribution of standard normal draws that a bijector transforms.

    Args:
        view: `LastLayerView` or `AllLayersView` of the weights.
        bijector: `tfb.Chain` of bijectors of this package and `Affine`s, in
            float64.
        fixed: Values of the view's fixed weights, a list.
        likelihood: Object of `functional.likelihoods`.
        prior_precision: 1 / variance of the prior of each weight, a scalar.
        link: `Link` of the outputs to class probabilities, or `None`.
        history: Dict of arrays.
        diagnostics: Dict of numbers.

    Attributes:
        bijector: The bijector.
        fixed: Values of the view's fixed weights.
        likelihood: The likelihood.
        prior_precision: That of the prior.

    Example:

    ```python
    laplace = tfp_refine.laplace.LastLayerLaplace(model, "classification")
    posterior = laplace.fit(x_train, y_train).refine(flow_length=2, epochs=20)
    probs = posterior.predict_proba(x_test)  # [N, C]
    ```

    Reference:
        - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041)
    """

    def __init__(
        self,
        view: functional.WeightView,
        bijector: Any,
        fixed: Any,
        likelihood: Any,
        prior_precision: Any,
        link: functional.links.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
    ) -> None:
        super().__init__(view, link, history, diagnostics)
        self.bijector, self.fixed = bijector, fixed
        self.likelihood, self.prior_precision = likelihood, prior_precision

    def _draw(self, num_samples, seed, at_once):
        size = self.view.size
        for z in protocol.normal_draws(num_samples, size, seed, at_once):
            yield protocol.Draws(
                tf.cast(self.bijector.forward(z), self.view.dtype),
                np.arange(z.shape[0]),
                self.fixed,
            )

    def _contents(self):
        parts, arrays = [], files.pack(self.fixed)
        for number, part in enumerate(self.bijector.bijectors):
            kind, values = _describe(part)
            parts.append(kind)
            arrays |= {f"{number}/{k}": v for k, v in values.items()}
        return {
            "bijectors": parts,
            "likelihood": self.likelihood.kind,
            "noise_scale": getattr(self.likelihood, "noise_scale", 1.0),
            "prior_precision": self.prior_precision,
        }, arrays

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        return cls(
            view,
            tfp.bijectors.Chain(
                [
                    _restore(kind, files.below(arrays, f"{number}/"))
                    for number, kind in enumerate(description["bijectors"])
                ]
            ),
            files.unpack(arrays),
            functional.likelihoods.of_kind(
                description["likelihood"],
                view.num_outputs,
                description["noise_scale"],
            ),
            description["prior_precision"],
            link,
        )


class Affine(tfp.bijectors.Bijector):
    """Makes draws `[..., P]` of a Gaussian of standard normal ones."""

    def __init__(self, loc, covariance, dtype=tf.float64, name="affine"):
        parameters = dict(locals())
        with tf.name_scope(name):
            # Tensors: a trace captures them, where it would copy arrays.
            self.loc = tf.cast(loc, dtype)
            self.covariance = copy.copy(covariance)
            for key, value in covariance.arrays().items():
                setattr(self.covariance, key, tf.cast(value, dtype))
            self._log_det = covariance.log_det
            super().__init__(
                forward_min_event_ndims=1,
                is_constant_jacobian=True,
                dtype=dtype,
                parameters=parameters,
                name=name,
            )

    def _forward(self, x):
        return self.loc + self.covariance.deviation(x)

    def _inverse(self, y):
        return self.covariance.standardize(y - self.loc)

    def _forward_log_det_jacobian(self, x):
        return tf.constant(self._log_det, x.dtype)

    @classmethod
    def _parameter_properties(cls, dtype):
        return {}


def _describe(bijector):
    """Returns the kind of a bijector, a list of names, and its arrays."""
    if isinstance(bijector, Affine):
        covariance = bijector.covariance
        return ["Affine", type(covariance).__name__], {
            "loc": bijector.loc,
            **covariance.arrays(),
        }
    parameters = bijector.parameters
    names = type(bijector).parameter_properties(bijector.dtype)
    return [type(bijector).__name__], {n: parameters[n] for n in names}


def _restore(kind, arrays):
    """Restores a bijector from the result of `_describe`."""
    if kind[0] == "Affine":
        covariance = covariances.from_arrays(kind[1], arrays)
        return Affine(arrays["loc"], covariance)
    return getattr(bijectors, kind[0])(**arrays)
