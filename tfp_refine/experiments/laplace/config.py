"""Configuration of the Laplace experiment."""

import dataclasses
import typing
from typing import Annotated
from typing import Literal

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields

Task = Literal["comparison", "toy", "integration"]
_LENGTHS = (1, 5, 10, 30)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the Laplace experiment.

    Data:
        toy_points (neutral): Of toy: training examples.

    Training:
        toy_steps (neutral): Of toy: training steps of the factorized posterior.

    Method:
        tasks (common, neutral): Tasks, of comparison, toy, integration:
            compare posteriors of the weights of a trained network; draw the
            posterior of a logistic regression with two weights; measure the
            errors with which predictions are integrated. Each has a folder
            below --output_dir.
        systems: Systems to fit, see --list; they combine, as in
            flows(laplace_all). nuts is the reference of the distances (MMD).
            toy takes flows and refined that start from laplace.
        toy_prior_scale (neutral): Of toy: standard deviation of the prior of
            each weight.
    """

    tasks: fields.Chosen[Task] = typing.get_args(Task)
    dataset = "digits"
    hidden = (64,)
    systems = (
        "map",
        "temperature",
        "laplace",
        *(f"flows(flow_length={length})" for length in _LENGTHS),
        *(
            f"flows(flow_base=standard_normal, flow_length={length})"
            for length in _LENGTHS
        ),
        "nuts",
    )
    seeds = 1
    learning_rate = 1e-3
    prior_scale = "1.0"
    nuts_warmup = 300
    nuts_samples = 300
    nuts_max_tree_depth = 10
    num_samples = 200
    unseen = None
    rotations = fields.ANGLES
    toy_points: Annotated[int, config.at_least(4)] = 50
    toy_prior_scale: fields.Positive = 10.0
    toy_steps: fields.Count = 3000

    def before_data(self, kind):
        """Returns defaults; temperatures need validation data."""
        return fields.of_classifiers(kind)

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        defaults = super().after_data(kind, shape, num_examples)
        if kind == "images":
            defaults["model"] = "lenet5"
        # The paper's batch and epochs.
        batch_size = min(128, num_examples)
        return defaults | self.lengths(num_examples, batch_size, 30000, 100)
