"""Initialization of posteriors through Bayesian linear models."""

import math

import numpy as np

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.initializers import initializer
from tfp_refine.initializers import mini_batches
from tfp_refine.initializers import output_layers
from tfp_refine.initializers import patches
from tfp_refine.initializers import regression
from tfp_refine.initializers import task as tasks
from tfp_refine.initializers import traversal

_DIVERGENCES = ("reverse", "forward")
# Recommended: least and largest mini-batch, and mini-batches in a pool.
_BATCH_SIZES = 128, 512
_POOL_BATCHES = 4


class IBLM(initializer.PosteriorInitializer):
    """Starts posteriors at those of Bayesian linear models.

    Layer after layer, each unit is fitted to a mini-batch, propagated to it
    with draws of the weights before: a Bayesian linear regression of targets on
    the inputs of the layer, patches of them for a convolution, and a column of
    ones for the bias. The posterior of the unit starts at the closest product
    of independent Gaussians. A unit of the last layer has its own target; one
    of a hidden layer any target or minus that, at random. Class labels become
    Gaussian targets of the logits, through a Dirichlet posterior. Variances are
    those of all training examples, not of a mini-batch. The likelihood of an
    example counts as often as its weight says; one of weight 0 is left out.

    The layers that make the outputs are found by their effects; if several are
    added up, each is fitted to an equal part of the targets. A layer that is
    called several times sees the inputs of all calls.

    Operations of layers after the linear map do not count in the regression,
    but in the inputs of the next layer. Posterior families that cannot have
    every mean and scale take the closest; those with multiplicative flows,
    their Gaussian part.

    Memory, beside inputs and model: the patches of a pool (`pool_size *
    patches_per_image * fan_in` numbers, times the number of groups of a grouped
    or depthwise convolution), or those of the examples of the last layer; no
    more than `2**24` numbers, 64 MiB, for the rows of a block of units, or
    those of one unit; and for the regressions two or three times 128 MiB, or
    the memory of one unit: a square matrix of float64 as large as the smaller
    of the fan-in and the number of rows. Examples are propagated so many at a
    time that the outputs of no layer of a functional model have more than
    `2**25` numbers; of other models, 256.

    Args:
        task: `"classification"` or `"regression"`. Defaults to `None`: inferred
            from the loss that the model is compiled with, or from the targets.
            Integers are classes where the model has several outputs, 0 and 1
            where it has one; so are one-hot rows.
        batch_size: Examples in the mini-batch of a hidden unit, at least 2.
            Defaults to `None`: 128, and up to 512 if rows are fewer than twice
            the weights of a unit.
        output_batch_size: Examples that the units of the last layer are fitted
            to, at least 2.
        pool_size: Examples that are propagated to a hidden layer together, of
            which each unit has some, drawn with replacement; at least 2.
            Defaults to `None`: 4 times `batch_size`.
        patches_per_image: Positions of each example that are drawn, or infinity
            for all: more of them are less independent than the regression takes
            them for.
        noise_variance: Of regression targets. Defaults to `None`: that of the
            likelihood as it is now, or `exp(-2)` if the model has none.
        prior_variance: Of the kernels' weights. Defaults to `None`: that of the
            layer's prior, or one over the fan-in if that is not Gaussian. Means
            of the prior count as zero.
        bias_prior_variance: Of the biases. Defaults to `None`: that of their
            prior, or 100 if there is none.
        concentration: As of `math.dirichlet.gaussian_targets`.
        divergence: `"reverse"`, for the variances that variational inference
            would find, or `"forward"` for those of the marginals, which are
            greater.
        seed: As for `PosteriorInitializer`.
        verbose: Likewise.

    Raises:
        ValueError: If an argument is invalid; and when called, if the data do
            not fit the task or the model.

    Example:

    ```python
    model = tfp_refine.models.MLP((13,), hidden=(100,) * 5, noise_scale=1.0)
    tfp_refine.layers.set_num_train_examples(model, len(x_train))
    model.compile("adam", tfp_refine.losses.HeteroscedasticGaussianNLL())
    tfp_refine.initializers.IBLM()(model, x_train, y_train)
    model.fit(x_train, y_train)
    ```

    Reference:
        - [Rossi et al., 2019](https://arxiv.org/abs/1810.08083)
    """

    needs = ("x", "y")
    weighs_examples = True
    # Unlike Rossi et al. Targets of hidden units, and the logits taken
    # together, have mean zero.
    center = True
    # Some hidden units regress minus their target: or else ReLUs are all on
    # where others are.
    random_signs = True
    # Variances are those of all training examples, not of a mini-batch.
    scale_precision = True
    # Units share the examples that are propagated to their layer.
    share_examples = True

    def __init__(
        self,
        *,
        task: str | None = None,
        batch_size: int | None = None,
        output_batch_size: int = 2048,
        pool_size: int | None = None,
        patches_per_image: float = 4,
        noise_variance: float | None = None,
        prior_variance: float | None = None,
        bias_prior_variance: float | None = None,
        concentration: float = 0.01,
        divergence: str = "reverse",
        seed: int | None = None,
        verbose: int = True,
    ) -> None:
        super().__init__(seed, verbose)
        self.task = task
        if task is not None:
            _validation.one_of("task", task, tasks.TASKS)
        self.batch_size, self.pool_size = batch_size, pool_size
        self.output_batch_size = output_batch_size
        for name in ("batch_size", "output_batch_size", "pool_size"):
            if getattr(self, name) is not None:
                initializer.check_batch_size(name, getattr(self, name))
        if not (
            isinstance(patches_per_image, float)
            and patches_per_image == math.inf
        ):
            _validation.positive_integer("patches_per_image", patches_per_image)
        self.patches_per_image = patches_per_image
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance
        self.bias_prior_variance = bias_prior_variance
        for name in ("noise_variance", "prior_variance", "bias_prior_variance"):
            if getattr(self, name) is not None:
                _validation.positive(name, getattr(self, name))
        self.concentration = _validation.positive(
            "concentration", concentration
        )
        self.divergence = _validation.one_of(
            "divergence", divergence, _DIVERGENCES
        )

    def _initialize(self, model, chosen, x, y, weights, rng, bar):
        if weights is None:
            weights = np.ones(functional.data.num_examples(x))
        weights = np.asarray(weights, np.float64)
        if not weights.all():
            (counted,) = weights.nonzero()
            x, y = traversal.gather((x, y), counted)
            weights = weights[counted]
        number = len(weights)
        if number < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 examples whose weight "
                f"is not 0. Received: {number}"
            )
        calls, outputs = traversal.calls_in_order(model, chosen, x)
        targets = tasks.layer_targets(
            model,
            y,
            weights,
            outputs,
            self.task,
            self.noise_variance,
            self.concentration,
            self.center,
        )
        chosen_outputs = output_layers.find(model, calls, x, outputs.shape[-1])
        for call in calls:
            made = chosen_outputs.get(id(call.layer))
            if made is None:
                of_units = regression.UnitTargets.at_random(
                    targets.hidden,
                    initializer.num_units(call.layer),
                    self.random_signs,
                    rng,
                )
            else:
                of_units = regression.UnitTargets.in_order(
                    targets.of_outputs(made)
                )

            def draw(examples, call=call):
                batch = traversal.gather(x, examples)
                return patches.draw(
                    model, call, batch, self.patches_per_image, rng
                )

            source = mini_batches.Source(call.layer, number, draw, rng)
            batches = self._mini_batches(source, call, made is None)
            self._fit(call.layer, batches, of_units, weights, bar)
        traversal.update_moving_statistics(model, x, rng)

    def _mini_batches(self, source, call, is_hidden):
        batch_size = self.batch_size
        if batch_size is None:
            rows = 2 * (initializer.fan_in(call.layer) + 1)
            rows_of_one = min(self.patches_per_image, call.num_positions)
            least, most = _BATCH_SIZES
            batch_size = min(max(rows // rows_of_one, least), most)
        if not is_hidden:
            batch_size = self.output_batch_size
        if not self.share_examples:
            return source.separate(batch_size)
        if not is_hidden:
            return source.shared(batch_size)
        pool_size = self.pool_size or _POOL_BATCHES * batch_size
        return source.pooled(batch_size, pool_size)

    def _fit(self, layer, batches, of_units, weights, bar):
        """Sets the posterior of a layer."""
        mean, variance = regression.fit(
            batches,
            of_units,
            regression.prior_variances(
                layer, self.prior_variance, self.bias_prior_variance
            ),
            layer.use_bias,
            self.divergence,
            weights if self.scale_precision else None,
            bar.add,
        )
        if not np.all(np.isfinite(mean)) or not np.all(np.isfinite(variance)):
            raise ValueError(
                f"The regression of the layer '{layer.name}' is not finite: "
                "its inputs are too large, or not finite. Are the inputs of "
                "the model standardized?"
            )
        if layer.use_bias:
            initializer.assign(
                layer, mean[:-1], variance[:-1], mean[-1], variance[-1]
            )
        else:
            initializer.assign(layer, mean, variance)


class PaperIBLM(IBLM):
    """I-BLM exactly as Rossi et al. have it; for comparisons.

    Each unit has examples of its own, propagated with weights of its own draw.
    With no more examples than a mini-batch has, all units of a first layer with
    the same target are the same.
    """

    center = random_signs = scale_precision = share_examples = False

    def __init__(self, **options):
        paper = {
            "batch_size": 128,
            "output_batch_size": 128,
            "patches_per_image": math.inf,
            "noise_variance": math.exp(-2.0),
        }
        super().__init__(**(paper | options))
