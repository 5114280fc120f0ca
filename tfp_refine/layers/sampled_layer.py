"""Layers of Keras that are called with a draw of all their weights."""

import contextlib
import functools

import keras

from tfp_refine import _validation
from tfp_refine import regularizers
from tfp_refine.layers import mean_weights
from tfp_refine.layers import posterior_layer
from tfp_refine.layers import variational_weight


@keras.saving.register_keras_serializable(package="tfp_refine")
class SampledLayer(posterior_layer.PosteriorLayer):
    """Base of layers that draw their weights, and then do what Keras does.

    A subclass names its deterministic twin, `keras_layer`, whose variables are
    the posteriors' means, and in `parts` the beginnings of the names of their
    arguments, with the names of the variables. `sizes` are the names of the
    first arguments, which are positive integers.
    """

    draws_weights = True
    keras_layer = None
    parts = ()
    sizes = ()

    def __init__(
        self,
        *args,
        num_train_examples=None,
        kl_scale=1.0,
        sample=True,
        seed=None,
        name=None,
        dtype=None,
        trainable=True,
        **kwargs,
    ):
        super().__init__(
            num_train_examples=num_train_examples,
            kl_scale=kl_scale,
            sample=sample,
            seed=seed,
            name=name,
            dtype=dtype,
            trainable=trainable,
        )
        given = dict(zip(self.sizes, args, strict=False)) | kwargs
        for size in self.sizes:
            if size in given:
                _validation.positive_integer(size, given[size])
        for part, _ in self.parts:
            argument = f"{part}_regularizer"
            self.set_posterior(
                part,
                kwargs.pop(argument, "gaussian_kl"),
                kwargs.pop(f"{part}_posterior", "mean_field"),
            )
            regularizer = getattr(self, argument)
            if not regularizers.is_kl(regularizer):  # of a point estimate
                kwargs[argument] = regularizer
        self.layer = self.keras_layer(
            *args,
            name="deterministic",
            dtype=self.dtype_policy,
            trainable=trainable,
            **kwargs,
        )
        self.supports_masking = self.layer.supports_masking
        self.input_spec = self.layer.input_spec

    def owner(self):
        """Returns the layer that has the variables."""
        return self.layer

    def fan_in(self, part):
        """Returns the number of inputs of a unit, for the scale of priors."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `fan_in`"
        )

    def build(self, input_shape):
        owner = self.owner()
        # As of all posteriors: full precision, cast where it is used.
        owner.__dict__["add_weight"] = functools.partial(
            owner.add_weight, autocast=False
        )
        try:
            self.layer.build(input_shape)
        finally:
            del owner.__dict__["add_weight"]
        for part, variable_name in self.parts:
            loc = getattr(self.owner(), variable_name)
            if loc is None:  # as a bias may be
                continue
            name = variable_name.removeprefix("_")
            posterior = getattr(self, f"{part}_posterior")
            regularizer = getattr(self, f"{part}_regularizer")
            if posterior is None:
                self.keep_weight(
                    name, variational_weight.PointWeight(name, loc)
                )
                continue
            weight = posterior.build(
                self.add_full_precision_weight, name, loc, (-1,)
            )
            if regularizer is not None:
                self.set_prior(weight, regularizer, self.fan_in(part))
            self.keep_weight(name, weight)

    def call(self, inputs, sample=None, **kwargs):
        self.attach_kl()
        if sample is None:
            sample = self.sample and not mean_weights.is_active()
        with self._in_place(sample):
            return self.layer(inputs, **kwargs)

    @contextlib.contextmanager
    def _in_place(self, sample):
        """Puts draws, or the means, in the places of the variables."""
        owner, variables = self.owner(), {}
        names = {name.removeprefix("_"): name for _, name in self.parts}
        try:
            for weight in self.weight_tensors:
                value = (
                    weight.sample(self.seed_generator, self.compute_dtype)
                    if sample
                    else weight.mean(self.compute_dtype)
                )
                name = names[weight.name]
                variables[name] = getattr(owner, name)
                object.__setattr__(owner, name, value)  # not seen by Keras
            yield
        finally:
            for name, variable in variables.items():
                object.__setattr__(owner, name, variable)

    def compute_output_shape(self, input_shape):
        return self.layer.compute_output_shape(input_shape)

    def compute_mask(self, inputs, previous_mask=None):
        return self.layer.compute_mask(inputs, previous_mask)

    def get_config(self):
        prefixes = [part for part, _ in self.parts]
        config = self.layer.get_config() | super().get_config()
        return config | self.posterior_config(*prefixes)
