"""Configuration of the image experiment."""

import dataclasses

from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the image experiment.

    Evaluation:
        pruning: Plot the posteriors of the layers of variational systems, and
            the likelihood without the hidden units that they use least.
    """

    pruning: bool = False
    dataset = "digits"
    model = "lenet5"
    hidden = (400, 400)
    systems = ("eb", "refined(eb)")
    seeds = 1
    learning_rate_schedule = "constant"
    prior_scale = "0.1"

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        defaults = super().after_data(kind, shape, num_examples)
        is_lenet = (self.model or defaults["model"]).startswith("lenet")
        # The paper's batch and steps; on a small set 10 batches an epoch.
        batch_size = min(256, num_examples // 10)
        return {
            **defaults,
            **self.lengths(num_examples, batch_size, 30000, 500),
            "learning_rate": 3e-3 if is_lenet else 1e-3,
        }
