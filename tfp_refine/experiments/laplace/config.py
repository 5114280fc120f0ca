"""Configuration of the Laplace experiment."""

import dataclasses

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields

TASKS = ("comparison", "toy", "integration")
_LENGTHS = (1, 5, 10, 30)
# The paper's batch and epochs, and most steps.
_BATCH, _EPOCHS, _MAX_STEPS = 128, 100, 30000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the Laplace experiment."""

    tasks: tuple[str, ...] = config.field(
        TASKS,
        f"What to do, of {', '.join(TASKS)}: compare posteriors of the weights "
        "of a trained network; draw the posterior of a logistic regression "
        "with two weights; measure the errors with which predictions are "
        "integrated. Several have a folder each below --output_dir.",
        group="method",
        common=True,
        check=config.not_empty(
            config.unique(config.each(config.one_of(*TASKS)))
        ),
        decides=False,
    )
    dataset: str = config.override("digits")
    hidden: tuple[int, ...] = config.override((64,))
    systems: tuple[str, ...] = config.override(
        (
            "map",
            "temperature",
            "laplace",
            *(f"flows(flow_length={length})" for length in _LENGTHS),
            *(
                f"flows(flow_base=standard_normal, flow_length={length})"
                for length in _LENGTHS
            ),
            "nuts",
        ),
        "Systems to fit, see --list; they combine, as in flows(laplace_all). "
        "nuts is the reference of the distances (MMD). toy takes the flows "
        "that start from laplace.",
    )
    seeds: int = config.override(1)
    learning_rate: float | None = config.override(1e-3)
    prior_scale: str | None = config.override("1.0")
    nuts_warmup: int = config.override(300)
    nuts_samples: int = config.override(300)
    nuts_max_tree_depth: int = config.override(10)
    num_samples: int = config.override(200)
    rotations: tuple[float, ...] = config.override(
        (15.0, 30.0, 45.0, 60.0, 75.0, 90.0)
    )
    toy_points: int = config.field(
        50,
        "Of toy: training examples.",
        group="data",
        check=config.at_least(4),
        decides=False,
    )
    toy_prior_scale: float = config.field(
        10.0,
        "Of toy: standard deviation of the prior of each weight.",
        group="method",
        check=config.positive,
        decides=False,
    )
    toy_steps: int = config.field(
        3000,
        "Of toy: training steps of the factorized posterior.",
        group="training",
        check=config.at_least(1),
        decides=False,
    )

    def before_data(self, kind):
        """Returns defaults; temperatures need validation data."""
        return {
            "validation_fraction": 0.0 if kind == "regression" else 0.1,
            "unseen": {
                "regression": (),
                "images": ("turned", "shuffled"),
            }.get(kind, ("shuffled",)),
        }

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        usual = super().after_data(kind, shape, num_examples)
        batch_size = min(self.batch_size or _BATCH, num_examples)
        per_epoch = max(1, num_examples // batch_size)
        steps = min(_MAX_STEPS, _EPOCHS * per_epoch)
        if self.epochs is not None:
            steps = self.epochs * per_epoch
        return usual | {
            "model": "lenet5" if kind == "images" else usual["model"],
            "batch_size": batch_size,
            "train_steps": steps,
        }
