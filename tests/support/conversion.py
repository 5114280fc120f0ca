"""Models made Bayesian, and compared with the originals."""

import numpy as np

import tfp_refine as tfr

NUM_EXAMPLES = 100


def convert(model, **options):
    """Returns a copy with posteriors, always the same one."""
    options = {"num_train_examples": NUM_EXAMPLES, "seed": 1} | options
    return tfr.models.to_bayesian(model, **options)


def assert_equal_at_means(converted, model, x):
    """Asserts that the means compute as the model does, to the last bit."""
    with tfr.layers.mean_weights():
        np.testing.assert_array_equal(converted(x), model(x))
