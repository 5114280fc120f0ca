"""The refined posterior: an ensemble of Gaussian posteriors."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import copying
from tfp_refine.functional import files
from tfp_refine.math import gaussian


class RefinedEnsemble(posteriors.EnsemblePosterior):
    """Mixture of refined Gaussian posteriors of one model.

    Made by `refine` and `RefinementCallback`, or loaded from a file. Weights
    are in the order of `MeanFieldView`: all variational weights, and after
    these, if they were refined too, the `D` deterministic ones; refined from a
    `GaussianPosterior`, in that of its view, such as
    `model.trainable_weights`. Of correlated weights, members are independent
    Gaussians of coordinates: `params` and priors are of these, the rest of
    weights.

    Args:
        view: `MeanFieldView` or `GaussianView` of the model.
        params: Members' means and untransformed scales, `[M, 2, W]` or
            `[M, 2, W + D]`.
        prior_loc: Means of their conditional priors, `[M, W]`.
        prior_scale: Standard deviations of these, `[M, W]`.
        fixed: Fixed values of the view, such as values of the model's other
            weights, a list; `[M, ...]` each if `stacked`.
        link: `Link` of the outputs to class probabilities, or `None`.
        history: Dict of arrays, see the attribute.
        stacked: Whether each member has other weights of its own, as after
            several starts.
        input_specs: `tf.TensorSpec` of the inputs (or nested).
        member_weights: Weights of the members in the mixture, `[M]`. Equal ones
            if `None`.

    Attributes:
        prior: Conditional priors `p(w | a_1:K)`, a `Gaussian` of `[M, W]`.
        history: Dict of arrays, most with a row for each of the `M` members.
            `members [M]`: indices of the members.
            `start [M]`: number of the posterior that each started from.
            `elbo_init [M]`, `elbo_final [M]`: bounds before and after, fresh
            draws. The staircase, a column for each of the `K` auxiliary
            variables: `elbo_conditioned [M, K]` and `elbo_aux [M, K]`, bounds
            before and after its optimization, by the same draws;
            `cost [M, K]`, the running `sum_k log q(a_k) - log p(a_k)`;
            `kept [M, K]`, whether the optimization was kept: with
            `keep_better`, whether it raised the bound.
            `steps [K]`: steps that each auxiliary variable took.
            `trace_step [T]`, `trace_elbo [M, T]`: bounds estimated from
            minibatches on the way. Bounds and costs are in nats, for the whole
            training set.

    Example:

    ```python
    ensemble = tfp_refine.refine(model, x_train, y_train, seed=1)
    ensemble.save("refined.zip")
    loaded = tfp_refine.load_posterior("refined.zip")
    draws = loaded.predict(x_test)
    ```
    """

    def __init__(
        self,
        view: functional.WeightView,
        params: Any,
        prior_loc: Any,
        prior_scale: Any,
        fixed: Any,
        link: functional.links.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        stacked: bool = False,
        input_specs: Any = None,
        member_weights: Any = None,
    ) -> None:
        super().__init__(
            view,
            params,
            fixed,
            link,
            history,
            stacked=stacked,
            input_specs=input_specs,
            member_weights=member_weights,
        )
        self.prior = gaussian.Gaussian(prior_loc, prior_scale)

    @property
    def loc(self):
        """Means of the members' weights, `[M, W]`."""
        loc = self.params[:, 0, : self.view.num_weights]
        return self._of_weights("located", loc, np.arange(len(loc)))

    @property
    def scale(self):
        """Standard deviations of the members' weights, `[M, W]`."""
        if not self.view.num_factors:
            return self._scale
        variances = self._of_weights(
            "variances", np.square(self._scale), np.arange(len(self.params))
        )
        return np.sqrt(variances)

    @property
    def _scale(self):
        """Standard deviations of the coordinates that are refined."""
        return np.logaddexp(0.0, self.params[:, 1, : self.view.num_weights])

    def _of_weights(self, name, values, members):
        """Turns values of coordinates into those of weights, `[s, W]`.

        Rows are of some members; the function of the `GaussianView` is named.
        """
        if not self.view.num_factors:
            return values
        function = getattr(self.view, name)
        if not self._stacked:
            return function(tf.constant(values), self.fixed).numpy()
        factors = self.fixed[: self.view.num_factors]
        return np.stack(
            [
                function(tf.constant(row), [of[member] for of in factors])
                for row, member in zip(values, members, strict=True)
            ]
        )

    @property
    def elbo_init(self):
        """Bound of where each member started, `history["elbo_init"]`, `[M]`.

        Nats. The values of members with the same start are independent
        estimates of the same number.
        """
        return self.history["elbo_init"]

    @property
    def elbo_final(self):
        """Bound of each member, `history["elbo_final"]`, nats, `[M]`.

        Their mean estimates the refined posterior's bound, a lower bound on
        the evidence; its standard error is their standard deviation divided
        by `sqrt(M)`.
        """
        return self.history["elbo_final"]

    def _weights(self, draws, seed, first):
        numbers = range(first, first + len(draws.members))
        members = self._numbers(numbers.stop)[first:]
        drawn, size = self.params[members, 0], self.view.num_weights
        for number, member, row in zip(numbers, members, drawn, strict=True):
            rng = np.random.default_rng([seed, number])
            scale = np.logaddexp(0.0, self.params[member, 1, :size])
            row[:size] += scale * rng.standard_normal(size)
        return self._of_weights("located", drawn, members)

    def _contents(self):
        description, arrays = super()._contents()
        return description, {
            **arrays,
            "prior_loc": self.prior.loc,
            "prior_scale": self.prior.scale,
        }

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        stacked = description["stacked"]
        return cls(
            view,
            arrays["params"],
            arrays["prior_loc"],
            arrays["prior_scale"],
            files.unpack(arrays, "own" if stacked else "fixed"),
            link,
            stacked=stacked,
            input_specs=copying.specs_of(description["input_specs"]),
            member_weights=arrays.get("member_weights"),
        )
