"""Settings of a refinement, checked before any work."""

import math
import numbers
from typing import NamedTuple

from tfp_refine import _validation
from tfp_refine.math import variance_schedule
from tfp_refine.refinement import places

LEARNING_RATE_DECAYS = ("constant", "cosine", "linear")
MAPPINGS = ("auto", "mapped", "vectorized")


class Settings(NamedTuple):
    """Everything that, with model and data, decides a refinement's result.

    Attributes:
        members: Indices of the members to compute.
        variance_ratios: Part of the remaining prior variance that each
            auxiliary variable takes, in (0, 1).
        steps: Optimization steps for each auxiliary variable.
        batch_size: Training examples in a step.
        learning_rate: Adam's, before the first auxiliary variable.
        learning_rate_decay: Within each auxiliary variable: one of
            `LEARNING_RATE_DECAYS`.
        keep_better: Whether to undo an optimization that lowered the bound.
        num_eval_samples: Weight draws in each evaluation of the bound.
        max_eval_examples: Training examples in the evaluations between
            auxiliary variables.
        refine_deterministic: Whether weights without a posterior are optimized
            along.
        seed: Integer.
    """

    members: tuple[int, ...]
    variance_ratios: tuple[float, ...]
    steps: int
    batch_size: int
    learning_rate: float
    learning_rate_decay: str
    keep_better: bool
    num_eval_samples: int
    max_eval_examples: int
    refine_deterministic: bool
    seed: int

    def learning_rates(self):
        """Returns Adam's rate for each auxiliary variable.

        It is proportional to the standard deviation of the prior that the
        auxiliary variable splits: the posterior moves on that scale.
        """
        rates, left = [], 1.0
        for ratio in self.variance_ratios:
            rates.append(self.learning_rate * math.sqrt(left))
            left *= 1.0 - ratio
        return tuple(rates)


class Execution(NamedTuple):
    """How a refinement is computed; its result is the same, but for rounding.

    Attributes:
        mapping: One of `MAPPINGS`.
        members_per_batch: Members that are computed at a time, by a worker.
        coordinator: `ClusterCoordinator` of the workers, or `None`.
    """

    mapping: str
    members_per_batch: int
    coordinator: object = None

    @classmethod
    def check(cls, mapping, members_per_batch, num_members, coordinator=None):
        """Builds `Execution` from arguments of `refine`.

        Args:
            mapping: As the attribute.
            members_per_batch: As the attribute, or `None` for all, or for
                an equal part for each worker.
            num_members: How many members are computed in all.
            coordinator: As the attribute.

        Returns:
            execution: `Execution`.

        Raises:
            ValueError: If an argument is invalid.
        """
        if mapping not in MAPPINGS:
            raise ValueError(
                f"`mapping` must be one of {MAPPINGS}. "
                f"Received: mapping={mapping!r}"
            )
        num_workers = 1
        if coordinator is not None:
            num_workers = places.count_workers(coordinator)
        if members_per_batch is None:
            members_per_batch = -(-num_members // num_workers)
        members_per_batch = _validation.positive_integer(
            "members_per_batch", members_per_batch
        )
        return cls(mapping, min(members_per_batch, num_members), coordinator)


def check(
    *,
    num_members,
    members,
    variance_ratios,
    learning_rate,
    learning_rate_decay,
    keep_better,
    refine_deterministic,
    seed,
    **counts,
):
    """Builds `Settings` from arguments of `refine`.

    Args:
        num_members: Number of members, if `members` is `None`.
        members: Indices of the members, or `None` for all.
        variance_ratios: As in `Settings`.
        learning_rate: As in `Settings`.
        learning_rate_decay: As in `Settings`.
        keep_better: As in `Settings`.
        refine_deterministic: As in `Settings`.
        seed: Integer.
        **counts: The others of `Settings`, all positive integers.

    Returns:
        settings: `Settings`.

    Raises:
        ValueError: If an argument is invalid.
    """
    num_members = _validation.positive_integer("num_members", num_members)
    if learning_rate_decay not in LEARNING_RATE_DECAYS:
        raise ValueError(
            f"`learning_rate_decay` must be one of {LEARNING_RATE_DECAYS}. "
            f"Received: learning_rate_decay={learning_rate_decay!r}"
        )
    return Settings(
        members=_members(num_members, members),
        variance_ratios=variance_schedule.check_ratios(variance_ratios),
        learning_rate=_validation.positive("learning_rate", learning_rate),
        learning_rate_decay=learning_rate_decay,
        keep_better=bool(keep_better),
        refine_deterministic=bool(refine_deterministic),
        seed=seed,
        **{
            name: _validation.positive_integer(name, value)
            for name, value in counts.items()
        },
    )


def _members(num_members, members):
    if members is None:
        return tuple(range(num_members))
    try:
        members = tuple(members)
    except TypeError:
        members = (members, None)  # no sequence: refused below
    if (
        not members
        or len(set(members)) != len(members)
        or not all(_is_integer(member) and member >= 0 for member in members)
    ):
        raise ValueError(
            "`members` must hold distinct non-negative integers. "
            f"Received: members={members}"
        )
    return tuple(int(member) for member in members)


def _is_integer(value):
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
