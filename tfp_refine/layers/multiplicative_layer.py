"""What the layers with multiplicative normalizing flows share."""

import functools
import math

import keras

from tfp_refine import _validation
from tfp_refine.layers import estimators
from tfp_refine.layers import flow_weights
from tfp_refine.layers import mean_field_posterior
from tfp_refine.layers import multiplicative_posterior

_AUXILIARY = ("log_precision", "paper")
_ESTIMATORS = ("local_reparameterization", "reparameterization")
_MAX_LOG_VAR = 40


class MultiplicativeLayer(estimators.LocalReparameterization):
    """Mixed into a layer that has `apply_kernel`; see the public layers.

    A subclass says along which axis of the kernel the multipliers go, `z_axis`,
    and applies them, in `multiplied_means`.
    """

    z_axis = None

    def __init__(
        self,
        *args,
        flow_length=2,
        flow_units=50,
        auxiliary_flow_length=2,
        auxiliary_flow_units=100,
        masks="random",
        auxiliary="log_precision",
        log_var_init=-9.0,
        z_var_init=0.01,
        max_std=None,
        inference_estimator="local_reparameterization",
        **kwargs,
    ):
        if "kernel_posterior" in kwargs:
            raise ValueError(
                f"{type(self).__name__} has a posterior of its own; it takes "
                "no `kernel_posterior`. Received: kernel_posterior="
                f"{kwargs['kernel_posterior']!r}"
            )
        settings = multiplicative_posterior.FlowSettings(
            _validation.not_negative_integer("flow_length", flow_length),
            _validation.positive_integer("flow_units", flow_units),
            _validation.not_negative_integer(
                "auxiliary_flow_length", auxiliary_flow_length
            ),
            _validation.positive_integer(
                "auxiliary_flow_units", auxiliary_flow_units
            ),
            _validation.one_of("masks", masks, flow_weights.MASKS),
            _validation.positive("z_var_init", z_var_init),
            _validation.one_of("auxiliary", auxiliary, _AUXILIARY),
        )
        log_var_init = _validation.finite("log_var_init", log_var_init)
        if abs(log_var_init) > _MAX_LOG_VAR:
            raise ValueError(
                f"`log_var_init` must be in [-{_MAX_LOG_VAR}, {_MAX_LOG_VAR}]. "
                f"Received: log_var_init={log_var_init}"
            )
        initial_scale = math.exp(0.5 * log_var_init)
        kwargs.setdefault(
            "bias_posterior",
            mean_field_posterior.MeanFieldPosterior(initial_scale),
        )
        super().__init__(
            *args,
            kernel_posterior=multiplicative_posterior.MultiplicativePosterior(
                settings, initial_scale, self.z_axis, kwargs.get("seed")
            )
            if settings.flow_length
            else mean_field_posterior.MeanFieldPosterior(initial_scale),
            **kwargs,
        )
        self._settings = settings
        self.log_var_init = log_var_init
        self.max_std = max_std
        if max_std is not None:
            self.max_std = _validation.positive("max_std", max_std)
        self.inference_estimator = _validation.one_of(
            "inference_estimator", inference_estimator, _ESTIMATORS
        )

    def call(self, inputs, sample=None, training=None):
        sample_outputs = self.sample_outputs
        if not training and self.inference_estimator == "reparameterization":
            sample_outputs = functools.partial(
                estimators.Reparameterization.sample_outputs, self
            )
        return self._call(inputs, sample, sample_outputs)

    def sample_outputs(self, inputs):
        """Computes pre-activations with noise and multipliers of their own."""
        if not self._settings.flow_length:
            return super().sample_outputs(inputs)
        kernel = self._weight_tensors["kernel"]
        batch_size = keras.ops.shape(inputs)[0]
        z, _ = kernel.draw_z((batch_size,), self.seed_generator)
        loc = keras.ops.cast(
            keras.ops.convert_to_tensor(kernel.loc), self.compute_dtype
        )
        outputs = self.multiplied_means(
            inputs, loc, keras.ops.cast(z, self.compute_dtype)
        )
        if self.use_bias:
            bias = self._weight_tensors["bias"].mean(self.compute_dtype)
            outputs = outputs + self.broadcast_bias(bias)
        outputs = estimators.with_correlations(self, inputs, outputs)
        return self.add_noise(inputs, outputs)

    def multiplied_means(self, inputs, loc, z):
        """Applies the kernel's means, with multipliers for each example.

        Args:
            inputs: Inputs of the layer, `[B, ...]`.
            loc: Means of the kernel.
            z: Multipliers, `[B, D]`.

        Returns:
            outputs: Pre-activations, without a bias.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `multiplied_means`"
        )

    def add_variational_weight(self, name, shape):
        weight = super().add_variational_weight(name, shape)
        if name == "kernel":
            weight.max_std = self.max_std
        return weight

    def get_config(self):
        config = {
            **super().get_config(),
            **self._settings._asdict(),
            "log_var_init": self.log_var_init,
            "max_std": self.max_std,
            "inference_estimator": self.inference_estimator,
        }
        del config["kernel_posterior"]  # not an argument
        return config
