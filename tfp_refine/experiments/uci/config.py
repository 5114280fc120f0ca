"""Configuration of the UCI experiment."""

import dataclasses
from typing import Annotated

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the UCI experiment: the sets of Havasi et al., Table 1.

    Defaults are the settings that did best on validation data, not the paper's.

    Model:
        depths (neutral): Numbers of hidden layers, all of the width of
            --hidden; several are compared.

    Training:
        seeds: Number of train-test splits; more can be added later.
    """

    depths: Annotated[tuple[fields.Count, ...], config.unique] = ()
    systems = ("vi", "longer", "refined", "deep_ensemble", "refined_ensemble")
    seeds = 5
    likelihood = "heteroscedastic"
    learning_rate = 1e-2
    learning_rate_schedule = "cosine"
    prior_scale = "1.0"

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
        return defaults | self.lengths(num_examples, 128, 20000)
