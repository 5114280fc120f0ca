"""Settings of a refinement, which check themselves."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfp_refine import _validation
from tfp_refine.functional import executor
from tfp_refine.functional import resumable
from tfp_refine.functional import update_rules
from tfp_refine.math import variance_schedule
from tfp_refine.refinement import adaptive_steps

MAPPINGS = ("auto", "map", "vmap")
_COUNTS = ("batch_size", "num_eval_samples", "max_eval_examples")
# Weights, of all members that are computed together.
_WEIGHTS_AT_A_TIME = 2**21
# Settings that change a result by rounding alone, or that `members` implies,
# or that are seen through their values.
_NOT_COMPARED = (
    "num_members",
    "loss",
    "mapping",
    "members_per_batch",
    "coordinator",
    "checkpoint_dir",
    "verbose",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """All arguments of `refine` but the model and the data, checked.

    `kl_scale` is that of each of the `members`, a tuple.
    """

    num_members: int
    variance_ratios: Sequence[float]
    steps: int | adaptive_steps.AdaptiveSteps
    batch_size: int
    learning_rate: float
    learning_rate_decay: str | None = None
    keep_better: bool = True
    num_eval_samples: int = 10
    max_eval_examples: int = 2048
    refine_deterministic: bool = False
    seed: int | None = None
    kl_scale: float | Sequence[float] = 1.0
    loss: Any = None
    members: Sequence[int] | None = None
    mapping: str = "auto"
    members_per_batch: int | None = None
    coordinator: Any = None
    checkpoint_dir: Any = None
    verbose: int = 1

    def __post_init__(self):
        count = _validation.positive_integer("num_members", self.num_members)
        checked = {
            "members": _check_members(count, self.members),
            "variance_ratios": variance_schedule.check_ratios(
                self.variance_ratios
            ),
            "learning_rate": _validation.positive(
                "learning_rate", self.learning_rate
            ),
            "keep_better": bool(self.keep_better),
            "refine_deterministic": bool(self.refine_deterministic),
            "seed": resumable.check_seed(self.seed, self.checkpoint_dir),
        }
        decay = self.learning_rate_decay
        if decay is None:
            decay = "constant" if self.schedule else "linear"
        checked["learning_rate_decay"] = _validation.one_of(
            "learning_rate_decay", decay, update_rules.DECAYS
        )
        if self.schedule is None:
            checked["steps"] = _validation.positive_integer("steps", self.steps)
        elif decay != "constant":
            raise ValueError(
                "`learning_rate_decay` needs the number of steps, which "
                "AdaptiveSteps does not know. Received: learning_rate_decay="
                f"{self.learning_rate_decay!r}, steps={self.steps!r}"
            )
        elif self.steps.budget < len(self.variance_ratios):
            raise ValueError(
                "`steps` must have a budget of at least one step for each "
                f"auxiliary variable. Received: {self.steps!r} for "
                f"{len(self.variance_ratios)} of them"
            )
        for name in _COUNTS:
            value = _validation.positive_integer(name, getattr(self, name))
            checked[name] = value
        _validation.one_of("mapping", self.mapping, MAPPINGS)
        if self.members_per_batch is not None:
            _validation.positive_integer(
                "members_per_batch", self.members_per_batch
            )
        if self.coordinator is not None:
            executor.count_workers(self.coordinator)
        checked["kl_scale"] = _check_kl_scale(
            self.kl_scale, count, checked["members"]
        )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def schedule(self):
        """The `AdaptiveSteps`, or `None` if all variables have `steps`."""
        is_adaptive = isinstance(self.steps, adaptive_steps.AdaptiveSteps)
        return self.steps if is_adaptive else None

    @property
    def most_steps(self):
        """Most steps of an auxiliary variable."""
        return self.schedule.budget if self.schedule else self.steps

    @property
    def budget(self):
        """Most steps of all auxiliary variables together."""
        if self.schedule:
            return self.schedule.budget
        return self.steps * len(self.variance_ratios)

    def depends_on(self):
        """Returns the values that decide a result, a dict for JSON."""
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in _NOT_COMPARED
        }
        if self.schedule:
            values["steps"] = dataclasses.asdict(self.schedule)
        return values

    def learning_rates(self):
        """Returns Adam's rate for each auxiliary variable, `K` floats.

        It is proportional to the standard deviation of the prior that the
        auxiliary variable splits: the posterior moves on that scale.
        """
        rates, left = [], 1.0
        for ratio in self.variance_ratios:
            rates.append(self.learning_rate * math.sqrt(left))
            left *= 1.0 - ratio
        return tuple(rates)

    def members_at_a_time(self, num_weights):
        """Returns the number of members that are computed together.

        By default, no more than fill the machine: a member in computation takes
        three times the memory of one that waits.
        """
        count = len(self.members)
        if self.members_per_batch is not None:
            # Kernels of TensorFlow may count elements in 32 bits.
            most = max(1, (2**31 - 1) // (2 * num_weights))
            return min(self.members_per_batch, count, most)
        if self.coordinator is not None:
            count = -(-count // executor.count_workers(self.coordinator))
        return max(1, min(count, _WEIGHTS_AT_A_TIME // num_weights))


def _check_members(num_members, members):
    if members is None:
        return tuple(range(num_members))
    try:
        checked = tuple(
            _validation.not_negative_integer("members", member)
            for member in members
        )
    except (TypeError, ValueError):
        checked = ()
    if not checked or len(set(checked)) != len(checked):
        raise ValueError(
            "`members` must hold distinct non-negative integers. "
            f"Received: members={members}"
        )
    return checked


def _check_kl_scale(kl_scale, num_members, members):
    """Returns the factor of each of the members, a tuple of floats."""
    if np.ndim(kl_scale) == 0:
        return (_validation.positive("kl_scale", kl_scale),) * len(members)
    checked = [_validation.positive("kl_scale", one) for one in kl_scale]
    if len(checked) != num_members or max(members) >= num_members:
        raise ValueError(
            "`kl_scale` must be a positive number, or one for each member. "
            f"Received: {len(checked)} of them, num_members={num_members}, "
            f"members={list(members)}"
        )
    return tuple(checked[member] for member in members)
