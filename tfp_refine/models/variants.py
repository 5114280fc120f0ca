"""Networks of which all layers have posteriors, or some, or none."""

import keras

from tfp_refine import _validation
from tfp_refine.layers import argument_checks
from tfp_refine.models import layer_maker

VARIATIONAL = ("none", "hybrid", "full")


class Variant:
    """Makes the layers of a network, with posteriors or without.

    `since` names the first of `VARIATIONAL` in which a layer has posteriors:
    "hybrid", "full", or `None`, in none of them.

    Args:
        arguments: Those of the network, its `locals()`. Keras layers get an
            `l2` among them as the factor of their kernels' penalty.
    """

    def __init__(self, arguments):
        self._arguments = arguments
        self._index = VARIATIONAL.index(
            _validation.one_of(
                "variational", arguments["variational"], VARIATIONAL
            )
        )
        self._maker = layer_maker.LayerMaker(arguments["seed"], arguments)
        self.make = self._maker.make
        self._deterministic = {
            "kernel_initializer": arguments["kernel_initializer"]
        }
        if arguments.get("l2") is not None and _validation.not_negative(
            "l2", arguments["l2"]
        ):
            self._deterministic["kernel_regularizer"] = keras.regularizers.L2(
                arguments["l2"]
            )

    def __call__(self, argument, of_keras, *args, since, **arguments):
        """Makes a layer of the class that an argument of the network names.

        Without posteriors it is of the class of Keras.
        """
        if since is not None and VARIATIONAL.index(since) <= self._index:
            return self._maker(
                self._arguments[argument],
                *args,
                argument=argument,
                **arguments,
            )
        given = layer_maker.renamed(of_keras, self._deterministic)
        return self.make(of_keras, *args, **given, **arguments)

    def dense(self, units, *, since, **arguments):
        """Makes a dense layer."""
        return self(
            "dense_layer", keras.layers.Dense, units, since=since, **arguments
        )

    def conv(self, filters, kernel_size, *, since, **arguments):
        """Makes a convolution that keeps the size of images."""
        return self(
            "conv_layer",
            keras.layers.Conv2D,
            filters,
            kernel_size,
            since=since,
            padding="same",
            data_format="channels_last",
            **arguments,
        )

    def depthwise(self, kernel_size, **arguments):
        """Makes a depthwise convolution without a bias, of full networks."""
        kinds = "depthwise_layer", keras.layers.DepthwiseConv2D
        return self(
            *kinds,
            kernel_size,
            since="full",
            padding="same",
            data_format="channels_last",
            use_bias=False,
            **arguments,
        )

    def norm(self, name, activation=True):
        """Returns a function: batch normalization, and the activation."""

        def apply(x):
            x = keras.layers.BatchNormalization(name=f"{name}_bn")(x)
            if not activation:
                return x
            return self.activation(f"{name}_act")(x)

        return apply

    def activation(self, name):
        """Makes a layer of the network's activation."""
        activation = self._arguments["activation"]
        argument_checks.check({"activation": activation})
        return keras.layers.Activation(activation, name=name)

    def shortcut(self, x, filters, strides, name):
        """Applies a deterministic 1x1 convolution without a bias."""
        if strides > 1:
            # Subsampled first: a strided 1x1 convolution is the same, but in
            # TensorFlow 2.21 its filter gradient can corrupt memory on a CPU.
            x = pool(keras.layers.MaxPooling2D, 1, strides, f"{name}_pool")(x)
        return self.conv(filters, 1, since=None, use_bias=False, name=name)(x)


def pool(layer, size, strides, name):
    """Makes a pooling layer of Keras."""
    return layer(
        size,
        strides=strides,
        padding="same",
        data_format="channels_last",
        name=name,
    )


def head(make, x, num_classes):
    """Averages over positions; returns logits."""
    x = keras.layers.GlobalAveragePooling2D(
        data_format="channels_last", name="pool"
    )(x)
    return make.dense(num_classes, since="hybrid", name="outputs")(x)


def check_image_shape(input_shape, least):
    """Checks the shape of an image that a network makes `least` times smaller.

    Returns a tuple.
    """
    shape = _validation.image_shape("input_shape", input_shape)
    if min(shape[:2]) < least:
        raise ValueError(
            f"`input_shape` must be that of images of at least {least} x "
            f"{least}, as this network shrinks them. "
            f"Received: input_shape={shape}"
        )
    return shape
