"""Laplace's approximation: a Gaussian posterior with a Hessian."""

import abc

import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import files
from tfp_refine.functional import likelihoods
from tfp_refine.functional import streams
from tfp_refine.laplace import evidence
from tfp_refine.laplace import grid_search
from tfp_refine.laplace import hessians
from tfp_refine.laplace import predictives
from tfp_refine.laplace import refinement
from tfp_refine.math import laplace_evidence
from tfp_refine.posteriors import evidence_bound
from tfp_refine.posteriors import flow as flow_lib

# Numbers of which blocks are made: 64 MiB of float64.
_MAX_NUMBERS = 2**23


class Laplace(evidence_bound.EvidenceBound, posteriors.GaussianPosterior):
    """Gaussian posterior of weights around those that were trained.

    Its precision is the Hessian of the negative log likelihood, in some
    approximation, plus that of the prior, a Gaussian around 0. A subclass says
    which weights these are, and how the Hessian is approximated.

    Attributes:
        hessian: Object of `hessians`, for a noise of 1; `None` before `fit`,
            as are `loc`, `covariance` and `fixed`.
    """

    _methods = predictives.CLOSED_METHODS
    # Of `predict_proba`.
    _default_method = "mc"
    _hessian_class = hessians.DiagonalHessian

    def __init__(self, view, likelihood, prior_precision, noise_scale):
        super().__init__(view, None, None, None)
        self._kind = _validation.one_of(
            "likelihood", likelihood, likelihoods.KINDS
        )
        self._prior_precision = _validation.positive(
            "prior_precision", prior_precision
        )
        self._noise_scale = _validation.positive("noise_scale", noise_scale)
        self.hessian = self._statistic = self._count = None

    def _shown_arguments(self):
        return super()._shown_arguments() | {
            "layer": self.view.describe_layer(),
            "likelihood": self._kind,
            "hessian": next(
                name
                for name, kind in hessians.HESSIANS.items()
                if kind is self._hessian_class
            ),
            "prior_precision": self.prior_precision,
            "noise_scale": self.noise_scale,
            "is_fitted": self.hessian is not None,
        }

    # Defined by subclasses.

    @abc.abstractmethod
    def _terms(self, inputs, outputs, likelihood, weights, loc, fixed):
        """Computes the terms that the Hessian sums over examples, a tuple.

        Outputs are at the mean, float64, `[B, C]`; the likelihood has a noise
        of 1; weights of examples are float64, `[B]`, or `None`.
        """

    @abc.abstractmethod
    def _numbers(self):
        """Returns how many numbers an example needs, `hessians.Numbers`."""

    @abc.abstractmethod
    def output_root(self, inputs):
        """Computes roots `R` of the linearized outputs' covariances `R R^T`.

        Inputs are those of the view. Returns float64, `[B, C, R]`.
        """

    @abc.abstractmethod
    def output_variance(self, inputs):
        """Computes the variances of linearized outputs, float64, `[B, C]`."""

    # Fitting.

    def fit(
        self,
        x,
        y=None,
        *,
        sample_weight=None,
        class_weight: dict[int, float] | None = None,
        batch_size: int = 256,
        verbose: int = 1,
    ):
        """Computes the posterior of the weights, given data.

        Args:
            x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)`
                or `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or a generator. Batches are read into
                memory if they have no more than 1 GiB, and else in several
                passes, block by block. Features of these are kept in memory if
                they have no more than that, and else computed anew where they
                are needed, as by `elbo` and `refine`.
            y: Class numbers `[N]` or one-hot rows `[N, C]`, labels 0 and 1
                `[N, C]` of "multilabel", or regression targets `[N, C]` (`[N]`
                if `C` is 1). Of a network with outputs at each position,
                `[N, ...]` or `[N, ..., C]`; masked positions do not count.
            sample_weight: Weights, `[N]`: the likelihood of an example counts
                as often as its weight says; or of positions, `[N, ...]`.
                `None` for batches.
            class_weight: Weights by class number, a dict, in place of
                `sample_weight`; 1 for those left out.
            batch_size: Examples that the model is called on at a time.
            verbose: 0 is silent, 1 a progress bar, 2 lines.

        Returns:
            self: This object.

        Raises:
            ValueError: If data are invalid or do not fit the model, or it was
                compiled with a loss that is another likelihood.
        """
        _validation.positive_integer("batch_size", batch_size)
        view = self.view
        examples, num_examples = streams.examples(
            x,
            y,
            sample_weight,
            class_weight,
            fit=self._fit_inputs,
            check=self._check_examples,
        )
        likelihood = likelihoods.of_kind(self._kind, view.num_outputs)
        view.find_activation(streams.head(examples)[0], likelihood.activations)
        loc, fixed = view.params(), view.fixed()
        if not np.isfinite(loc).all():
            raise ValueError(
                "The trained weights must be finite. Received: "
                f"{np.count_nonzero(~np.isfinite(loc))} of {len(loc)} are "
                "NaN or infinite. Has the training diverged?"
            )
        bar = functional.progress.Progress(
            "Laplace", num_examples, verbose, unit="examples"
        )
        data = evidence_bound.data_of(
            examples, likelihood, view, fixed, batch_size, bar.update
        )
        is_held = isinstance(data, tuple)
        sums, statistic = None, 0.0
        total_weight: float = 0
        theta = tf.constant(loc)
        size = max(1, _MAX_NUMBERS // self._numbers().terms)
        for rows, (inputs, targets, *weights) in streams.blocks(data, size):
            weight = weights[0] if weights else None
            outputs = view.outputs(theta, inputs, fixed)
            statistic += float(likelihood.statistic(targets, outputs, weight))
            terms = self._terms(inputs, outputs, likelihood, weight, loc, fixed)
            terms = [np.asarray(term, np.float64) for term in terms]
            sums = terms if sums is None else list(map(np.add, sums, terms))
            total_weight += (
                float(np.sum(weight)) if weights else rows.stop - rows.start
            )
            if not (is_held and isinstance(view, functional.LastLayerView)):
                bar.update(rows.stop)
        self.hessian = self._hessian_class.from_sums(sums, total_weight)
        self._statistic = statistic
        self._count = total_weight * view.num_outputs
        self.link = likelihoods.link_of(
            self._kind, view.num_outputs, view.activation
        )
        self.loc, self.fixed = loc, fixed
        self.training_data = data
        self.spread = 1.0
        self._update()
        return self

    def _check_examples(self, block):
        view = self.view
        likelihoods.check_loss(view.model, self._kind, view.num_outputs)
        likelihood = likelihoods.of_kind(self._kind, view.num_outputs)
        evidence_bound.check_examples(block, likelihood, view)

    def _check_ready(self):
        if self.hessian is None:
            raise ValueError(
                "There is no posterior yet: call `fit(x, y)` first."
            )

    # The posterior.

    @property
    def likelihood(self):
        """Object of `functional.likelihoods`, once the last layer is known."""
        return likelihoods.of_kind(
            self._kind, self.view.num_outputs, self._noise_scale
        )

    @property
    def bijector(self):
        """The `tfb.Bijector` from standard normal draws to weights."""
        self._check_ready()
        return flow_lib.Affine(self.loc, self.covariance)

    @property
    def prior_precision(self) -> float:
        """1 / variance of the prior of each weight; can be set."""
        return self._prior_precision

    @prior_precision.setter
    def prior_precision(self, value):
        self._prior_precision = _validation.positive("prior_precision", value)
        self._update()

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise of a regression; can be set."""
        return self._noise_scale

    @noise_scale.setter
    def noise_scale(self, value):
        self._noise_scale = _validation.positive("noise_scale", value)
        self._update()

    def _update(self):
        """Sets the covariance, which follows prior and noise."""
        if self.hessian is not None:
            precision = self._eigenvalues() + self._prior_precision
            self.prior_scale = self._prior_precision**-0.5
            self.covariance = self.hessian.covariance(1.0 / np.sqrt(precision))

    def _eigenvalues(self, noise_scale=None):
        if self._kind != "regression":
            return self.hessian.eigenvalues
        noise_scale = self._noise_scale if noise_scale is None else noise_scale
        return self.hessian.eigenvalues / noise_scale**2

    # Evidence and prior.

    def log_marginal_likelihood(
        self,
        prior_precision: float | None = None,
        noise_scale: float | None = None,
    ) -> float:
        """Computes the evidence: how probable the model makes the targets.

        Exact if the log likelihood is quadratic in the weights, and the
        trained ones are the mode of the posterior.

        Args:
            prior_precision: In place of the attribute.
            noise_scale: Likewise.

        Returns:
            log_marginal_likelihood: Nats, float.

        Raises:
            ValueError: If it is not fitted, or an argument is invalid.

        Reference:
            - [MacKay, 1992](https://doi.org/10.1162/neco.1992.4.3.448)
        """
        self._check_ready()
        if prior_precision is None:
            prior_precision = self._prior_precision
        if noise_scale is None:
            noise_scale = self._noise_scale
        _validation.positive("prior_precision", prior_precision)
        likelihood = likelihoods.of_kind(
            self._kind, self.view.num_outputs, noise_scale
        )
        return float(
            laplace_evidence.log_evidence(
                likelihood.log_likelihood(self._statistic, self._count),
                np.sum(np.square(self.loc)),
                self._eigenvalues(noise_scale),
                np.float64(prior_precision),
            )
        )

    def optimize_prior_precision(
        self,
        method: str = "marginal_likelihood",
        *,
        tune_noise: bool = True,
        validation_data=None,
        grid=None,
        predictive: str | None = None,
        num_samples: int = 20,
        seed: int | None = 0,
        verbose: int = 1,
    ) -> float:
        """Chooses the prior's precision, and the noise of a regression.

        Args:
            method: "marginal_likelihood", where the evidence is greatest (the
                fixed point of MacKay); or "grid_search", where the negative log
                likelihood of validation data is least.
            tune_noise: Whether "marginal_likelihood" chooses the noise of a
                regression too.
            validation_data: `(x, y)` or `(x, y, sample_weight)`, of
                "grid_search".
            grid: Precisions that "grid_search" tries; 100 from 1e-4 to 1e4 if
                `None`. Those with an infinite likelihood lose.
            predictive: Method of `predict_proba` that it judges: the one that
                you will use. The default of `predict_proba` if `None`.
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
        self._check_ready()
        if method == "grid_search":
            self.prior_precision = grid_search.best_prior_precision(
                self,
                validation_data,
                grid,
                predictive or self._default_method,
                num_samples,
                seed,
                verbose,
            )
            return self.prior_precision

        def best(noise_scale):
            return evidence.best_prior_precision(
                self._eigenvalues(noise_scale), np.sum(np.square(self.loc))
            )

        if tune_noise and self._kind == "regression":
            self.noise_scale = evidence.best_noise_scale(
                lambda noise: self.log_marginal_likelihood(best(noise), noise),
                start=np.sqrt(max(self._statistic, 1e-12) / self._count),
            )
        self.prior_precision = best(self._noise_scale)
        return self.prior_precision

    # Predictions.

    def linearized_outputs(
        self, x, *, batch_size: int = 1024
    ) -> tuple[np.ndarray, np.ndarray]:
        """Computes the Gaussian of the outputs of the linearized network.

        Outputs are logits, or means of a regression without its noise. For a
        last layer this is exact.

        Args:
            x: Inputs, as for `predict`.
            batch_size: Examples that the model is called on at a time.

        Returns:
            mean: float64 array, `[N, C]`, or `[N, ..., C]` of positions.
            covariance: float64 array, `[N, C, C]`, or `[N, ..., C, C]`.

        Raises:
            ValueError: If it is not fitted, or an argument is invalid.
        """
        found = []
        for inputs, shape in self._inputs(x, batch_size):
            moments = [
                (mean, tf.matmul(root, root, transpose_b=True))
                for mean, root in self.output_roots(inputs)
            ]
            found.append(
                [_shaped(one, shape) for one in zip(*moments, strict=True)]
            )
        mean, covariance = map(np.concatenate, zip(*found, strict=True))
        return mean, covariance

    def predict_moments(
        self, x, *, batch_size: int = 1024
    ) -> tuple[np.ndarray, np.ndarray]:
        """Computes the predictive distribution of a regression, a Gaussian.

        It is that of new targets: the covariance is that of the outputs plus
        `noise_scale**2` on its diagonal. For a last layer it is exact.

        Args:
            x: As for `linearized_outputs`.
            batch_size: As for `linearized_outputs`.

        Returns:
            mean: float64 array, `[N, C]`.
            covariance: float64 array, `[N, C, C]`.

        Raises:
            ValueError: If it is not fitted, an argument is invalid, or it is a
                classifier.
        """
        self._check_ready()
        if self._kind != "regression":
            raise ValueError(
                "`predict_moments` is for regression. The predictive "
                "distribution of a classifier is not Gaussian: see "
                "`predict_proba` and `linearized_outputs`."
            )
        mean, covariance = self.linearized_outputs(x, batch_size=batch_size)
        noise = self._noise_scale**2 * np.eye(mean.shape[-1])
        return mean, covariance + noise

    def _predict_proba_by(self, method, x, num_samples, seed, batch_size):
        _validation.positive_integer("num_samples", num_samples)
        rng = np.random.default_rng(functional.seeds.check(seed))
        found = []
        for inputs, shape in self._inputs(x, batch_size):
            probs = predictives.probabilities(
                self, inputs, method, num_samples, rng
            )
            found.append(_shaped([probs], shape))
        return np.concatenate(found).astype(self.view.dtype.as_numpy_dtype)

    def output_roots(self, inputs):
        """Yields means and roots of the linearized outputs, block by block."""
        for mean, block in self._means(inputs, self._numbers().root):
            yield mean, self.output_root(block)

    def output_variances(self, inputs):
        """Yields means and variances likewise, float64, `[B, C]`."""
        for mean, block in self._means(inputs, self._numbers().variance):
            yield mean, self.output_variance(block)

    def _means(self, inputs, numbers):
        """Yields outputs at the mean, and inputs, in blocks."""
        loc = tf.constant(self.loc)
        for rows in blocks(functional.data.num_examples(inputs), numbers):
            block = functional.data.take(inputs, rows)
            yield self.view.outputs(loc, block, self.fixed), block

    def _inputs(self, x, batch_size):
        """Yields inputs of the view, block by block.

        Positions are rows as examples are; their shape comes with them.
        """
        _validation.positive_integer("batch_size", batch_size)
        self._check_ready()
        for _, block in functional.data.blocks(x, batch_size):
            block = self.view.fit_inputs(block)
            inputs = self.view.inputs(block, batch_size, fixed=self.fixed)
            shape = (functional.data.num_examples(inputs),)
            if isinstance(self.view, functional.LastLayerView):
                shape = inputs.shape[:-1]
                inputs = inputs.reshape(-1, inputs.shape[-1])
            yield inputs, shape

    # Results.

    def refine(
        self,
        x=None,
        y=None,
        *,
        sample_weight=None,
        class_weight: dict[int, float] | None = None,
        flow: str = "radial",
        flow_length: int = 5,
        prior_precision: float | None = None,
        epochs: int | None = None,
        batch_size: int = 128,
        learning_rate: float = 0.1,
        num_samples: int = 16,
        seed: int | None = None,
        verbose: int = 1,
    ) -> posteriors.FlowPosterior:
        """Refines the posterior by a chain of normalizing flows.

        The flows move draws from this posterior, so that the bound on the
        evidence rises: a posterior of any shape takes the place of a Gaussian
        one. The network is not needed but for a last layer, whose inputs are
        cached, so this takes seconds to minutes.

        Args:
            x: Training inputs, as for `fit`; those of `fit` if `None`.
            y: Training targets, likewise.
            sample_weight: Weights of examples, likewise.
            class_weight: Weights by class number, likewise.
            flow: "radial" or "planar".
            flow_length: Number of flows; 0 leaves the posterior as it is.
            prior_precision: 1 / variance of the prior of the posterior that is
                approximated. Defaults to the attribute.
            epochs: Passes over the training data. Defaults to 20, or more if
                these are fewer than 2000 steps.
            batch_size: Examples in a step.
            learning_rate: Adam's at the start, from where it falls to 0 as a
                cosine.
            num_samples: Draws of the weights in a step.
            seed: Integer that fixes all randomness; fresh if `None`.
            verbose: 0 is silent, 1 a progress bar, 2 lines.

        Returns:
            posterior: `FlowPosterior`, with the `bijector`, an `elbo`, and
                `history["elbo"]`: the bound in the course of training,
                estimated from batches, nats, `[T]`.

        Raises:
            ValueError: If it is not fitted, or an argument is invalid.
            FloatingPointError: If the bound is not finite.

        Reference:
            - [Kristiadi et al., 2022](https://arxiv.org/abs/2205.10041)
        """
        return refinement.refine(
            self,
            x,
            y,
            sample_weight=sample_weight,
            class_weight=class_weight,
            flow=refinement.Flow(flow, flow_length),
            prior_precision=prior_precision,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            num_samples=num_samples,
            seed=seed,
            verbose=verbose,
        )

    # Files.

    def _contents(self):
        return {
            "likelihood": self._kind,
            "hessian": self._hessian_class.__name__,
            "prior_precision": self._prior_precision,
            "noise_scale": self._noise_scale,
            "statistic": self._statistic,
            "count": self._count,
        }, {
            "loc": self.loc,
            **self.hessian.arrays(),
            **files.pack(self.fixed),
        }

    @classmethod
    def _from_contents(cls, view, link, description, arrays):
        made = cls(
            view.model,
            description["likelihood"],
            prior_precision=description["prior_precision"],
            noise_scale=description["noise_scale"],
            layer=view.layer,
        )
        made.view, made.link = view, link
        made._hessian_class = getattr(hessians, description["hessian"])
        made.hessian = made._hessian_class.from_arrays(arrays)
        made.loc, made.fixed = arrays["loc"], files.unpack(arrays)
        made._statistic = description["statistic"]
        made._count = description["count"]
        made._update()
        return made


def _shaped(blocks, shape):
    """Puts blocks of rows together, as `[*shape, ...]`."""
    values = np.concatenate(blocks)
    return values.reshape(*shape, *values.shape[1:])


def blocks(num_examples, numbers):
    """Yields slices of rows of which none needs too much memory."""
    size = max(1, _MAX_NUMBERS // numbers)
    for begin in range(0, num_examples, size):
        yield slice(begin, min(begin + size, num_examples))
