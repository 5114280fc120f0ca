"""Configuration of the comparison of initializers."""

import dataclasses
import math

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields

TASKS = ("curves", "toy")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the comparison of initializers."""

    tasks: tuple[str, ...] = config.field(
        TASKS,
        "curves: metrics on test data against training steps; toy: predictions "
        "of a function of one variable, before training and after it.",
        group="evaluation",
        common=True,
        check=config.not_empty(
            config.unique(config.each(config.one_of(*TASKS)))
        ),
        decides=False,
    )
    dataset: str = config.override("energy")
    systems: tuple[str, ...] = config.override(
        (
            "uninformative",
            "heuristic",
            "xavier_normal",
            "orthogonal",
            "lsuv",
            "iblm",
            "mc_dropout",
        )
    )
    seeds: int = config.override(5)
    hidden: tuple[int, ...] = config.override((100,) * 5)
    noise_scale: float = config.override(math.exp(-1.0))
    train_steps: int | None = config.override(3000)
    batch_size: int | None = config.override(64)
    learning_rate: float | None = config.override(1e-3)
    learning_rate_schedule: str = config.override("constant")
    segments: int = config.override(
        15,
        "Segments of a training: after each it is saved, and a point is added "
        "to its curve; or somewhat more.",
    )
    num_samples: int = config.override(128)
    prior_scale: str | None = config.override("he")
    test_curve: bool = config.override(True)
    toy_steps: int = config.field(
        5000,
        "Of toy: steps of training.",
        group="training",
        check=config.at_least(1),
    )
    toy_points: int = config.field(
        512,
        "Of toy: training examples.",
        group="data",
        check=config.at_least(2),
    )

    def before_data(self, kind):
        """Returns default values that the data are loaded with."""
        unseen = ("turned",) if kind == "images" else ()
        return super().before_data(kind) | {"unseen": unseen}

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        return super().after_data(kind, shape, num_examples) | {
            "dropout": 0.5 if kind == "images" else 0.1
        }
