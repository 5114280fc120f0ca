"""Posteriors of the weights of a trained classifier, compared."""

import numpy as np
from absl import flags
from absl import logging

from tfp_refine import functional
from tfp_refine import metrics
from tfp_refine.experiments import image_evaluation
from tfp_refine.experiments import laplace_data
from tfp_refine.experiments import laplace_flags
from tfp_refine.experiments import laplace_models
from tfp_refine.experiments import laplace_posteriors
from tfp_refine.experiments import record

FLAGS = flags.FLAGS
# Random streams, each with a number of its own below the seed.
_PREDICTIONS, _DISTANCES = range(20, 22)
_SHOWN = ("accuracy", "ece", "brier", "entropy")


class Comparison:
    """The task "comparison"; all that can be wrong is found here.

    Attributes:
        decisive: Dict of what decides results, besides flags.

    Raises:
        ValueError: If flags do not fit the data, or each other.
    """

    def __init__(self):
        self._data = laplace_data.load()
        self._model = (
            laplace_models.load(self._data)
            if laplace_models.is_file()
            else laplace_models.build(self._data)
        )
        self.decisive = {"data": self._data.digest}
        if laplace_models.is_file():
            self.decisive["weights"] = record.digest(*self._model.get_weights())

    def run(self, folder):
        """Makes and evaluates what is missing.

        Args:
            folder: `record.Folder`.

        Returns:
            results: Dict from a system to its result.
        """
        model, about_training = self._model, {}
        if not laplace_models.is_file():
            trained = laplace_models.train(
                model, self._data, folder.path / "training"
            )
            model = trained.model
            about_training = {
                "seconds": sum(e["seconds"] for e in trained.history)
            }
        posteriors = laplace_posteriors.Posteriors(model, self._data, folder)
        results = {}
        for system in laplace_flags.systems():
            try:
                posterior, about = posteriors.get(system)
            except ValueError as error:
                if system != "temperature":
                    raise
                # As for small sets that are all classified right.
                logging.warning("Left out: temperature. %s", error)
                continue
            if system == "map":
                about = about_training
            results[system] = {
                **self._once(
                    folder, "metrics", system, self._evaluate, system, posterior
                ),
                **self._once(
                    folder, "bounds", system, self._bound, posterior, posteriors
                ),
                **about,
            }
        if not results:
            raise ValueError(
                "--method=temperature alone has nothing to compare: no "
                "temperature was found."
            )
        if "nuts" in FLAGS.method:
            halves = self._halves(posteriors.get("nuts")[0])
            for system, result in results.items():
                result |= self._once(
                    folder, "distances", system, self._distance, system,
                    posteriors, halves,
                )  # fmt: skip
        return results

    def _once(self, folder, kind, system, compute, *arguments):
        """Returns a record, without the time that it took."""
        digests = []
        if kind == "metrics":
            digests = [
                [name, record.digest(x)]
                for name, x in self._data.unseen.items()
            ]

        def announced():
            logging.info("%s of %s", kind, system)
            return compute(*arguments)

        name = laplace_flags.record_name(kind, system, *digests)
        found = dict(folder.once(name, announced))
        del found["seconds"]
        return found

    # What is measured.

    def _evaluate(self, system, posterior):
        x, labels = self._data.test
        logits = self._logits(system, posterior, x)
        scores = image_evaluation.test_metrics(logits, labels, 1)
        result = {
            "nll": -scores["mll"],
            **{name: scores[name] for name in _SHOWN},
            "calibration": image_evaluation.calibration(logits, labels),
            "entropies": {"test": image_evaluation.entropies(logits)},
            "unseen": {},
            "shifts": [],
        }
        for name, other in self._data.unseen.items():
            others = self._logits(system, posterior, other)
            result["entropies"][name] = image_evaluation.entropies(others)
            result["unseen"][name] = (
                image_evaluation.out_of_distribution_metrics(logits, others)
            )
        for name, strength, images in self._data.shifted():
            scores = image_evaluation.test_metrics(
                self._logits(system, posterior, images),
                labels[: len(images)],
                1,
            )
            result["shifts"].append(
                {
                    "shift": name,
                    "strength": strength,
                    "nll": -scores["mll"],
                    **{key: scores[key] for key in _SHOWN},
                }
            )
        return result

    def _logits(self, system, posterior, x):
        """Computes averaged predictions: logarithms are their logits."""
        options = {}
        if hasattr(posterior, "sample"):
            options = {
                "num_samples": FLAGS.num_samples,
                "seed": functional.seeds.key(FLAGS.seed, _PREDICTIONS),
            }
        if system == "laplace":
            options["method"] = FLAGS.predictive
        probs = posterior.predict_proba(x, **options)[np.newaxis]
        return np.log(np.maximum(probs, np.finfo(probs.dtype).tiny))

    def _bound(self, posterior, posteriors):
        if not hasattr(posterior, "elbo"):
            return {}
        return posteriors.elbo(posterior)

    def _halves(self, samples):
        """Splits the reference: each second chain, or each second sample."""
        theta = np.asarray(samples.samples, np.float64)
        axis = 1 if theta.shape[1] > 1 else 0
        return [
            half.reshape(-1, theta.shape[-1])
            for half in (
                np.take(theta, range(first, theta.shape[axis], 2), axis)
                for first in range(2)
            )
        ]

    def _distance(self, system, posteriors, halves):
        """Computes the distance to half of the reference."""
        reference, other = halves
        posterior, _ = posteriors.get(system)
        if system == "nuts":
            samples = other
        elif hasattr(posterior, "sample"):
            samples = posterior.sample(
                len(reference),
                seed=functional.seeds.key(FLAGS.seed, _DISTANCES),
            )
        elif system == "map":
            samples = posteriors.laplace.loc[np.newaxis]
        else:
            return {}
        return {"mmd": metrics.mmd(reference, samples)}
