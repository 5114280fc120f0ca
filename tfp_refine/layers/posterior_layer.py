"""What all layers with posteriors share: their KL, and when to sample."""

import keras

from tfp_refine import regularizers
from tfp_refine.layers import kl_weight
from tfp_refine.layers import posterior_lookup
from tfp_refine.layers import random_layer
from tfp_refine.layers import variational_weight


class PosteriorLayer(kl_weight.WeighsKL, random_layer.RandomLayer):
    """Base of layers whose weights may have posteriors.

    A subclass puts its weights, by name, into `_weight_tensors` when it is
    built.

    Args:
        num_train_examples: Number of training examples.
        kl_scale: Factor on the KL divergence.
        sample: Whether calls draw the weights.
        seed: Integer seed of the draws.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    # Whether the outputs are computed with draws of the weights themselves.
    draws_weights = False

    def __init__(
        self,
        num_train_examples=None,
        kl_scale=1.0,
        sample=True,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.sample = bool(sample)
        self.seed = seed
        self.seed_generator = random_layer.SeedGenerator(seed)
        self._weight_tensors = {}
        self._shared_prior_weights = {}
        self._kl_weight = kl_weight.KLWeight(kl_scale)
        self._kl_weight.num_train_examples = num_train_examples

    def set_posterior(self, name, regularizer, posterior):
        """Checks and keeps how a weight tensor is distributed.

        Args:
            name: What the names of its arguments begin with, such as "kernel".
            regularizer: KL regularizer, its name, or `None`.
            posterior: Posterior family, its name, or `None`.

        Raises:
            ValueError: If they are invalid, or do not fit each other.
        """
        regularizer = regularizers.get(regularizer)
        posterior = posterior_lookup.get(posterior)
        setattr(self, f"{name}_regularizer", regularizer)
        setattr(self, f"{name}_posterior", posterior)
        if posterior is None or regularizer is None:
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

    def keep_weight(self, name, weight):
        """Keeps a weight tensor, and counts its KL divergence from now on.

        Args:
            name: Its name.
            weight: `VariationalWeight` or `PointWeight`.
        """
        self._weight_tensors[name] = weight
        if isinstance(weight, variational_weight.VariationalWeight):
            self._kl_weight.build(
                "float64" if self.variable_dtype == "float64" else "float32"
            )
            self._attach_kl(weight)

    def set_prior(self, weight, regularizer, fan_in):
        """Gives a weight tensor its prior.

        Args:
            weight: `VariationalWeight`.
            regularizer: `KLRegularizer`.
            fan_in: Number of inputs of a unit.
        """
        regularizer = regularizer.for_fan_in(fan_in)
        site = regularizers.PriorSite(
            weight.name,
            weight.loc,
            self.add_full_precision_weight,
            self._shared_prior_weights,
        )
        weight.set_prior(regularizer, regularizer.prior_weights(site))

    def add_full_precision_weight(self, **kwargs):
        """Creates a variable that is never cast to half precision."""
        # A KL divergence summed in half precision overflows.
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
    def weight_tensors(self):
        """List of these and of the `PointWeight`s; empty before `build`."""
        return list(self._weight_tensors.values())

    # KL divergence.

    def attach_kl(self):
        """Hangs the KL divergence of each weight on a variable.

        In each call, as `trainable` may have changed.
        """
        for weight in self.variational_weights:
            self._attach_kl(weight)

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

    # Configuration.

    def posterior_config(self, *names):
        """Returns the configuration of how weight tensors are distributed.

        Args:
            *names: What the names of their arguments begin with.

        Returns:
            config: Dict.
        """
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

    def get_config(self):
        return {
            **super().get_config(),
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
