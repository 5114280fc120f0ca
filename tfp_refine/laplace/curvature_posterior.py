"""The Gaussian around trained weights that the curvature makes."""

import abc

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.laplace import density_posterior
from tfp_refine.laplace import flows
from tfp_refine.math import laplace_evidence

_IDENTITY = flows.Flow(length=0)


class CurvaturePosterior(density_posterior.DensityPosterior):
    """Gaussian posterior of weights around those that were trained.

    Its precision is the Hessian of the negative log likelihood, in some
    approximation, plus that of the prior, a Gaussian around 0.

    A subclass says which weights these are, and how the Hessian is
    approximated.

    Args:
        network: `LastLayer` or `AllLayers`.
        likelihood: "classification" or "regression".
        prior_precision: 1 / variance of the prior of each weight.
        noise_scale: Standard deviation of the noise, for "regression".

    Raises:
        ValueError: If an argument is invalid.

    Attributes:
        inputs: What the network takes of the training inputs, `[N, ...]` (or
            nested): features for a last layer. `None` before `fit`.
        targets: Training targets, array `[N, ...]`; `None` before `fit`.
    """

    def __init__(self, network, likelihood, prior_precision, noise_scale):
        _validation.one_of(
            "likelihood", likelihood, posteriors.likelihoods.KINDS
        )
        super().__init__(network)
        self._kind = likelihood
        self._prior_precision = _validation.positive(
            "prior_precision", prior_precision
        )
        self._noise_scale = _validation.positive("noise_scale", noise_scale)
        self._basis = self._mean = None
        self._statistic = self._count = None
        self.inputs = self.targets = None

    # Fitting.

    def fit(self, x, y=None, *, batch_size=256, verbose=1):
        """Computes the posterior of the weights, given data.

        Args:
            x: Training inputs, `[N, ...]` (or nested), or a `tf.data.Dataset`
                of `(x, y)`, batched, which is read once into memory.
            y: Class numbers `[N]` or one-hot rows `[N, C]`, or regression
                targets `[N, C]` (`[N]` if `C` is 1).
            batch_size: Examples that the model is called on at a time.
                Defaults to `256`.
            verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

        Returns:
            self: This object.

        Raises:
            ValueError: If data are invalid or do not fit the model.
        """
        inputs, targets = self.data(x, y, batch_size, verbose)
        mean = self.network.loc
        if not np.isfinite(mean).all():
            raise ValueError(
                "The trained weights must be finite. Received: "
                f"{np.count_nonzero(~np.isfinite(mean))} of {len(mean)} are "
                "NaN or infinite. Has the training diverged?"
            )
        basis, statistic = self._curvature(inputs, targets, mean)
        self._basis, self._mean = basis, mean
        self._digest = self.network.digest()
        self._statistic = float(statistic)
        self._count = len(targets) * self.network.num_outputs
        self.inputs, self.targets = inputs, targets
        return self

    def data(self, x, y=None, batch_size=256, verbose=0):
        """Checks data, as `DensityPosterior`."""
        _validation.positive_integer("batch_size", batch_size)
        x, y, num_examples = functional.arrays.examples(x, y)
        network = self.network
        network.check_inputs(x)
        self._set_likelihood()
        targets = self.likelihood.targets(y, network.num_outputs)
        self._activation = network.find_activation(
            x, self.likelihood.activations
        )
        bar = keras.utils.Progbar(
            num_examples, verbose=verbose, unit_name="example"
        )
        return network.inputs(x, batch_size, bar.update), targets

    @abc.abstractmethod
    def _curvature(self, inputs, targets, mean):
        """Computes the Hessian, for a noise of 1, and the likelihood.

        Args:
            inputs: What the network takes, `[N, ...]` (or nested).
            targets: `[N, ...]`.
            mean: Weights, `[D]`.

        Returns:
            basis: Where it is diagonal, with its `eigenvalues`.
            statistic: Of the likelihood, float.
        """

    @abc.abstractmethod
    def output_root(self, inputs):
        """Computes roots `R` of the linearized outputs' covariances `R R^T`.

        Args:
            inputs: What the network takes, `[B, ...]` (or nested).

        Returns:
            root: float64, `[B, C, K]`.
        """

    @abc.abstractmethod
    def output_variance(self, inputs):
        """Computes the variances of the linearized outputs.

        Args:
            inputs: What the network takes, `[B, ...]` (or nested).

        Returns:
            variance: float64, `[B, C]`.
        """

    @abc.abstractmethod
    def _options(self):
        """Returns arguments that only the subclass has, a dict."""

    @abc.abstractmethod
    def _basis_class(self):
        """Returns the class of what `_curvature` returns."""

    @abc.abstractmethod
    def numbers_of_root(self):
        """Returns how many numbers an example needs in `output_root`."""

    @abc.abstractmethod
    def numbers_of_variance(self):
        """Returns how many numbers an example needs in `output_variance`."""

    def mean_outputs(self, inputs):
        """Computes the outputs at the mean.

        Args:
            inputs: What the network takes, `[B, ...]` (or nested).

        Returns:
            outputs: float64, `[B, C]`.
        """
        return self.network.outputs(tf.constant(self.mean), inputs)

    def _unit_likelihood(self):
        """Returns the likelihood with a noise of 1, if it has noise."""
        return posteriors.likelihoods.of_kind(
            self._kind, self.network.num_outputs
        )

    def _set_likelihood(self):
        self._likelihood = posteriors.likelihoods.of_kind(
            self._kind, self.network.num_outputs, self._noise_scale
        )

    def check_data(self):
        """Checks that it is fitted, and training data are known."""
        self._check_fitted()
        super().check_data()

    def _check_fitted(self):
        if self._basis is None:
            raise ValueError(
                "There is no posterior yet: call `fit(x, y)` first."
            )

    # The posterior.

    @property
    def mean(self):
        """The trained weights, float64 array, `[D]`."""
        self._check_fitted()
        return self._mean

    @property
    def prior_precision(self):
        """1 / variance of the prior of each weight; can be set."""
        return self._prior_precision

    @prior_precision.setter
    def prior_precision(self, value):
        self._prior_precision = _validation.positive("prior_precision", value)

    @property
    def noise_scale(self):
        """Standard deviation of the noise of a regression; can be set."""
        return self._noise_scale

    @noise_scale.setter
    def noise_scale(self, value):
        self._noise_scale = _validation.positive("noise_scale", value)
        if self._likelihood is not None:
            self._set_likelihood()

    @property
    def posterior_precision(self):
        """Inverse of the posterior's covariance, float64 array, `[D, D]`.

        Made when it is asked for. The Hessian is this less `prior_precision`
        on the diagonal.
        """
        self._check_fitted()
        return self._basis.matrix(1.0 / np.square(self.scale))

    @property
    def posterior_covariance(self):
        """The posterior's covariance, likewise."""
        self._check_fitted()
        return self._basis.matrix(np.square(self.scale))

    @property
    def scale(self):
        """Standard deviations along the eigenvectors, float64, `[D]`."""
        return 1.0 / np.sqrt(self._eigenvalues() + self._prior_precision)

    def transformation(self, dtype):
        """Returns the function that makes draws of standard normal ones.

        Args:
            dtype: Of its argument.

        Returns:
            transform: Function of tensors `z [..., D]` to weights `[..., D]`.
            log_det: Log determinant of its Jacobian, nats, float.
        """
        self._check_fitted()
        rotate = self._basis.rotation(dtype)
        mean = tf.cast(self._mean, dtype)
        scale = tf.cast(self.scale, dtype)
        log_det = float(np.sum(np.log(self.scale)))
        return lambda z: mean + rotate(scale * z), log_det

    def _eigenvalues(self, noise_scale=None):
        self._check_fitted()
        if self._kind == "classification":
            return self._basis.eigenvalues
        noise_scale = self._noise_scale if noise_scale is None else noise_scale
        return self._basis.eigenvalues / noise_scale**2

    def forward(self, z):
        """Makes weights of standard normal draws, as `DensityPosterior`."""
        transformation = self.transformation(z.dtype)
        return _IDENTITY.forward({}, z, *transformation)

    # Evidence and prior.

    def log_marginal_likelihood(self, prior_precision=None, noise_scale=None):
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
        self._check_fitted()
        if prior_precision is None:
            prior_precision = self._prior_precision
        if noise_scale is None:
            noise_scale = self._noise_scale
        _validation.positive("prior_precision", prior_precision)
        likelihood = posteriors.likelihoods.of_kind(
            self._kind, self.network.num_outputs, noise_scale
        )
        return float(
            laplace_evidence.log_evidence(
                likelihood.log_likelihood(self._statistic, self._count),
                np.sum(np.square(self._mean)),
                self._eigenvalues(noise_scale),
                np.float64(prior_precision),
            )
        )
