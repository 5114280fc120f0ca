"""Configuration of the refinement of a posterior with four modes."""

import dataclasses

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Output):
    """Configuration of the refinement of a posterior with four modes."""

    output_dir: str | None = config.override(
        "results/four_modes",
        "Folder for results.json, results.csv, the figure and all that a "
        "restart needs.",
    )
    num_members: int = config.field(
        200, "Members of the ensemble.", group="method",
        check=config.at_least(2),
    )  # fmt: skip
    variance_ratios: tuple[str, ...] = config.field(
        ("0.8",),
        "For each auxiliary variable, the part of the remaining prior variance "
        "that it takes; 0.5*10 is ten times 0.5.",
        group="method",
        check=config.not_empty(fields.ratios),
    )
    refine_steps: int = config.field(
        400,
        "Steps for each auxiliary variable and member.",
        group="method",
        check=config.at_least(1),
    )
    refine_learning_rate: float = config.field(
        0.1,
        "Adam's before each auxiliary variable; falls to 0.",
        group="method",
        check=config.positive,
    )
    num_eval_samples: int = config.field(
        1000,
        "Draws in each estimate of a bound.",
        group="evaluation",
        check=config.at_least(1),
    )
