"""Steps that follow the gain of each auxiliary variable."""

import dataclasses

import numpy as np

from tfp_refine import _validation

# Standard errors that a mean gain must exceed.
_STANDARD_ERRORS = 2.0


@dataclasses.dataclass(frozen=True)
class AdaptiveSteps:
    """Steps for each auxiliary variable as long as its bound rises.

    Every `check_every` steps the bound of each member is evaluated, with the
    same draws and examples each time. The bound has risen if its gain since the
    best check before, a mean over the members, exceeds both `tolerance` and two
    standard errors. After `patience` checks in a row without a rise the
    auxiliary variable ends, for all members at once.

    An auxiliary variable takes at most an equal share of the steps that are
    left, so that those which one leaves go to the next. Optimizations that end
    at the same gain for each step are the best ones for their sum of steps, as
    long as gains diminish: `tolerance` is that gain, for `check_every` steps.

    It finds when to stop, and does not make steps worth more: on small
    regressions the bound was as high as that of equal numbers with the same
    sum, or a few nats lower. An auxiliary variable may gain little at first.

    A check costs an evaluation of the bound, `num_eval_samples` forward passes
    of `max_eval_examples` examples, which `check_every` should outweigh.

    Args:
        budget: Most steps of a member, over all auxiliary variables.
        check_every: Steps between two checks.
        patience: Checks without a rise that end an auxiliary variable.
        tolerance: Gain that a check must exceed, nats.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    steps = tfp_refine.refinement.AdaptiveSteps(budget=5000, tolerance=1.0)
    ensemble = tfp_refine.refine(model, x_train, y_train, steps=steps)
    ensemble.history["steps"]  # of each auxiliary variable
    ```
    """

    budget: int
    check_every: int = 50
    patience: int = 2
    tolerance: float = 0.5

    def __post_init__(self) -> None:
        _validation.all_positive_integers(
            budget=self.budget,
            check_every=self.check_every,
            patience=self.patience,
        )
        _validation.not_negative("tolerance", self.tolerance)

    def limit(self, taken: int, variables_left: int) -> int:
        """Returns the most steps of the next auxiliary variable.

        Args:
            taken: Steps of those before.
            variables_left: Number of auxiliary variables left, the next one
                included.

        Returns:
            limit: An equal share of the steps that are left.
        """
        return (self.budget - taken) // variables_left

    def has_ended(self, bounds: list[np.ndarray]) -> bool:
        """Decides whether an auxiliary variable has ended.

        Args:
            bounds: Those of the members at each check, arrays `[M]`, nats; that
                before the first step included. NaN for members that failed.

        Returns:
            has_ended: Whether the last `patience` checks have not risen.
        """
        best = 0
        for check in range(1, len(bounds)):
            if self._has_risen(bounds[check] - bounds[best]):
                best = check
        return len(bounds) - 1 - best >= self.patience

    def _has_risen(self, gains):
        gains = gains[np.isfinite(gains)]
        if not len(gains):
            return False
        error = 0.0
        if len(gains) > 1:
            error = gains.std(ddof=1) / np.sqrt(len(gains))
        return gains.mean() > max(self.tolerance, _STANDARD_ERRORS * error)
