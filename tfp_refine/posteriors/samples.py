"""Posteriors that are known by samples."""

from typing import Any

import numpy as np

from tfp_refine import functional
from tfp_refine.functional import files
from tfp_refine.posteriors import protocol


class SamplePosterior(protocol.Posterior):
    """Samples of a posterior, in the order of the chains that drew them.

    Draws are taken without replacement until all samples have been drawn, then
    again.

    Args:
        view: View of the weights.
        samples: Weights, `[T, P]`, or `[T, chains, P]`.
        fixed: Values of the view's fixed weights, a list; `[T, ...]` each if
            `stacked`.
        link: `Link` of the outputs to class probabilities, or `None`.
        history: Dict of arrays.
        diagnostics: Dict of numbers.
        stacked: Whether each sample has fixed weights of its own.

    Attributes:
        samples: Weights, array `[T, P]` or `[T, chains, P]`.
        fixed: Values of the fixed weights.

    Example:

    ```python
    laplace = tfp_refine.laplace.LastLayerLaplace(model, "classification")
    laplace.fit(x_train, y_train)
    posterior = tfp_refine.sampling.nuts(laplace, num_chains=2)
    posterior.samples.shape  # (500, 2, P)
    ```
    """

    def __init__(
        self,
        view: functional.WeightView,
        samples: Any,
        fixed: Any,
        link: functional.links.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
        stacked: bool = False,
    ) -> None:
        super().__init__(view, link, history, diagnostics)
        self.samples = np.asarray(samples)
        self.fixed = fixed
        self._stacked = stacked

    def _shown_arguments(self):
        return super()._shown_arguments() | {"samples": self.samples}

    def _draw(self, num_samples, seed, at_once):
        rng = np.random.default_rng(seed)
        flat = self.samples.reshape(-1, self.samples.shape[-1])
        rounds = -(-num_samples // len(flat))
        order = np.concatenate(
            [rng.permutation(len(flat)) for _ in range(rounds)]
        )[:num_samples]
        size = max(1, protocol.MAX_NUMBERS // flat.shape[-1])
        at_once = min(at_once, size)
        dtype = self.view.dtype.as_numpy_dtype
        for begin in range(0, num_samples, at_once):
            chosen, members = np.unique(
                order[begin : begin + at_once], return_inverse=True
            )
            fixed = self.fixed
            if self._stacked:
                fixed = [np.asarray(value)[chosen] for value in fixed]
            yield protocol.Draws(
                flat[chosen].astype(dtype), members, fixed, self._stacked
            )

    def _contents(self):
        prefix = "own" if self._stacked else "fixed"
        return {"stacked": self._stacked}, {
            "samples": self.samples,
            **files.pack(self.fixed, prefix),
        }

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        stacked = description["stacked"]
        return cls(
            view,
            arrays["samples"],
            files.unpack(arrays, "own" if stacked else "fixed"),
            link,
            stacked=stacked,
        )
