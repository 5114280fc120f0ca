"""Chains of the no-U-turn sampler, apart from models."""

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from tensorflow.python.framework import ops

from tfp_refine.sampling import chains


def test_the_gradient_of_a_target_does_not_keep_the_graph():
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
        tfp.mcmc.NoUTurnSampler(
            # TensorFlow registers the gradient of silu.
            lambda z: -tf.reduce_sum(tf.nn.silu(z) ** 2 + z**2, axis=-1),
            step_size=tf.constant(0.5),
            max_tree_depth=1,
        ),
        num_adaptation_steps=1,
    )
    before = len(ops.gradient_registry.list())
    trace = chains.sample(
        kernel, tf.zeros((1, 2)), 2, 1, jit_compile=False, verbose=0
    )
    assert np.all(np.isfinite(trace.z))
    assert len(ops.gradient_registry.list()) == before
