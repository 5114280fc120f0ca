"""Flags of multiplicative normalizing flows (MNF)."""

import functools
import math

from absl import flags

from tfp_refine import layers

FLAGS = flags.FLAGS
flags.DEFINE_integer(
    "flow_length",
    2,
    "Of mnf: steps of the flow of the multipliers; 0 is mean field.",
    0,
)
flags.DEFINE_integer("flow_units", 50, "Hidden units of each of them.", 1)
flags.DEFINE_integer(
    "auxiliary_flow_length", 2, "Steps of the flow that bounds the KL.", 0
)
flags.DEFINE_integer(
    "auxiliary_flow_units", 100, "Hidden units of each of them.", 1
)
flags.DEFINE_float(
    "log_var_init",
    -9.0,
    "Of mnf and ffg: initial log variance of the weights.",
)
flags.DEFINE_float(
    "max_std",
    None,
    "Of mnf and ffg: largest standard deviation of weights in the outputs, or "
    "inf. The paper: 0.5 for MNIST, 0.4 for CIFAR-10. Defaults to 0.5 for "
    "`uncertainty`, else to inf.",
)
flags.DEFINE_enum(
    "inference_estimator",
    "local_reparameterization",
    ["local_reparameterization", "reparameterization"],
    "Of mnf and ffg: how outputs are drawn out of training: each by itself, or "
    "with one draw of the weights for a batch.",
)


def check():
    """Checks flags, before any work.

    Raises:
        ValueError: If one is invalid.
    """
    _, dense_layer = layer_classes()
    dense_layer(1)


def layer_classes(**changes):
    """Returns the classes of MNF layers, with the arguments that flags give.

    Args:
        **changes: Arguments with precedence over the flags.

    Returns:
        conv_layer: `Conv2DMNF`, a `functools.partial`.
        dense_layer: `DenseMNF`, a `functools.partial`.
    """
    arguments = {
        name: FLAGS[name].value
        for name in (
            "flow_length",
            "flow_units",
            "auxiliary_flow_length",
            "auxiliary_flow_units",
            "log_var_init",
            "max_std",
            "inference_estimator",
        )
    }
    if arguments["max_std"] == math.inf:
        arguments["max_std"] = None
    return tuple(
        functools.partial(layer, **arguments | changes)
        for layer in (layers.Conv2DMNF, layers.DenseMNF)
    )
