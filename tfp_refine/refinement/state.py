"""The state of a refinement: all that it needs to continue."""

import dataclasses

import numpy as np

from tfp_refine.functional import files
from tfp_refine.refinement import engine
from tfp_refine.refinement import member

# What is recorded for each member and auxiliary variable, and its dtype.
STAIRCASE = {
    "elbo_conditioned": np.float64,
    "elbo_aux": np.float64,
    "cost": np.float64,
    "kept": np.bool_,
}
# Attributes that are arrays.
_ARRAYS = ("ahead", "loss", "start", "elbo_init", "elbo_final")


@dataclasses.dataclass
class RefinementState:
    """State of a refinement, with `numpy` arrays.

    Attributes:
        auxiliary: Auxiliary variable in work, from 0 to `K`.
        step: Its optimization steps that all members have done.
        ahead: Whether a member has done those up to the next report, too,
            `[M]`.
        loss: Mean negative log likelihood of those, plus the KL divergence for
            each example, of the members ahead, nats, `[M]`.
        members: Stacked `MemberState`.
        start: `params [M, 2, W]` before its optimization.
        moments: Adam's moments, a pair of arrays `[M, 2, W]`.
        elbo_init: Bound of the mean-field posterior, `[M]`; NaN where it is
            not known yet.
        elbo_final: Bound after refinement, likewise.
        staircase: Arrays `[M, K]`, named as in `STAIRCASE`.
        trace_step: Optimization steps done at each point of the trace.
        trace_elbo: Bound estimated from minibatches since the point before,
            list of `[M]`.
        failures: Message for each member index that failed.
    """

    auxiliary: int
    step: int
    ahead: np.ndarray
    loss: np.ndarray
    members: member.MemberState
    start: np.ndarray
    moments: tuple[np.ndarray, np.ndarray]
    elbo_init: np.ndarray
    elbo_final: np.ndarray
    staircase: dict[str, np.ndarray]
    trace_step: list[int]
    trace_elbo: list[np.ndarray]
    failures: dict[int, str]

    @classmethod
    def begin(cls, params, prior, settings):
        """Creates the state of a refinement that has not started.

        The mean-field posterior is `[2, W]`, the prior `(loc [W], scale [W])`.
        """
        count = len(settings.members)

        def stack(value):
            value = np.asarray(value)
            return np.repeat(value[np.newaxis], count, axis=0)

        shape = (count, len(settings.variance_ratios))
        params = stack(params)
        return cls(
            auxiliary=0,
            step=0,
            ahead=np.full(count, False),
            loss=np.zeros(count),
            members=member.MemberState(
                params, stack(prior[0]), stack(prior[1]), np.zeros(count)
            ),
            start=params,
            moments=engine.zero_moments(params),
            elbo_init=np.full(count, np.nan),
            elbo_final=np.full(count, np.nan),
            staircase={
                name: np.zeros(shape, dtype)
                for name, dtype in STAIRCASE.items()
            },
            trace_step=[],
            trace_elbo=[],
            failures={},
        )

    def to_arrays(self):
        """Returns the state as a flat dict of arrays."""
        return {
            "auxiliary": np.array(self.auxiliary),
            "step": np.array(self.step),
            **{name: np.asarray(getattr(self, name)) for name in _ARRAYS},
            **{
                f"members_{name}": np.asarray(value)
                for name, value in self.members._asdict().items()
            },
            "first_moment": np.asarray(self.moments[0]),
            "second_moment": np.asarray(self.moments[1]),
            **{f"staircase_{k}": v for k, v in self.staircase.items()},
            "trace_step": np.array(self.trace_step, np.int64),
            "trace_elbo": np.array(self.trace_elbo, np.float64),
            "failed": np.array(list(self.failures), np.int64),
            "failure": np.array(list(self.failures.values()), np.str_),
        }

    @classmethod
    def from_arrays(cls, arrays):
        """Restores what `to_arrays` returned."""
        return cls(
            auxiliary=int(arrays["auxiliary"]),
            step=int(arrays["step"]),
            **{name: arrays[name] for name in _ARRAYS},
            members=member.MemberState(**files.below(arrays, "members_")),
            moments=(arrays["first_moment"], arrays["second_moment"]),
            staircase=files.below(arrays, "staircase_"),
            trace_step=arrays["trace_step"].tolist(),
            trace_elbo=list(arrays["trace_elbo"]),
            failures={
                int(member): str(message)
                for member, message in zip(
                    arrays["failed"], arrays["failure"], strict=True
                )
            },
        )
