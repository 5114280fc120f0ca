"""Configuration of the image experiment."""

import dataclasses

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields

# The paper's steps and batch; on a small set as many steps as these epochs
# have, and as many batches an epoch.
_MAX_STEPS, _MAX_EPOCHS = 30000, 500
_MAX_BATCH, _MIN_BATCHES = 256, 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the image experiment."""

    dataset: str = config.override("digits")
    model: str | None = config.override("lenet5")
    hidden: tuple[int, ...] = config.override((400, 400))
    systems: tuple[str, ...] = config.override(("eb", "refined(eb)"))
    seeds: int = config.override(1)
    learning_rate_schedule: str = config.override("constant")
    prior_scale: str | None = config.override("0.1")
    pruning: bool = config.field(
        False,
        "Plot the posteriors of the layers of variational systems, and the "
        "likelihood without the hidden units that they use least.",
        group="evaluation",
    )

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        usual = max(1, min(_MAX_BATCH, num_examples // _MIN_BATCHES))
        batch_size = self.batch_size or usual
        per_epoch = max(1, num_examples // batch_size)
        steps = min(_MAX_STEPS, _MAX_EPOCHS * per_epoch)
        is_lenet = self.model.startswith("lenet")
        return super().after_data(kind, shape, num_examples) | {
            "batch_size": batch_size,
            "train_steps": steps
            if self.epochs is None
            else self.epochs * per_epoch,
            "learning_rate": 3e-3 if is_lenet else 1e-3,
        }
