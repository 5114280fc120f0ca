"""The state of a refinement: all that it needs to continue."""

import dataclasses

import numpy as np

from tfp_refine.functional import files
from tfp_refine.functional import large
from tfp_refine.refinement import member

# Records of each member and auxiliary variable, with their dtypes.
STAIRCASE = {
    "elbo_conditioned": np.float64,
    "elbo_aux": np.float64,
    "cost": np.float64,
    "kept": np.bool_,
}
# Attributes that are saved by their names.
_NUMBERS = ("auxiliary", "step")
_ARRAYS = ("steps", "ahead", "loss", "start", "elbo_init", "elbo_final")
_LISTS = ("checks", "trace_step", "trace_elbo")


@dataclasses.dataclass
class RefinementState:
    """State of a refinement, with `numpy` arrays, which are overwritten.

    They are 40 bytes for each weight and member, in float32; large ones are
    pages of temporary files.

    Attributes:
        auxiliary: Auxiliary variable in work, from 0 to `K`.
        step: Its optimization steps that all members have done.
        steps: Those of the auxiliary variables before, `[K]`.
        checks: Bounds `[M]` at each check of the one in work, if steps adapt.
        ahead: Whether a member has done those up to the next report, too,
            `[M]`.
        loss: Mean negative log likelihood of those, plus the scaled KL
            divergence for each example, of the members ahead, nats, `[M]`.
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
    steps: np.ndarray
    checks: list[np.ndarray]
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
    def begin(cls, starts, settings):
        """Creates the state of a refinement that has not started.

        Member `m` has the start `starts[m % len(starts)]`, a `Start`.
        """
        count = len(settings.members)
        shape = (count, len(settings.variance_ratios))
        own = _of_members(starts, settings)
        params = large.stack([one.params for one in own])
        prior_loc, prior_scale = _stacked(one.prior for one in own)
        return cls(
            auxiliary=0,
            step=0,
            steps=np.zeros(len(settings.variance_ratios), np.int64),
            checks=[],
            ahead=np.full(count, False),
            loss=np.zeros(count),
            members=member.MemberState(
                params,
                prior_loc,
                prior_scale,
                np.zeros(count),
                fixed_of(starts, settings),
                np.array(settings.kl_scale),
            ),
            start=large.zeros(params.shape, params.dtype),
            moments=tuple(
                large.zeros(params.shape, params.dtype) for _ in range(2)
            ),
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
        names = (*_NUMBERS, *_ARRAYS, *_LISTS)
        members = self.members._asdict()
        del members["fixed"]  # which is that of the start
        values = {
            **{name: getattr(self, name) for name in names},
            **{f"members_{k}": v for k, v in members.items()},
            **{f"staircase_{k}": v for k, v in self.staircase.items()},
            **files.pack(self.moments, "moment"),
            "failed": np.array(list(self.failures), np.int64),
            "failure": np.array(list(self.failures.values()), np.str_),
        }
        return {name: np.asarray(value) for name, value in values.items()}

    @classmethod
    def from_arrays(cls, arrays, fixed=()):
        """Restores a state of `to_arrays`, with the members' `fixed`."""
        failures = zip(arrays["failed"], arrays["failure"], strict=True)
        return cls(
            **{name: int(arrays[name]) for name in _NUMBERS},
            **{name: arrays[name] for name in _ARRAYS},
            **{name: list(arrays[name]) for name in _LISTS},
            members=member.MemberState(
                **files.below(arrays, "members_"), fixed=fixed
            ),
            moments=tuple(files.unpack(arrays, "moment")),
            staircase=files.below(arrays, "staircase_"),
            failures={int(index): str(text) for index, text in failures},
        )


def fixed_of(starts, settings):
    """Returns the members' fixed weights, empty if they do not differ."""
    if len(starts) == 1:
        return ()
    return _stacked(one.fixed for one in _of_members(starts, settings))


def _of_members(starts, settings):
    return [starts[member % len(starts)] for member in settings.members]


def _stacked(rows):
    """Stacks lists of arrays, one for each member, to a tuple of `[M, ...]`."""
    return tuple(map(large.stack, zip(*rows, strict=True)))
