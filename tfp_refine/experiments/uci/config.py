"""Configuration of the UCI experiment."""

import dataclasses

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the UCI experiment: that of Havasi et al., Table 1."""

    systems: tuple[str, ...] = config.override(("vi", "longer", "refined"))
    seeds: int = config.override(
        5, "Number of train-test splits; more can be added later."
    )
    depths: tuple[int, ...] = config.field(
        (),
        "Numbers of hidden layers, all of the width of --hidden; several are "
        "compared.",
        group="model",
        check=config.unique(config.each(config.at_least(1))),
        decides=False,
    )
    batch_size: int | None = config.override(256)
    learning_rate: float | None = config.override(1e-3)
    learning_rate_schedule: str = config.override("constant")
    prior_scale: str | None = config.override("1.0")
    initial_scale: float = config.override(1e-3)

    def check(self):
        """Checks fields that depend on each other."""
        super().check()
        if self.depths and len(self.hidden) != 1:
            raise ValueError(
                "--depths needs one width, --hidden. Received: "
                f"--hidden={','.join(map(str, self.hidden))}"
            )

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        defaults = super().after_data(kind, shape, num_examples)
        if self.epochs is None:
            defaults["train_steps"] = 30000
        return defaults
