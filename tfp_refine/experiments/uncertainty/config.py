"""Configuration of the uncertainty experiment."""

import dataclasses
import typing
from typing import Literal

from tfp_refine.experiments.harness import fields

Task = Literal["unseen", "attack", "random_labels", "cubic"]
# Pixels of a side from which on the paper's network fits.
_SIDE_OF_CAFFE = 28


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the uncertainty experiment.

    Data:
        classes: Classes of images to train on; the others become the unseen set
            'other_classes'. Defaults to all with --unseen, else to the first
            half.
        random_label_examples: Of random_labels: training images, and at most as
            many test images.

    Model:
        model: mlp, lenet5, or the paper's: lenet5_caffe for MNIST, lenet5_wide
            for CIFAR-10. Defaults to lenet5_caffe, or to lenet5 for images
            smaller than 28 pixels.
        cubic_units: Of cubic: hidden units.

    Training:
        random_label_steps: Of random_labels: steps of training.
        random_label_log_var_init: Of random_labels: in place of --log_var_init.
            Posteriors that start narrow remember the labels, and forget them as
            they widen.
        cubic_steps: Of cubic: steps of training.

    Evaluation:
        tasks (common, neutral): unseen: predictive entropies on classes that
            were not trained on, or on --unseen; attack: images perturbed by the
            sign of their gradient; random_labels: training on labels that were
            drawn at random; cubic: a regression on 20 points of a cubic
            function.
        epsilons: Of attack: strengths, as parts of the range of a pixel.
        attack_samples: Of attack: draws that the gradient averages.
        attack_examples: Of attack: number of test images.
    """

    tasks: fields.Chosen[Task] = typing.get_args(Task)
    dataset = "digits"
    hidden = (400, 400)
    systems = ("map", "ffg", "mnf")
    seeds = 1
    learning_rate = 1e-3
    learning_rate_schedule = "constant"
    prior_scale = "1.0"
    max_std = 0.5
    unseen = None
    epsilons: fields.Chosen[fields.NotNegative] = (
        0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5
    )  # fmt: skip
    attack_samples: fields.Count = 20
    attack_examples: fields.Count = 1000
    random_label_examples: fields.Count = 500
    random_label_steps: fields.Count = 3000
    random_label_log_var_init: float = -1.0
    cubic_steps: fields.Count = 10000
    cubic_units: fields.Count = 100

    def after_data(self, kind, shape, num_examples):
        """Returns default values that depend on the data."""
        is_large = min(shape[:2]) >= _SIDE_OF_CAFFE
        # The paper's batch and steps; on a small set 10 batches an epoch.
        batch_size = min(100, num_examples // 10)
        return {
            **super().after_data(kind, shape, num_examples),
            **self.lengths(num_examples, batch_size, 30000, 500),
            "model": "lenet5_caffe" if is_large else "lenet5",
        }
