"""Configuration of the uncertainty experiment."""

import dataclasses

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields

TASKS = ("unseen", "attack", "random_labels", "cubic")
# The paper's batch and, on a small set, as many steps as these epochs have.
_MAX_BATCH, _MIN_BATCHES = 100, 10
_MAX_STEPS, _MAX_EPOCHS = 30000, 500
# Pixels of a side from which on the paper's network fits.
_SIDE_OF_CAFFE = 28


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the uncertainty experiment."""

    tasks: tuple[str, ...] = config.field(
        TASKS,
        "unseen: predictive entropies on classes that were not trained on, or "
        "on --unseen; attack: images perturbed by the sign of their gradient; "
        "random_labels: training on labels that were drawn at random; cubic: "
        "a regression on 20 points of a cubic function.",
        group="evaluation",
        common=True,
        check=config.not_empty(
            config.unique(config.each(config.one_of(*TASKS)))
        ),
        decides=False,
    )
    dataset: str = config.override("digits")
    classes: tuple[int, ...] = config.override(
        (),
        "Classes of images to train on; the others become the unseen set "
        "'other_classes'. Defaults to all with --unseen, else to the first "
        "half.",
    )
    model: str | None = config.override(
        None,
        "mlp, lenet5, or the paper's: lenet5_caffe for MNIST, lenet5_wide for "
        "CIFAR-10. Defaults to lenet5_caffe, or to lenet5 for images smaller "
        "than 28 pixels.",
    )
    hidden: tuple[int, ...] = config.override((400, 400))
    systems: tuple[str, ...] = config.override(("map", "ffg", "mnf"))
    seeds: int = config.override(1)
    learning_rate: float | None = config.override(1e-3)
    learning_rate_schedule: str = config.override("constant")
    prior_scale: str | None = config.override("1.0")
    max_std: float | None = config.override(0.5)
    epsilons: tuple[float, ...] = config.field(
        (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
        "Of attack: strengths, as parts of the range of a pixel.",
        group="evaluation",
        check=config.not_empty(config.unique(config.each(config.not_negative))),
    )
    attack_samples: int = config.field(
        20,
        "Of attack: draws that the gradient averages.",
        group="evaluation",
        check=config.at_least(1),
    )
    attack_examples: int = config.field(
        1000,
        "Of attack: number of test images.",
        group="evaluation",
        check=config.at_least(1),
    )
    random_label_examples: int = config.field(
        500,
        "Of random_labels: training images, and at most as many test images.",
        group="data",
        check=config.at_least(1),
    )
    random_label_steps: int = config.field(
        3000,
        "Of random_labels: steps of training.",
        group="training",
        check=config.at_least(1),
    )
    random_label_log_var_init: float = config.field(
        -1.0,
        "Of random_labels: in place of --log_var_init. Posteriors that start "
        "narrow remember the labels, and forget them as they widen.",
        group="training",
    )
    cubic_steps: int = config.field(
        10000,
        "Of cubic: steps of training.",
        group="training",
        check=config.at_least(1),
    )
    cubic_units: int = config.field(
        100,
        "Of cubic: hidden units.",
        group="model",
        check=config.at_least(1),
    )

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        usual = max(1, min(_MAX_BATCH, num_examples // _MIN_BATCHES))
        batch_size = self.batch_size or usual
        per_epoch = max(1, num_examples // batch_size)
        steps = min(_MAX_STEPS, _MAX_EPOCHS * per_epoch)
        is_large = min(shape[:2]) >= _SIDE_OF_CAFFE
        return super().after_data(kind, shape, num_examples) | {
            "model": "lenet5_caffe" if is_large else "lenet5",
            "batch_size": batch_size,
            "train_steps": steps
            if self.epochs is None
            else self.epochs * per_epoch,
        }
