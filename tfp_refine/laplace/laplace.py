"""Laplace's approximation: its prior, predictions, refinement and files."""

import copy

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.laplace import curvature_posterior
from tfp_refine.laplace import evidence
from tfp_refine.laplace import flows
from tfp_refine.laplace import grid_search
from tfp_refine.laplace import predictives
from tfp_refine.laplace import refinement

# What `refine` does by default, by the space of the flows.
_NUM_SAMPLES = {"paper": 1, "whitened": 16}
_LEARNING_RATES = {"paper": 1e-3, "whitened": 0.1}


class Laplace(curvature_posterior.CurvaturePosterior):
    """What users do with a Gaussian posterior of trained weights.

    A subclass says which weights these are, and how the Hessian is
    approximated.
    """

    def optimize_prior_precision(
        self,
        method="marginal_likelihood",
        *,
        tune_noise=True,
        validation_data=None,
        grid=None,
        predictive="mc",
        num_samples=20,
        seed=0,
        verbose=1,
    ):
        """Chooses the prior's precision, and the noise of a regression.

        Args:
            method: "marginal_likelihood", where the evidence is greatest (the
                fixed point of MacKay); or "grid_search", where the negative log
                likelihood of validation data is least.
            tune_noise: Whether "marginal_likelihood" chooses the noise of a
                regression too. Defaults to `True`.
            validation_data: `(x, y)`, of "grid_search".
            grid: Precisions that "grid_search" tries; 100 from 1e-4 to 1e4 if
                `None`. Those with an infinite likelihood lose.
            predictive: Method of `predict` that it judges: the one that you
                will use.
            num_samples: Draws of "mc" and "linearized", the same for all
                precisions.
            seed: Integer that fixes them.
            verbose: As for `fit`, of "grid_search".

        Returns:
            prior_precision: Float; also the attribute, from now on.

        Raises:
            ValueError: If it is not fitted, an argument is invalid, or no
                precision has a finite likelihood; the attributes are as before.
        """
        _validation.one_of(
            "method", method, ("marginal_likelihood", "grid_search")
        )
        self._check_fitted()
        if method == "grid_search":
            self._prior_precision = grid_search.best_prior_precision(
                self,
                validation_data,
                grid,
                predictive,
                num_samples,
                seed,
                verbose,
            )
            return self._prior_precision

        def best(noise_scale):
            return evidence.best_prior_precision(
                self._eigenvalues(noise_scale), np.sum(np.square(self._mean))
            )

        if tune_noise and self._kind == "regression":
            self.noise_scale = evidence.best_noise_scale(
                lambda noise: self.log_marginal_likelihood(best(noise), noise),
                start=np.sqrt(max(self._statistic, 1e-12) / self._count),
            )
        self._prior_precision = best(self._noise_scale)
        return self._prior_precision

    # Predictions.

    def predict(
        self,
        x,
        method="mc",
        num_samples=100,
        seed=None,
        *,
        batch_size=1024,
        average=False,
    ):
        """Draws, or computes, class probabilities or means of a regression.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            method: Of `tfp_refine.laplace.PREDICTIVES`, which tells which are
                exact. "mc" draws weights; "linearized" draws Gaussian outputs,
                for each input alone; "probit" and "mean_field" are closed
                forms, for classification.
            num_samples: `S`, number of draws. Defaults to `100`.
            seed: Integer that fixes the draws; fresh ones if `None`.
            batch_size: Examples computed at a time. Defaults to `1024`.
            average: Whether draws are averaged: then memory does not depend on
                their number. Defaults to `False`.

        Returns:
            draws: `numpy` array `[S, N, C]`, with `C = 2` for a single output
                that is the logit of the second class; `[1, N, C]` if averaged,
                and for closed forms.

        Raises:
            ValueError: If it is not fitted, or an argument is invalid.
        """
        self._check_fitted()
        predictives.check(method, self.likelihood)
        _validation.positive_integer("num_samples", num_samples)
        inputs, num_examples = self._inputs(x, batch_size)
        predictions = self.predict_from_inputs(
            inputs,
            num_examples,
            method,
            num_samples,
            functional.seeds.check(seed),
            average,
        )
        posteriors.check_finite(predictions)
        return predictions

    def predict_from_inputs(
        self, inputs, num_examples, method, num_samples, seed, average
    ):
        """Predicts as `predict`, from what the network takes, unchecked."""
        if method == "mc":
            return self._draws_from_inputs(
                self.likelihood.predictions,
                inputs,
                num_examples,
                num_samples,
                seed,
                average,
            )
        return predictives.predict(
            self, inputs, num_examples, method, num_samples, seed, average
        )

    def output_moments(self, x, batch_size=1024):
        """Computes the Gaussian of the outputs of the linearized network.

        Outputs are logits, or means of a regression, without its noise. For a
        last layer this is exact.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            batch_size: Examples that the model is called on at a time.

        Returns:
            mean: float64 array, `[N, C]`.
            covariance: float64 array, `[N, C, C]`.

        Raises:
            ValueError: If it is not fitted, or an argument is invalid.
        """
        self._check_fitted()
        inputs, num_examples = self._inputs(x, batch_size)
        blocks = [
            (mean, tf.matmul(root, root, transpose_b=True))
            for mean, root in predictives.gaussian_outputs(
                self, inputs, num_examples
            )
        ]
        mean, covariance = (
            np.concatenate(each) for each in zip(*blocks, strict=True)
        )
        return mean, covariance

    # What is made of it.

    def refine(
        self,
        x=None,
        y=None,
        *,
        flow="radial",
        flow_length=5,
        space="whitened",
        base="laplace",
        prior_precision=None,
        epochs=None,
        batch_size=128,
        learning_rate=None,
        num_samples=None,
        seed=None,
        verbose=1,
    ):
        """Refines the posterior by a chain of normalizing flows.

        The flows move draws from this posterior, so that the bound on the
        evidence rises: a posterior of any shape takes the place of a Gaussian
        one. The network is not needed but for a last layer, whose inputs are
        cached, so this takes seconds to minutes.

        Args:
            x: Training inputs, as for `fit`; those of `fit` if `None`.
            y: Training targets, likewise.
            flow: "radial" or "planar".
            flow_length: Number of flows; 0 leaves the posterior as it is.
            space: Where flows act. "whitened": on standard normal draws, before
                they are scaled to this posterior. "paper": on the weights.
            base: "laplace", or "standard_normal" to start from N(0, I) in place
                of this posterior, which is what refinement is compared with.
            prior_precision: 1 / variance of the prior of the posterior that is
                approximated. Defaults to the attribute.
            epochs: Passes over the training data. Defaults to 20, or more if
                these are fewer than 2000 steps.
            batch_size: Examples in a step. Defaults to `128`.
            learning_rate: Adam's at the start, from where it falls to 0 as a
                cosine. Defaults to 1e-3 for "paper" and to 0.1 for "whitened".
            num_samples: Draws of the weights in a step. Defaults to 1 for
                "paper" and to 16 for "whitened".
            seed: Integer that fixes all randomness; fresh if `None`.
            verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

        Returns:
            posterior: `FlowPosterior`, with `sample`, `predict`, `elbo`, `save`
                and `load`.

        Raises:
            ValueError: If it is not fitted, or an argument is invalid.
            FloatingPointError: If the bound is not finite.

        Reference:
            - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041)
        """
        self._check_fitted()
        chain = flows.Flow(flow, flow_length, space, base)
        given = copy.copy(self)
        if x is None and y is not None:
            raise ValueError("`y` needs `x`. Received: x=None")
        if x is not None:
            given.set_data(x, y)
        given.check_data()
        if learning_rate is None:
            learning_rate = _LEARNING_RATES[space]
        if num_samples is None:
            num_samples = _NUM_SAMPLES[space]
        return refinement.refine(
            given,
            chain,
            prior_precision=prior_precision,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            num_samples=num_samples,
            seed=seed,
            verbose=verbose,
        )

    def contents(self):
        """Returns what a file of it holds, as `WeightPosterior` says."""
        self._check_fitted()
        description = {
            "prior_precision": self._prior_precision,
            "options": self._options(),
            "statistic": self._statistic,
            "count": self._count,
        }
        return description, {"mean": self._mean, **self._basis.arrays()}

    @classmethod
    def from_contents(cls, network, likelihood, description, arrays):
        """Restores what `contents` returned, as `WeightPosterior` says."""
        laplace = cls(
            network.model,
            likelihood.kind,
            prior_precision=description["prior_precision"],
            noise_scale=description["noise_scale"],
            layer=network.layer,
            **description["options"],
        )
        laplace._likelihood = likelihood
        laplace._activation = description["activation"]
        laplace._mean = arrays["mean"]
        if len(laplace._mean) != network.size:
            raise ValueError(
                f"The posterior is of {len(laplace._mean)} weights, and "
                f"'{network.model.name}' has {network.size}: layers must be "
                "trainable, or not, as they were."
            )
        laplace._statistic = description["statistic"]
        laplace._count = description["count"]
        laplace._basis = laplace._basis_class().from_arrays(
            arrays, network.num_outputs
        )
        return laplace
