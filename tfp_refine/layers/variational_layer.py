"""What all variational layers share: weights, their KL, and when to sample."""

import math

import keras

from tfp_refine import regularizers
from tfp_refine.layers import kl_weight
from tfp_refine.layers import linear_map
from tfp_refine.layers import mean_weights
from tfp_refine.layers import observed_inputs
from tfp_refine.layers import posterior_lookup
from tfp_refine.layers import pruning
from tfp_refine.layers import variational_weight

# Arguments of Keras' layers that describe a deterministic kernel only.
_DETERMINISTIC_ONLY = ("lora_rank", "lora_alpha", "quantization_config")


@keras.saving.register_keras_serializable(package="tfp_refine")
class VariationalLayer(
    linear_map.LinearMap, pruning.PrunableUnits, keras.layers.Layer
):
    """Base of layers that apply a random linear map, a bias, an activation.

    A subclass names the map (`apply_kernel`: a product, a convolution), and
    creates its weights in `build` through `add_variational_weight`. A class of
    `estimators` says how its random outputs are drawn. The arguments are those
    of the public layers.
    """

    def __init__(
        self,
        activation=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        kernel_regularizer="gaussian_kl",
        bias_regularizer="gaussian_kl",
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        kernel_posterior="mean_field",
        bias_posterior="mean_field",
        num_train_examples=None,
        kl_scale=1.0,
        sample=True,
        seed=None,
        **kwargs,
    ):
        for name in _DETERMINISTIC_ONLY:
            if kwargs.pop(name, None) is not None:
                raise ValueError(
                    f"`{name}` needs a deterministic kernel; "
                    f"{type(self).__name__} does not support it."
                )
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.kernel_posterior = posterior_lookup.get(kernel_posterior)
        self.bias_posterior = posterior_lookup.get(bias_posterior)
        self.sample = bool(sample)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self.supports_masking = True
        self._weight_tensors = {}
        self._shared_prior_weights = {}
        self._fan_in = None
        self._kl_weight = kl_weight.KLWeight(kl_scale)
        self._kl_weight.num_train_examples = num_train_examples
        for name in ("kernel", "bias"):
            self._check_regularizer(name)

    def _check_regularizer(self, name):
        regularizer = getattr(self, f"{name}_regularizer")
        if getattr(self, f"{name}_posterior") is None or regularizer is None:
            return
        if not regularizers.is_kl(regularizer):
            raise ValueError(
                f"`{name}_regularizer` must be a KL regularizer (or None) for "
                f"a {name} with a posterior. To train a point estimate with a "
                f"Keras regularizer, set {name}_posterior=None, in a layer "
                "that has this argument. "
                f"Received: {name}_regularizer={regularizer}"
            )
        if regularizer.needs_draw and not self.draws_weights:
            raise ValueError(
                f"`{self.regularizer_argument(name)}` "
                f"{type(regularizer).__name__} is "
                "estimated from the draw of the weights that the outputs are "
                f"computed with, and {type(self).__name__} computes them with "
                "none: use a `...Reparameterization` layer."
            )

    def regularizer_argument(self, name):
        """Returns the name of the argument for the kernel or the bias."""
        return f"{name}_regularizer"

    # Weights.

    def add_variational_weight(self, name, shape):
        """Creates the kernel or the bias as this layer's arguments say.

        Args:
            name: "kernel" or "bias".
            shape: Shape of the weight tensor.

        Returns:
            weight: `VariationalWeight`, or `PointWeight` if it has no
                posterior.
        """
        regularizer = getattr(self, f"{name}_regularizer")
        posterior = getattr(self, f"{name}_posterior")
        arguments = {
            "shape": shape,
            "initializer": getattr(self, f"{name}_initializer"),
            "constraint": getattr(self, f"{name}_constraint"),
        }
        if name == "kernel":
            self._fan_in = self.fan_in(shape)
        if posterior is None:
            is_kl = regularizers.is_kl(regularizer)
            weight = variational_weight.PointWeight(
                name,
                self.add_weight(
                    name=name,
                    regularizer=None if is_kl else regularizer,
                    **arguments,
                ),
            )
        else:
            weight = self._add_posterior(name, posterior, arguments)
            if regularizer is not None:
                self._set_prior(weight, regularizer)
        self._weight_tensors[name] = weight
        if isinstance(weight, variational_weight.VariationalWeight):
            self._kl_weight.build(
                "float64" if self.variable_dtype == "float64" else "float32"
            )
            self._attach_kl(weight)
        return weight

    def _add_posterior(self, name, posterior, arguments):
        add_weight = self._add_full_precision_weight
        loc = add_weight(name=f"{name}_loc", **arguments)
        axes = self.unit_axes if name == "kernel" else (-1,)
        return posterior.build(add_weight, name, loc, axes)

    def _set_prior(self, weight, regularizer):
        regularizer = regularizer.for_fan_in(self._fan_in)
        site = regularizers.PriorSite(
            weight.name,
            weight.loc,
            self._add_full_precision_weight,
            self._shared_prior_weights,
        )
        weight.set_prior(regularizer, regularizer.prior_weights(site))

    def fan_in(self, kernel_shape):
        """Returns the number of inputs of a unit, for the scale of priors.

        Args:
            kernel_shape: Shape of the kernel.

        Returns:
            fan_in: Positive integer.
        """
        return math.prod(kernel_shape[:-1])

    def _add_full_precision_weight(self, **kwargs):
        # Not autocast: a KL divergence summed in half precision overflows.
        return self.add_weight(autocast=False, **kwargs)

    @property
    def variational_weights(self):
        """List of the layer's `VariationalWeight`s; empty before `build`."""
        return [
            weight
            for weight in self._weight_tensors.values()
            if isinstance(weight, variational_weight.VariationalWeight)
        ]

    @property
    def kernel(self):
        """Variable of the kernel's mean, as `keras.layers.Dense.kernel`."""
        return self._weight_tensors["kernel"].loc

    @property
    def bias(self):
        """Variable of the bias' mean, or `None` without a bias."""
        return self._weight_tensors["bias"].loc if self.use_bias else None

    # KL divergence.

    @property
    def num_train_examples(self):
        """Number of training examples that the KL is divided by."""
        return self._kl_weight.num_train_examples

    @num_train_examples.setter
    def num_train_examples(self, value):
        self._kl_weight.num_train_examples = value

    @property
    def kl_scale(self):
        """Scalar variable, a factor on the KL; `None` before `build`."""
        return self._kl_weight.kl_scale

    def _attach_kl(self, weight):
        """Hangs the KL on a variable, as that variable's regularizer.

        Keras evaluates the regularizer of a trainable variable once a step,
        however often the layer is called, with the value of the variable that
        is current there. So the KL is counted once, also for shared layers. It
        hangs on the mean or, when the mean is frozen, on what the scale is of.
        """
        if weight.regularizer is None:
            return
        variables = (weight.loc, *weight.scale_weights)
        for variable in variables:
            variable.regularizer = None
        if weight.loc.trainable:
            weight.loc.regularizer = lambda loc: self._scaled_kl(weight, loc)
            return
        for variable in variables:
            if variable.trainable:
                variable.regularizer = lambda _: self._scaled_kl(weight, None)
                return

    def _scaled_kl(self, weight, loc):
        kl = weight.kl(loc, self.seed_generator)
        return self._kl_weight.apply(kl, self.name)

    # Forward pass.

    def apply_kernel(self, inputs, kernel):
        """Applies the layer's linear map with the given kernel."""
        raise NotImplementedError(
            f"{type(self).__name__} must implement `apply_kernel`"
        )

    def call(self, inputs, sample=None):
        return self._call(inputs, sample, self.sample_outputs)

    def _call(self, inputs, sample, sample_outputs):
        """Calls the layer; `sample_outputs` computes random outputs."""
        for weight in self.variational_weights:
            self._attach_kl(weight)  # `trainable` may have changed
        if sample is None:
            sample = self.sample and not mean_weights.is_active()
        inputs = keras.ops.cast(inputs, self.compute_dtype)
        observed_inputs.notify(self, inputs)
        outputs = (
            sample_outputs(inputs) if sample else self.mean_outputs(inputs)
        )
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def mean_outputs(self, inputs):
        """Computes the pre-activations at the posterior means."""
        kernel = self._weight_tensors["kernel"].mean(self.compute_dtype)
        outputs = self.apply_kernel(inputs, kernel)
        if self.use_bias:
            bias = self._weight_tensors["bias"].mean(self.compute_dtype)
            outputs = outputs + self.broadcast_bias(bias)
        return outputs

    def broadcast_bias(self, bias):
        """Reshapes the bias so that it can be added to the outputs."""
        return bias

    # Configuration.

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": serialize(self.kernel_initializer),
            "bias_initializer": serialize(self.bias_initializer),
            "kernel_regularizer": _serialize_shared(self.kernel_regularizer),
            "bias_regularizer": _serialize_shared(self.bias_regularizer),
            "activity_regularizer": serialize(self.activity_regularizer),
            "kernel_constraint": serialize(self.kernel_constraint),
            "bias_constraint": serialize(self.bias_constraint),
            "kernel_posterior": serialize(self.kernel_posterior),
            "bias_posterior": serialize(self.bias_posterior),
            "num_train_examples": self.num_train_examples,
            "kl_scale": self._kl_weight.initial_kl_scale,
            "sample": self.sample,
            "seed": self.seed,
        }


def _serialize_shared(regularizer):
    """Serializes an object that layers may share, as a file keeps it shared.

    Keras notices at the second time that an object is shared, and then may have
    copied the config of the first time: so this is the second time.
    """
    keras.saving.serialize_keras_object(regularizer)
    return keras.saving.serialize_keras_object(regularizer)
