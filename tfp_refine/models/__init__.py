"""Models with variational layers, as functions that return a Keras model."""

from tfp_refine.models.alexnet import AlexNet
from tfp_refine.models.bayesian import to_bayesian
from tfp_refine.models.bayesian import to_deterministic
from tfp_refine.models.bayesian import to_gaussian
from tfp_refine.models.dropout import to_mc_dropout
from tfp_refine.models.lenet5 import LeNet5
from tfp_refine.models.lenet5 import LeNet5MNF
from tfp_refine.models.mlp import MLP
from tfp_refine.models.resnet import ResNet
from tfp_refine.models.resnet import ResNet20
from tfp_refine.models.resnet18 import ResNet18
from tfp_refine.models.shufflenet import ShuffleNet
from tfp_refine.models.text_transformer import TextTransformer
from tfp_refine.models.vision_transformer import VisionTransformer
from tfp_refine.models.wide_resnet import WideResNet

__all__ = [
    "AlexNet",
    "LeNet5",
    "LeNet5MNF",
    "MLP",
    "ResNet",
    "ResNet18",
    "ResNet20",
    "ShuffleNet",
    "TextTransformer",
    "VisionTransformer",
    "WideResNet",
    "to_bayesian",
    "to_deterministic",
    "to_gaussian",
    "to_mc_dropout",
]
