"""Classifiers that are trained on labels without a meaning."""

import numpy as np
from absl import flags

from tfp_refine import datasets
from tfp_refine import functional
from tfp_refine import metrics
from tfp_refine import posteriors
from tfp_refine.experiments import posterior_record
from tfp_refine.experiments import training
from tfp_refine.experiments import uncertainty_flags
from tfp_refine.experiments import uncertainty_models

FLAGS = flags.FLAGS
# Draws of a prediction, and points of the curve or somewhat more.
_DRAWS, _POINTS = 20, 40


class RandomLabels:
    """The task "random_labels".

    Args:
        raw: `ImageData`; a part of its training images get random labels, and
            as many of its test images.

    Raises:
        ValueError: If flags do not fit the data.
    """

    def __init__(self, raw):
        data = datasets.standardized_images(raw, seed=FLAGS.seed)
        size = FLAGS.random_label_examples
        if size > len(data.x_train):
            raise ValueError(
                f"--random_label_examples must be at most {len(data.x_train)}, "
                f"the training images. Received: {size}"
            )
        rng = np.random.default_rng([FLAGS.seed, 1])
        self.num_classes = raw.num_classes
        self._train, self._test = (
            (x[:size], rng.integers(raw.num_classes, size=len(x[:size])))
            for x in (data.x_train, data.x_test)
        )
        for method in uncertainty_flags.methods():
            self._build(method)

    def run(self, folder, method):
        """Trains a method.

        Args:
            folder: `record.Folder`.
            method: Name of a method.

        Returns:
            result: Dict with the last `"train_accuracy"` and
                `"test_accuracy"`, and a `"curve"` of both against `"step"`.
        """
        x, y = self._train
        steps = FLAGS.random_label_steps
        trained = training.train(
            self._build(method),
            x,
            y,
            steps=steps,
            batch_size=uncertainty_flags.batch_size(len(x)),
            seed=functional.seeds.key(FLAGS.seed, 1),
            directory=folder.path
            / uncertainty_flags.record_name("random_labels", method),
            segment_steps=max(1, steps // _POINTS),
            observe=self._observe,
            tensorboard=FLAGS.tensorboard,
            verbose=int(FLAGS.progress),
        )
        curve = {
            key: [entry[key] for entry in trained.history]
            for key in ("step", "train_accuracy", "test_accuracy")
        }
        return {
            "train_accuracy": curve["train_accuracy"][-1],
            "test_accuracy": curve["test_accuracy"][-1],
            "curve": curve,
            **posterior_record.about(trained),
        }

    def _build(self, method):
        x, _ = self._train
        return uncertainty_models.classifier(
            method,
            x.shape[1:],
            self.num_classes,
            len(x),
            FLAGS.seed,
            log_var_init=FLAGS.random_label_log_var_init,
        )

    def _observe(self, model, entry):
        accuracies = {}
        for name, (x, y) in (("train", self._train), ("test", self._test)):
            draws = posteriors.predict(
                model,
                x,
                _DRAWS if posterior_record.is_random(model) else 1,
                seed=entry["step"],
            )
            accuracies[f"{name}_accuracy"] = metrics.accuracy(
                y, draws, from_logits=True
            )
        return accuracies
