"""Sizes of the papers' networks, counted by hand."""

import keras
import numpy as np
import pytest

from tfp_refine import functional
from tfp_refine import models


def trainable(model):
    return sum(int(np.prod(v.shape)) for v in model.trainable_weights)


def dense(inputs, units):
    """Counts the weights of a layer with a bias."""
    return (inputs + 1) * units


def test_alexnet_has_the_original_convolutions():
    # Krizhevsky et al. on one GPU: 62,378,344 in all for 1000 classes.
    convolutions = (
        dense(11 * 11 * 3, 96)
        + dense(5 * 5 * 96, 256)
        + dense(3 * 3 * 256, 384)
        + dense(3 * 3 * 384, 384)
        + dense(3 * 3 * 384, 256)
    )
    original = dense(6 * 6 * 256, 4096) + dense(4096, 4096) + dense(4096, 1000)
    assert convolutions + original == 62378344
    # Images of 96x96 become 6x6 here too; the dense layers are those of Rossi
    # et al., whose images of 32x32 become 2x2.
    for size, positions in ((96, 36), (32, 4)):
        model = models.AlexNet((size, size, 3), variational="none")
        count = convolutions + (
            dense(positions * 256, 256) + dense(256, 256) + dense(256, 10)
        )
        assert trainable(model) == model.count_params() == count
    assert count == 4077962


def test_every_weight_of_alexnet_is_random():
    widths = (2, 3, 4, 5, 6, 7, 8)
    model = models.AlexNet((32, 32, 3), 10, widths=widths)
    count = (
        dense(121 * 3, 2)
        + dense(25 * 2, 3)
        + dense(9 * 3, 4)
        + dense(9 * 4, 5)
        + dense(9 * 5, 6)
        + dense(4 * 6, 7)
        + dense(7, 8)
        + dense(8, 10)
    )
    assert functional.MeanFieldView(model).size == count
    assert trainable(model) == 2 * count


def _resnet18(stem, classes):
    # Without biases; scales and offsets of the normalizations.
    count, before = stem * 3 * 64 + 2 * 64, 64
    for filters in (64, 128, 256, 512):
        count += 9 * before * filters + 3 * 9 * filters**2 + 4 * 2 * filters
        if filters > before:  # the shortcut
            count += before * filters + 2 * filters
        before = filters
    return count + dense(512, classes)


@pytest.mark.slow
def test_resnet18_has_the_published_number_of_weights():
    # torchvision's, as in the paper; and the usual one for CIFAR-10.
    assert _resnet18(49, 1000) == 11689512
    assert _resnet18(9, 10) == 11173962
    large = models.ResNet18((64, 64, 3), 1000, stem="large", variational="none")
    small = models.ResNet18((32, 32, 3), variational="none")
    assert trainable(large) == 11689512
    assert trainable(small) == 11173962
    # Images are 32 and 8 times smaller before they are averaged.
    assert large.get_layer("pool").input.shape == (None, 2, 2, 512)
    assert small.get_layer("pool").input.shape == (None, 4, 4, 512)


def _wide_resnet(depth, width, classes):
    count, before = 27 * 16, 16
    for filters in (16 * width, 32 * width, 64 * width):
        count += before * filters  # the shortcut
        for _ in range((depth - 4) // 6):
            count += 9 * before * filters + 9 * filters**2
            count += 2 * before + 2 * filters
            before = filters
    return count + 2 * before + dense(before, classes)


def test_wide_resnet_has_the_published_number_of_weights():
    # The authors' 36.5 million of WRN-28-10, and 2.7 of WRN-16-4.
    assert _wide_resnet(28, 10, 10) == 36479194
    assert _wide_resnet(16, 4, 10) == 2748890
    model = models.WideResNet((32, 32, 3), variational="none")
    assert trainable(model) == 2748890
    assert model.name == "wide_resnet_16_4"
    # As many features as Kristiadi et al. have in the last layer.
    assert model.get_layer("outputs").kernel.shape == (256, 10)
    deeper = models.WideResNet((4, 4, 3), depth=22, width=1, variational="none")
    assert trainable(deeper) == _wide_resnet(22, 1, 10) - 16 * 16


def _shufflenet(groups, filters, classes):
    count, before = 27 * 24 + 2 * 24, 24
    for stack, width in enumerate(filters):
        for block in range((4, 8, 4)[stack]):
            inner = width // 4
            last = width - (0 if block else before)
            first_groups = 1 if stack == block == 0 else groups
            count += before * inner // first_groups
            count += 9 * inner + inner * last // groups
            count += 2 * inner + 2 * inner + 2 * last
            before = width
    return count + dense(before, classes)


def _multiplications(model):
    """Counts those of all layers for one image."""
    total = 0
    for layer in model.layers:
        if isinstance(
            layer, keras.layers.DepthwiseConv2D | keras.layers.Conv2D
        ):
            _, height, width, _ = layer.output.shape
            total += height * width * int(np.prod(layer.kernel.shape))
        elif isinstance(layer, keras.layers.Dense):
            total += int(np.prod(layer.kernel.shape))
    return total


@pytest.mark.slow
def test_shufflenet_is_as_large_and_as_costly_as_the_original():
    # The authors' 1.9 million; 137 million multiplications in their table 2.
    count = _shufflenet(3, (240, 480, 960), 1000)
    assert count == 1865728
    model = models.ShuffleNet(
        (224, 224, 3), 1000, stem="large", variational="none"
    )
    assert trainable(model) == count
    np.testing.assert_allclose(_multiplications(model), 137e6, rtol=0.02)


def _encoder(tokens, width, depth, hidden):
    """Counts positions, blocks and the last normalization."""
    attention = 4 * dense(width, width)
    block = attention + dense(width, hidden) + dense(hidden, width)
    return tokens * width + depth * (block + 4 * width) + 2 * width


def test_vision_transformer_has_the_published_number_of_weights():
    # DeiT-Tiny without distillation, of 224x224 in patches of 16.
    patches = dense(16 * 16 * 3, 192)
    count = patches + 192 + _encoder(197, 192, 12, 768) + dense(192, 1000)
    assert count == 5717416
    model = models.VisionTransformer(
        (224, 224, 3), 1000, patch_size=16, variational="none"
    )
    assert trainable(model) == count


def test_text_transformer_has_the_published_number_of_weights():
    # BERT-Tiny's 4,385,920, with 30522 tokens, one of them for the class, and
    # 512 positions; without its two segments and its pooler.
    bert = 30522 * 128 + _encoder(512, 128, 2, 512)
    assert bert + 2 * 128 + dense(128, 128) == 4385920
    model = models.TextTransformer(30521, 511, variational="none")
    assert trainable(model) == bert + dense(128, 2)


def test_full_transformers_have_posteriors_of_all_maps():
    model = models.VisionTransformer(
        (8, 8, 1), 3, width=6, depth=2, hidden_units=5, variational="full"
    )
    blocks = 2 * (4 * dense(6, 6) + dense(6, 5) + dense(5, 6))
    view = functional.MeanFieldView(model)
    assert view.size == blocks + dense(6, 3)
