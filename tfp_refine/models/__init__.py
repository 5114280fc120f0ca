"""Models with variational layers, as functions that return a Keras model."""

from tfp_refine.models.bayesian import to_bayesian
from tfp_refine.models.bayesian import to_deterministic
from tfp_refine.models.bayesian import to_gaussian
from tfp_refine.models.dropout import to_mc_dropout
from tfp_refine.models.lenet5 import LeNet5
from tfp_refine.models.lenet5 import LeNet5MNF
from tfp_refine.models.mlp import MLP
from tfp_refine.models.resnet import ResNet
from tfp_refine.models.resnet import ResNet20

__all__ = [
    "LeNet5",
    "LeNet5MNF",
    "MLP",
    "ResNet",
    "ResNet20",
    "to_bayesian",
    "to_deterministic",
    "to_gaussian",
    "to_mc_dropout",
]
