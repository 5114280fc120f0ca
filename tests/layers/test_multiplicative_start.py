"""Initial values of the multipliers of MNF layers, and their KL."""

import numpy as np
import pytest

from tests.support import multiplicative_draws
from tfp_refine import layers


@pytest.mark.parametrize("size", [2, 5, 40])
@pytest.mark.parametrize("masks", ["random", "alternating"])
def test_multipliers_start_near_one(size, masks):
    layer = layers.DenseMNF(2, masks=masks, seed=3)
    layer.build((None, size))
    weight = layer.variational_weights[0]
    z, _ = weight.draw_z((20000,), layer.seed_generator)
    np.testing.assert_allclose(np.mean(z, axis=0), 1.0, atol=0.05)
    assert np.all(np.std(z, axis=0) < np.sqrt(0.011))
    assert np.all(np.std(z, axis=0) > 0.06)
    np.testing.assert_allclose(weight.mean_z(), 1.0, atol=0.05)


def test_the_multiplier_of_a_single_input_starts_near_one():
    layer = layers.DenseMNF(2, seed=3)
    layer.build((None, 1))
    z, _ = layer.variational_weights[0].draw_z((20000,), layer.seed_generator)
    np.testing.assert_allclose(np.mean(z, axis=0), 1.0, atol=0.1)


def cost(size, **arguments):
    """Returns the cost of each multiplier at the start, in nats."""
    layer = layers.DenseMNF(3, num_train_examples=1, seed=1, **arguments)
    layer.build((None, size))
    weight = layer.variational_weights[0]
    # The prior, whatever the multipliers are: the rest is their cost.
    weight.loc.assign(np.zeros((size, 3)))
    weight.untransformed_scale.assign(np.full((size, 3), np.log(np.expm1(1.0))))
    draws = multiplicative_draws.repeat(
        lambda: weight.kl(seed=layer.seed_generator), 500
    )
    return np.mean(draws) / size


@pytest.mark.slow
@pytest.mark.parametrize("z_var_init", [0.1, 0.01])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_at_first_multipliers_cost_next_to_nothing(size, z_var_init):
    assert 0.0 < cost(size, z_var_init=z_var_init) < 0.3


def test_in_the_papers_form_they_cost_more():
    # There r(z|W) starts far from q(z).
    assert cost(40, auxiliary="paper") > 1.5
