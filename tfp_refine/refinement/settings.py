"""Settings of a refinement, which check themselves."""

import dataclasses
import math
import numbers
from collections.abc import Sequence
from typing import Any

from tfp_refine import _validation
from tfp_refine.functional import executor
from tfp_refine.functional import update_rules
from tfp_refine.math import variance_schedule

MAPPINGS = ("auto", "map", "vmap")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """All arguments of `refine` that decide its result, checked."""

    num_members: int
    members: Sequence[int] | None
    variance_ratios: Sequence[float]
    steps: int
    batch_size: int
    learning_rate: float
    learning_rate_decay: str
    keep_better: bool
    num_eval_samples: int
    max_eval_examples: int
    refine_deterministic: bool
    seed: int

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
        }
        for name in (
            "steps",
            "batch_size",
            "num_eval_samples",
            "max_eval_examples",
        ):
            checked[name] = _validation.positive_integer(
                name, getattr(self, name)
            )
        _validation.one_of(
            "learning_rate_decay", self.learning_rate_decay, update_rules.DECAYS
        )
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def depends_on(self):
        """Returns what a result depends on, a dict that JSON can hold."""
        settings = dataclasses.asdict(self)
        del settings["num_members"]  # `members` says it
        return settings

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Execution:
    """Arguments of `refine` that change its result by rounding alone."""

    mapping: str
    members_per_batch: int | None
    coordinator: Any

    def __post_init__(self):
        _validation.one_of("mapping", self.mapping, MAPPINGS)
        if self.members_per_batch is not None:
            _validation.positive_integer(
                "members_per_batch", self.members_per_batch
            )
        if self.coordinator is not None:
            executor.count_workers(self.coordinator)

    def batch_of(self, num_members):
        """Returns how many of `M` members are computed at a time."""
        if self.members_per_batch is not None:
            return min(self.members_per_batch, num_members)
        workers = 1
        if self.coordinator is not None:
            workers = executor.count_workers(self.coordinator)
        return -(-num_members // workers)


def _check_members(num_members, members):
    if members is None:
        return tuple(range(num_members))
    try:
        members = tuple(members)
    except TypeError:
        members = (members, None)  # no sequence: refused below
    if (
        not members
        or len(set(members)) != len(members)
        or not all(_is_index(member) for member in members)
    ):
        raise ValueError(
            "`members` must hold distinct non-negative integers. "
            f"Received: members={members}"
        )
    return tuple(int(member) for member in members)


def _is_index(value):
    return (
        isinstance(value, numbers.Integral)
        and not isinstance(value, bool)
        and value >= 0
    )
