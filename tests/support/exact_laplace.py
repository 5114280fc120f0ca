"""Gaussians of the curvature at trained weights, with inputs of samplers."""

import numpy as np

from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine.functional import likelihoods
from tfp_refine.functional import links
from tfp_refine.posteriors import covariances


class ExactLaplace(posteriors.GaussianPosterior):
    """Laplace's approximation of a model of one dense layer.

    Args:
        model: `keras.Model`.
        kind: "classification" or "regression".
        x: Inputs, `[N, F]`.
        y: Targets.
        prior_precision: 1 / variance of the prior.
        noise_scale: Of "regression".
        view: Class of the view.
    """

    def __init__(
        self,
        model,
        kind,
        x,
        y,
        prior_precision=1.0,
        noise_scale=1.0,
        view=functional.LastLayerView,
    ):
        view = view(model)
        (x, y), _ = functional.data.examples(x, y)
        view.fit_inputs(x)
        self.likelihood = likelihoods.of_kind(
            kind, view.num_outputs, noise_scale
        )
        activation = view.find_activation(x, self.likelihood.activations)
        self.prior_precision = prior_precision
        self.inputs = view.inputs(x, 256)
        self.targets = self.likelihood.targets(y, view.num_outputs)
        loc, fixed = view.params(), view.fixed()
        hessian = self.likelihood.output_hessian(
            view.outputs(loc, self.inputs, fixed)
        )
        design = np.asarray(x, np.float64)
        if view.layer.use_bias:
            design = np.pad(design, [(0, 0), (0, 1)], constant_values=1.0)
        # The last layer has the outputs first, as rows; all layers last.
        axes = "figj"
        if isinstance(view, functional.LastLayerView):
            axes = "ifjg"
        precision = np.einsum(
            f"nij,nf,ng->{axes}", hessian, design, design
        ).reshape(view.size, view.size)
        precision += prior_precision * np.eye(view.size)
        values, vectors = np.linalg.eigh(precision)
        self.training_data = self.inputs, self.targets
        link = None
        if kind == "classification":
            function = "softmax" if view.num_outputs > 1 else "sigmoid"
            link = links.Link(function, activation == "linear")
        super().__init__(
            view, loc, covariances.Full(vectors, values**-0.5), fixed, link
        )
        self.posterior_precision = precision
        self.posterior_covariance = np.linalg.inv(precision)

    def check_data(self, held=False):
        """Raises if there are no training data; they must be in memory."""
        assert held
        if self.training_data is None:
            raise ValueError("Training data are not saved.")
