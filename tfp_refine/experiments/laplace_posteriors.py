"""The posteriors that are compared: each is made once, and kept in a file."""

import functools

import numpy as np
from absl import flags
from absl import logging

from tfp_refine import ensembles
from tfp_refine import functional
from tfp_refine import laplace
from tfp_refine import posteriors
from tfp_refine import sampling
from tfp_refine.experiments import laplace_flags
from tfp_refine.experiments import posterior_diagnostics
from tfp_refine.laplace import refinement

FLAGS = flags.FLAGS
# Random streams, each with a number of its own below the seed.
_REFINEMENT, _NUTS, _ELBO, _TUNING = range(10, 14)
_ELBO_DRAWS = 100


class Posteriors:
    """Posteriors of the weights of one trained model.

    Args:
        model: Trained `keras.Model`.
        data: `class_data.Data`.
        folder: `record.Folder`.
    """

    def __init__(self, model, data, folder):
        self._model, self._data, self._folder = model, data, folder

    def get(self, system):
        """Makes or loads a posterior.

        Args:
            system: Name of a system.

        Returns:
            posterior: What has a method `predict_proba`.
            about: Dict of floats: `"seconds"` that it took, and what is to be
                said of it.
        """
        method, length = laplace_flags.split(system)
        if method == "map":
            return ensembles.TemperatureScaling(self._model), {}
        name = laplace_flags.record_name("posteriors", system)
        path = self._folder.path / f"{name}.posterior"
        make = {
            "temperature": self._make_temperature,
            "laplace": self._make_laplace,
            "refined": functools.partial(self._make_flow, "laplace", length),
            "from_scratch": functools.partial(
                self._make_flow, "standard_normal", length
            ),
            "nuts": self._make_nuts,
        }[method]
        if method not in ("temperature", "laplace"):
            self.laplace.check_data()  # not in the time of others

        def compute():
            logging.info("%s", system)
            path.parent.mkdir(parents=True, exist_ok=True)
            posterior, about = make()
            posterior.save(path)
            return about

        if not path.exists():  # whatever its record says
            path.with_suffix(".json").unlink(missing_ok=True)
        about = self._folder.once(name, compute)
        load = posteriors.load_posterior
        if method == "temperature":
            load = ensembles.TemperatureScaling.load
        try:
            return load(path, self._model), about
        except ValueError as error:
            raise ValueError(
                f"{error} Remove the file to compute it anew."
            ) from error

    @functools.cached_property
    def laplace(self):
        """Laplace's approximation, with its training data."""
        posterior, _ = self.get("laplace")
        return posterior.set_data(*self._data.train)

    def elbo(self, posterior):
        """Estimates a posterior's bound.

        Args:
            posterior: `Laplace` or `FlowPosterior`.

        Returns:
            about: Dict with the `"elbo"`, nats, and its
                `"elbo_standard_error"`.
        """
        posterior.inputs = self.laplace.inputs
        posterior.targets = self.laplace.targets
        draws = posterior.elbo(
            _ELBO_DRAWS, seed=functional.seeds.key(FLAGS.seed, _ELBO)
        )
        error = np.std(draws, ddof=1) / np.sqrt(len(draws))
        return {
            "elbo": float(np.mean(draws)),
            "elbo_standard_error": float(error),
        }

    def _make_temperature(self):
        scaled = ensembles.TemperatureScaling(self._model)
        scaled.fit(*self._data.validation)
        return scaled, {"temperature": scaled.temperature}

    def _make_laplace(self):
        verbose = int(FLAGS.progress)
        posterior = _laplace_class()(
            self._model, "classification", **_options()
        )
        posterior.fit(*self._data.train, verbose=verbose)
        rule = laplace_flags.prior_precision()
        if rule in laplace_flags.RULES:
            posterior.optimize_prior_precision(
                rule,
                validation_data=self._data.validation,
                predictive=FLAGS.predictive,
                num_samples=FLAGS.num_samples,
                seed=functional.seeds.key(FLAGS.seed, _TUNING),
                verbose=verbose,
            )
        else:
            posterior.prior_precision = rule
        return posterior, {
            "prior_precision": posterior.prior_precision,
            "log_marginal_likelihood": posterior.log_marginal_likelihood(),
        }

    def _make_flow(self, base, length):
        refined = refinement.refine(
            self.laplace,
            seed=functional.seeds.key(FLAGS.seed, _REFINEMENT),
            **laplace_flags.refinement_options(length, base),
        )
        num_params = posterior_diagnostics.num_params(refined)
        return refined, {"num_params": float(num_params)}

    def _make_nuts(self):
        samples = sampling.nuts(
            self.laplace,
            seed=functional.seeds.key(FLAGS.seed, _NUTS),
            **laplace_flags.nuts_options(),
        )
        return samples, posterior_diagnostics.diagnostics(samples)


def _laplace_class():
    if FLAGS.layers == "all":
        return laplace.DiagonalLaplace
    return laplace.LastLayerLaplace


def _options():
    return {} if FLAGS.layers == "all" else {"hessian": FLAGS.hessian}
