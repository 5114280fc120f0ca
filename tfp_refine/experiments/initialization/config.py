"""Configuration of the comparison of initializers."""

import dataclasses
import math
import typing
from typing import Literal

from tfp_refine.experiments.harness import fields

Task = Literal["curves", "toy"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the comparison of initializers.

    Data:
        toy_points: Of toy: training examples.

    Training:
        segments: Segments of a training: after each it is saved, and a point is
            added to its curve; or somewhat more.
        toy_steps: Of toy: steps of training.

    Evaluation:
        tasks (common, neutral): curves: metrics on test data against training
            steps; toy: predictions of a function of one variable, before
            training and after it.
    """

    tasks: fields.Chosen[Task] = typing.get_args(Task)
    dataset = "energy"
    systems = (
        "uninformative", "heuristic", "xavier_normal", "orthogonal", "lsuv",
        "iblm", "mc_dropout",
    )  # fmt: skip
    seeds = 5
    hidden = (100,) * 5
    noise_scale = math.exp(-1.0)
    train_steps = 3000
    batch_size = 64
    learning_rate = 1e-3
    learning_rate_schedule = "constant"
    segments = 15
    num_samples = 128
    prior_scale = "he"
    test_curve = True
    unseen = None
    toy_steps: fields.Count = 5000
    toy_points: fields.Pair = 512

    def before_data(self, kind):
        """Returns default values that the data are loaded with."""
        unseen = ("turned",) if kind == "images" else ()
        return super().before_data(kind) | {"unseen": unseen}

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        defaults = super().after_data(kind, shape, num_examples)
        if kind == "images":
            return defaults | {"model": "lenet5", "dropout": 0.5}
        return defaults | {"dropout": 0.1}
