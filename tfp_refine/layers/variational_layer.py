"""What all variational layers share: weights, their KL, and when to sample."""

import math

import keras

from tfp_refine import regularizers
from tfp_refine.layers import linear_map
from tfp_refine.layers import mean_weights
from tfp_refine.layers import observed_inputs
from tfp_refine.layers import posterior_layer
from tfp_refine.layers import pruning
from tfp_refine.layers import variational_weight

# Arguments of Keras' layers that describe a deterministic kernel only.
_DETERMINISTIC_ONLY = ("lora_rank", "lora_alpha", "quantization_config")


@keras.saving.register_keras_serializable(package="tfp_refine")
class VariationalLayer(
    linear_map.LinearMap, pruning.PrunableUnits, posterior_layer.PosteriorLayer
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
        super().__init__(
            num_train_examples=num_train_examples,
            kl_scale=kl_scale,
            sample=sample,
            seed=seed,
            activity_regularizer=activity_regularizer,
            **kwargs,
        )
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.kernel_constraint = keras.constraints.get(kernel_constraint)
        self.bias_constraint = keras.constraints.get(bias_constraint)
        self.supports_masking = True
        self._fan_in = None
        self.set_posterior("kernel", kernel_regularizer, kernel_posterior)
        self.set_posterior("bias", bias_regularizer, bias_posterior)

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
                self.set_prior(weight, regularizer, self._fan_in)
        self.keep_weight(name, weight)
        return weight

    def _add_posterior(self, name, posterior, arguments):
        add_weight = self.add_full_precision_weight
        loc = add_weight(name=f"{name}_loc", **arguments)
        axes = self.unit_axes if name == "kernel" else (-1,)
        return posterior.build(add_weight, name, loc, axes)

    def fan_in(self, kernel_shape):
        """Returns the number of inputs of a unit, for the scale of priors.

        Args:
            kernel_shape: Shape of the kernel.

        Returns:
            fan_in: Positive integer.
        """
        return math.prod(kernel_shape[:-1])

    @property
    def kernel(self):
        """Variable of the kernel's mean, as `keras.layers.Dense.kernel`."""
        return self._weight_tensors["kernel"].loc

    @property
    def bias(self):
        """Variable of the bias' mean, or `None` without a bias."""
        return self._weight_tensors["bias"].loc if self.use_bias else None

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
        self.attach_kl()
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
            "activity_regularizer": serialize(self.activity_regularizer),
            "kernel_constraint": serialize(self.kernel_constraint),
            "bias_constraint": serialize(self.bias_constraint),
            **self.posterior_config("kernel", "bias"),
        }
