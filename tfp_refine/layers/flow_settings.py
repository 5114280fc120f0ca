"""Arguments of the layers with multiplicative normalizing flows."""

import dataclasses
import math

from tfp_refine import _validation
from tfp_refine.layers import flow_weights

_AUXILIARY = ("log_precision", "paper")
_ESTIMATORS = ("local_reparameterization", "reparameterization")
_MAX_LOG_VAR = 40


@dataclasses.dataclass
class FlowSettings:
    """Checked arguments of layers with multiplicative normalizing flows."""

    flow_length: int
    flow_units: int
    auxiliary_flow_length: int
    auxiliary_flow_units: int
    masks: str
    auxiliary: str
    log_var_init: float
    z_var_init: float
    max_std: float | None
    inference_estimator: str

    def __post_init__(self) -> None:
        for name in ("flow_length", "auxiliary_flow_length"):
            length = _validation.not_negative_integer(name, getattr(self, name))
            setattr(self, name, length)
        for name in ("flow_units", "auxiliary_flow_units"):
            units = _validation.positive_integer(name, getattr(self, name))
            setattr(self, name, units)
        _validation.one_of("masks", self.masks, flow_weights.MASKS)
        _validation.one_of("auxiliary", self.auxiliary, _AUXILIARY)
        _validation.one_of(
            "inference_estimator", self.inference_estimator, _ESTIMATORS
        )
        self.z_var_init = _validation.positive("z_var_init", self.z_var_init)
        if self.max_std is not None:
            self.max_std = _validation.positive("max_std", self.max_std)
        self.log_var_init = _validation.finite(
            "log_var_init", self.log_var_init
        )
        if abs(self.log_var_init) > _MAX_LOG_VAR:
            raise ValueError(
                f"`log_var_init` must be in [-{_MAX_LOG_VAR}, {_MAX_LOG_VAR}]. "
                f"Received: log_var_init={self.log_var_init}"
            )

    @property
    def initial_scale(self) -> float:
        """Initial standard deviation of weights given the multipliers."""
        return math.exp(0.5 * self.log_var_init)
