"""Configuration of the UCI experiment."""

import dataclasses
from typing import Annotated

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the UCI experiment: that of Havasi et al., Table 1.

    Model:
        depths (neutral): Numbers of hidden layers, all of the width of
            --hidden; several are compared.

    Training:
        seeds: Number of train-test splits; more can be added later.
    """

    depths: Annotated[tuple[fields.Count, ...], config.unique] = ()
    systems = ("vi", "longer", "refined")
    seeds = 5
    batch_size = 256
    learning_rate = 1e-3
    learning_rate_schedule = "constant"
    prior_scale = "1.0"
    initial_scale = 1e-3

    def check(self):
        """Checks fields that depend on each other."""
        super().check()
        if self.depths and len(self.hidden) != 1:
            raise ValueError(
                "--depths needs one width, --hidden. Received: "
                f"--hidden={config.to_text(self.hidden)}"
            )

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        defaults = super().after_data(kind, shape, num_examples)
        return defaults | self.lengths(num_examples, 64, 30000)
