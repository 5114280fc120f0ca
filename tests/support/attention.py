"""The layers of attention, and sizes of heads for each."""

import functools

from tfp_refine import layers

MULTI_HEAD = (
    layers.MultiHeadAttentionReparameterization,
    layers.MultiHeadAttentionLocalReparameterization,
    layers.MultiHeadAttentionFlipout,
)
GROUP_QUERY = (
    layers.GroupQueryAttentionReparameterization,
    layers.GroupQueryAttentionLocalReparameterization,
    layers.GroupQueryAttentionFlipout,
)
ALL = (*MULTI_HEAD, *GROUP_QUERY)
# Heads and their size, or the size, the heads of queries and those of keys.
SIZES = {
    **dict.fromkeys(MULTI_HEAD, (2, 3)),
    **dict.fromkeys(GROUP_QUERY, (3, 4, 2)),
}


def self_attention(layer, **options):
    """Returns a function of tokens that attend to each other."""
    return functools.partial(_apply, layer, **options)


def _apply(layer, tokens, **options):
    return layer(tokens, tokens, **options)
