"""Configuration of the refinement of a posterior with four modes."""

import dataclasses

from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Output):
    """Configuration of the refinement of a posterior with four modes.

    Method:
        num_members: Members of the ensemble.
        variance_ratios: For each auxiliary variable, the part of the remaining
            prior variance that it takes; 0.5*10 is ten times 0.5.
        refine_steps: Steps for each auxiliary variable and member.
        refine_learning_rate: Adam's before each auxiliary variable; falls to 0.

    Evaluation:
        num_eval_samples: Draws in each estimate of a bound.

    Output:
        output_dir: Folder for results.json, results.csv, the figure and all
            that a restart needs.
    """

    output_dir = "results/four_modes"
    num_members: fields.Pair = 200
    variance_ratios: fields.Ratios = ("0.8",)
    refine_steps: fields.Count = 400
    refine_learning_rate: fields.Positive = 0.1
    num_eval_samples: fields.Count = 1000
