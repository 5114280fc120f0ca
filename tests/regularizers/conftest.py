import pytest
import tensorflow as tf


@pytest.fixture
def posterior(rng):
    """Means and standard deviations, float64, `[6, 5]`."""
    return (
        tf.constant(rng.normal(size=(6, 5))),
        tf.constant(rng.uniform(0.1, 1.0, size=(6, 5))),
    )
