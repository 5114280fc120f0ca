"""The base of all initializers of variational posteriors."""

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine import layers


class PosteriorInitializer(_validation.Shown):
    """Sets the posteriors of the variational layers of a model.

    A subclass says how, in `_initialize_layer` or, if the order matters, in
    `_initialize`.

    Args:
        seed: Non-negative integer. Draws of the model's weights have seeds of
            their own, those of its layers. Defaults to `None`: another one at
            each call, which `keras.utils.set_random_seed` fixes.
        verbose: Whether there is a progress bar. Defaults to `True`.

    Raises:
        ValueError: If an argument is invalid.
    """

    # Which of `x` and `y` there must be.
    needs: tuple[str, ...] = ()
    # Whether weights of examples have an effect.
    weighs_examples = False

    def __init__(self, seed: int | None = None, verbose: int = True) -> None:
        self.seed = None if seed is None else functional.seeds.check(seed)
        self.verbose = bool(verbose)

    def __call__(
        self, model, x=None, y=None, sample_weight=None, class_weight=None
    ):
        """Initializes a model.

        Deterministic layers keep their weights; but initializers that look at
        data set the moving statistics of batch normalization, unless it is
        frozen, to those of a batch. Frozen layers keep theirs, and so do those
        of unknown kind, which have `variational_weights` without being a
        `layers.VariationalLayer` with a posterior of its kernel, and for each
        unit a bias of its own or none; a warning names both. If this fails or
        is interrupted, the model is as it was.

        Args:
            model: `keras.Model`; built on `x` if it is not.
            x: Training inputs, `[N, ...]` (or nested), or batches of `(x, y)`
                or `(x, y, sample_weight)`, such as a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or a generator. Targets, or all of it,
                are not needed if nothing depends on them.
            y: Training targets, `[N, ...]`. Likewise; `None` for batches.
            sample_weight: Weights of examples, `[N]`; `None` for batches.
            class_weight: Weights by class number, a dict, in place of
                `sample_weight`; 1 for those left out.

        Returns:
            model: The same.

        Raises:
            ValueError: If there is nothing to initialize, or the data do not
                fit.

        Warns:
            UserWarning: If there are weights, and they have no effect, as the
                initializer has no likelihood that they could count in.
        """
        _validation.instance("model", model, keras.Model, "a keras.Model")
        x, y, weights = self._read(model, x, y, sample_weight, class_weight)
        if not model.built and x is not None:
            model(keras.tree.map_structure(lambda leaf: leaf[:2], x))
        functional.data.check_built(model)
        chosen = _choose_layers(model)
        bar = functional.progress.Progress(
            "initialization",
            sum(num_units(layer) for layer in chosen),
            int(self.verbose),
            unit="units",
        )
        before = [tf.identity(variable.value) for variable in model.variables]
        try:
            rng = np.random.default_rng(functional.seeds.check(self.seed))
            self._initialize(model, chosen, x, y, weights, rng, bar)
        except BaseException:
            for variable, value in zip(model.variables, before, strict=True):
                variable.assign(value)
            raise
        return model

    def _read(self, model, x, y, sample_weight, class_weight):
        is_batched = functional.sources.is_batched(x)
        for name, value in (("x", x), ("y", y)):
            if name in self.needs and value is None and not is_batched:
                raise ValueError(
                    f"{type(self).__name__} needs training data. "
                    f"Received: {name}=None"
                )
        if x is None:
            return None, None, None
        if is_batched and "y" not in self.needs and y is sample_weight is None:
            # Perhaps of inputs alone.
            parts = functional.sources.Batches(x).read()
            x, y, sample_weight = (*parts, None, None)[:3]
        given = y, sample_weight, class_weight
        is_alone = all(part is None for part in given)
        if is_alone and not functional.sources.is_batched(x):
            x, weights = functional.data.inputs(x), None
        else:
            x, y, weights, _ = functional.data.weighted(x, *given)
        if weights is not None and not self.weighs_examples:
            _validation.warn(
                f"Weights of examples have no effect on {type(self).__name__}, "
                "which has no likelihood for them to count in."
            )
        return functional.model_inputs.fit(model, x), y, weights

    def _initialize(self, model, chosen, x, y, weights, rng, bar):
        """Initializes the `chosen` layers of a built model.

        `x`, `y` and `weights`, `[N]`, are tensors or `None`; `bar` is a
        progress bar of units.
        """
        for layer in chosen:
            self._initialize_layer(layer, rng)
            bar.add(num_units(layer))

    def _initialize_layer(self, layer, rng):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_initialize_layer`"
        )


def check_batch_size(name, value):
    """Checks that an argument is an integer number of examples, 2 or more."""
    value = _validation.positive_integer(name, value)
    if value < 2:
        raise ValueError(
            f"`{name}` must be at least 2. Received: {name}={value}"
        )
    return value


def num_units(layer):
    """Returns the number of units of a layer, dense or convolutional."""
    return layer.columns(layer.kernel).shape[-1]


def fan_in(layer):
    """Returns the number of weights of a unit, without the bias."""
    return layer.columns(layer.kernel).shape[0]


def assign(layer, mean, variance, bias_mean=0.0, bias_variance=None):
    """Sets the posterior of a built layer.

    `mean` and `variance` are `[F, units]` (see `layers.linear_map`), those of
    the bias `[units]`, or broadcastable; `bias_variance` defaults to
    `variance`.
    """
    variance = tf.broadcast_to(variance, mean.shape)
    if bias_variance is None:
        bias_variance = variance[0]
    if layer.use_bias:
        bias_mean, bias_variance = (
            tf.reshape(
                tf.broadcast_to(value, mean.shape[-1:]), layer.bias.shape
            )
            for value in (bias_mean, bias_variance)
        )
    for weight in layer.variational_weights:
        if weight.name == "kernel":
            scale = tf.sqrt(variance)
            weight.initialize(layer.kernel_of(mean), layer.kernel_of(scale))
        elif weight.loc.trainable:
            weight.initialize(bias_mean, tf.sqrt(bias_variance))
    is_point = layer.use_bias and len(layer.variational_weights) == 1
    if is_point and layer.bias.trainable:
        layer.bias.assign(bias_mean)


def _choose_layers(model):
    chosen, skipped = [], []
    for layer in model._flatten_layers():
        weights = getattr(layer, "variational_weights", ())
        if not weights:
            continue
        names = [weight.name for weight in weights]
        known = (
            isinstance(layer, layers.VariationalLayer)
            and layer.has_design_matrix
        )
        if known and "kernel" in names and layer.kernel.trainable:
            chosen.append(layer)
        else:
            skipped.append(layer.name)
    if skipped:
        _validation.warn(
            "Not initialized, as they are frozen or of unknown kind: "
            f"{skipped}",
        )
    if not chosen:
        raise ValueError(
            f"The model '{model.name}' has no variational layer to initialize."
        )
    return chosen
