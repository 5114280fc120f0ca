"""Arguments of layers about posteriors, checked and kept."""

from collections.abc import Mapping
from typing import Any

import keras

from tfp_refine import regularizers
from tfp_refine.layers import argument_types
from tfp_refine.layers import kl_weight
from tfp_refine.layers import posterior_lookup
from tfp_refine.layers import random_layer
from tfp_refine.layers import variational_weight

Weight = variational_weight.VariationalWeight | variational_weight.PointWeight

# Arguments of Keras layers that describe a deterministic kernel only.
_DETERMINISTIC_ONLY = (
    "lora_rank",
    "lora_alpha",
    "quantization_config",
    "gptq_unpacked_column_size",
)


class PosteriorArguments(kl_weight.WeighsKL, random_layer.DrawingLayer):
    """Base of layers that take posteriors of their weights as arguments.

    Also of those whose weights are in layers inside.
    """

    # Whether the outputs are computed with draws of the weights themselves.
    draws_weights = False
    sample: bool

    def set_posterior(
        self,
        name: str,
        regularizer: argument_types.Regularizer,
        posterior: argument_types.Posterior,
    ) -> None:
        """Checks and keeps how the weight tensor `name` is distributed."""
        prior = regularizers.get(regularizer)
        family = posterior_lookup.get(posterior)
        setattr(self, f"{name}_regularizer", prior)
        setattr(self, f"{name}_posterior", family)
        if family is None or prior is None:
            return
        if not regularizers.is_kl(prior):
            raise ValueError(
                f"`{name}_regularizer` must be a KL regularizer (or None) for "
                f"a {name} with a posterior. To train a point estimate with a "
                f"Keras regularizer, set {name}_posterior=None, in a layer "
                "that has this argument. "
                f"Received: {name}_regularizer={prior}"
            )
        if prior.needs_draw and not self.draws_weights:
            raise ValueError(
                f"`{self.regularizer_argument(name)}` "
                f"{type(prior).__name__} is estimated from the draw of "
                "the weights that the outputs are computed with. "
                f"{type(self).__name__} draws no weights: use a "
                "`...Reparameterization` layer."
            )

    def regularizer_argument(self, name: str) -> str:
        """Returns the name of the argument for the kernel or the bias."""
        return f"{name}_regularizer"

    @property
    def variational_weights(
        self,
    ) -> list[variational_weight.VariationalWeight]:
        """The layer's own weights with posteriors; not of layers inside."""
        return []

    @property
    def twin_weights(self) -> dict[str, Weight]:
        """Weight tensors, by the attributes of the Keras layer with them.

        Such as "kernel"; "query_dense.kernel" in a layer inside.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `twin_weights`"
        )

    # Methods of Keras for deterministic kernels.

    def quantize(
        self, mode: Any = None, type_check: bool = True, config: Any = None
    ) -> None:
        """Raises a `NotImplementedError`: weights are distributions."""
        del mode, type_check, config
        raise NotImplementedError(
            f"Layer '{self.name}' ({type(self).__name__}) cannot be quantized, "
            "as its weights are distributions. Quantize a deterministic copy: "
            "`tfp_refine.models.to_deterministic(model).quantize(...)`."
        )

    def enable_lora(self, rank: int, **options: Any) -> None:
        """Raises a `NotImplementedError`: posteriors have no adapters."""
        del rank, options
        raise NotImplementedError(
            f"Layer '{self.name}' ({type(self).__name__}) has a posterior of "
            "its whole kernel, and no low-rank adapters (LoRA). Choose other "
            "layers with `layers` of `tfp_refine.models.to_bayesian`; those "
            "with adapters are copied as they are."
        )

    # Configuration.

    def posterior_config(self, *names: str) -> dict[str, Any]:
        """Returns the configuration of priors and posteriors by name."""
        serialize = keras.saving.serialize_keras_object
        config = {}
        for name in names:
            config[f"{name}_regularizer"] = _serialize_shared(
                getattr(self, f"{name}_regularizer")
            )
            config[f"{name}_posterior"] = serialize(
                getattr(self, f"{name}_posterior")
            )
        return config

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_train_examples": self.num_train_examples,
            "kl_scale": self._kl_weight.initial_kl_scale,
            "sample": self.sample,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "PosteriorArguments":
        """Creates a layer from its configuration, or its Keras twin's."""
        config = dict(config)
        for name in _DETERMINISTIC_ONLY:
            if config.pop(name, None) is not None:
                raise ValueError(
                    f"`{name}` needs a deterministic kernel; {cls.__name__} "
                    "does not support it."
                )
        return super().from_config(config)


def _serialize_shared(regularizer: Any) -> Any:
    """Serializes an object that layers may share, as a file keeps it shared.

    Keras notices at the second time that an object is shared, and then may have
    copied the config of the first time: so this is the second time.
    """
    keras.saving.serialize_keras_object(regularizer)
    return keras.saving.serialize_keras_object(regularizer)
