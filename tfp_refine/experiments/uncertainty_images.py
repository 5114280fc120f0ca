"""Classifiers before unseen classes and before perturbed images."""

import functools

import numpy as np
from absl import flags

from tfp_refine import datasets
from tfp_refine import functional
from tfp_refine import metrics
from tfp_refine import posteriors
from tfp_refine.experiments import image_evaluation
from tfp_refine.experiments import other_images
from tfp_refine.experiments import posterior_record
from tfp_refine.experiments import record
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import training
from tfp_refine.experiments import uncertainty_flags
from tfp_refine.experiments import uncertainty_models

FLAGS = flags.FLAGS
# Examples computed at a time.
_BLOCK = 500


class Images:
    """The tasks "unseen" and "attack", on the same trained classifiers.

    Args:
        raw: `ImageData`.

    Raises:
        ValueError: If flags do not fit the data, or each other.
    """

    def __init__(self, raw):
        known, unseen = _split(raw)
        self._raw = known
        self._data = datasets.standardized_images(known, seed=FLAGS.seed)
        self._unseen = (
            datasets.standardize_pixels(unseen, self._data.scaler)
            if FLAGS.unseen_dataset is None
            else other_images.load(
                "unseen_dataset",
                FLAGS.unseen_dataset,
                FLAGS.dataset,
                raw.x_test,
                self._data.scaler,
                FLAGS.data_dir,
                FLAGS.download,
            )
        )
        self._epsilons = run_flags.numbers("epsilons", float)
        if "attack" in FLAGS.task and raw.x_test.dtype != np.uint8:
            raise ValueError(
                "--task=attack needs a --dataset of uint8 pixels, whose range "
                f"is known. Received: {raw.x_test.dtype}"
            )
        for method in uncertainty_flags.methods():
            self._build(method)

    @property
    def digest(self):
        """Text that tells unseen images apart."""
        return record.digest(self._unseen)

    def unseen(self, folder, method):
        """Looks at known and unseen images.

        Args:
            folder: `record.Folder`.
            method: Name of a method.

        Returns:
            result: Dict of metrics, and of `"entropies"` of both sets.
        """
        trained = self._trained(folder, method)
        draws = self._draws(trained.model, self._data.x_test)
        other = self._draws(trained.model, self._unseen)
        return {
            **image_evaluation.test_metrics(
                draws, self._data.y_test, min(10, len(draws))
            ),
            **image_evaluation.out_of_distribution_metrics(draws, other),
            "unseen_entropy": float(
                np.mean(metrics.predictive_entropy(other, from_logits=True))
            ),
            "entropies": {
                "test images": image_evaluation.entropies(draws),
                "unseen classes"
                if FLAGS.unseen_dataset is None
                else FLAGS.unseen_dataset: image_evaluation.entropies(other),
            },
            **posterior_record.about(trained),
        }

    def attack(self, folder, method):
        """Looks at images that are perturbed by the sign of a gradient.

        Args:
            folder: `record.Folder`.
            method: Name of a method.

        Returns:
            result: Dict with a `"curve"`: lists `"epsilon"`, `"accuracy"`,
                `"entropy"` and `"mll"` (nats).
        """
        model = self._trained(folder, method).model
        few = slice(FLAGS.attack_examples)
        raw, labels = self._raw.x_test[few], self._data.y_test[few]
        signs = posteriors.fast_gradient_sign(
            model,
            self._data.x_test[few],
            labels,
            FLAGS.attack_samples if posterior_record.is_random(model) else 1,
            # Not the draws that the attack is judged by.
            seed=functional.seeds.key(FLAGS.seed, 3),
            batch_size=_BLOCK,
        )
        curve = {"epsilon": self._epsilons}
        for epsilon in self._epsilons:
            pixels = np.clip(raw + 255.0 * epsilon * signs, 0.0, 255.0)
            draws = self._draws(
                model, datasets.standardize_pixels(pixels, self._data.scaler)
            )
            values = image_evaluation.test_metrics(draws, labels, 1)
            for name in ("accuracy", "entropy", "mll"):
                curve.setdefault(name, []).append(values[name])
        return {"curve": curve}

    def _build(self, method):
        data = self._data
        return uncertainty_models.classifier(
            method,
            data.x_train.shape[1:],
            data.num_classes,
            len(data.x_train),
            FLAGS.seed,
        )

    def _trained(self, folder, method):
        """Returns a method's training, from its file if there is one."""
        data = self._data
        size = len(data.x_train)
        return training.train(
            self._build(method),
            data.x_train,
            data.y_train,
            steps=uncertainty_flags.train_steps(size),
            batch_size=uncertainty_flags.batch_size(size),
            seed=functional.seeds.key(FLAGS.seed),
            directory=folder.path / "training" / method,
            segment_steps=FLAGS.checkpoint_steps,
            observe=functools.partial(posterior_record.kl_and_elbo, size),
            tensorboard=FLAGS.tensorboard,
            verbose=int(FLAGS.progress),
        )

    def _draws(self, model, x):
        return posteriors.predict(
            model,
            x,
            FLAGS.num_samples if posterior_record.is_random(model) else 1,
            seed=FLAGS.seed,
            batch_size=_BLOCK,
        )


def _split(raw):
    """Returns the data of the classes to learn, and images of the others."""
    if FLAGS.classes is None:
        if FLAGS.unseen_dataset is not None:
            return raw, None
        return datasets.split_classes(raw, range(raw.num_classes // 2))
    classes = run_flags.numbers("classes", int)
    try:
        return datasets.split_classes(raw, classes)
    except ValueError as error:
        raise ValueError(f"--classes: {error}") from error
