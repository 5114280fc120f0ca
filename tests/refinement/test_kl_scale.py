"""Tests of the factor on the KL divergence, of all members or of each."""

import keras
import numpy as np
import pytest

from tests.support import linear_gaussian
from tfp_refine import refinement

CASE = linear_gaussian.LinearGaussian()
BOUNDS = ("elbo_init", "elbo_final", "elbo_conditioned", "elbo_aux")


@pytest.fixture
def _double():
    keras.config.set_floatx("float64")
    yield
    keras.config.set_floatx("float32")


def refine(kl_scale=1.0, **options):
    defaults = {
        "num_members": 2,
        "variance_ratios": (0.5, 0.5),
        "steps": 20,
        "learning_rate": 0.01,
        "seed": 1,
        "verbose": 0,
    }
    return refinement.refine(
        CASE.model(), CASE.x, CASE.y, kl_scale=kl_scale, **defaults | options
    )


@pytest.mark.usefixtures("_double")
@pytest.mark.parametrize(
    "mapping", ["map", pytest.param("vmap", marks=pytest.mark.slow)]
)
def test_it_is_a_weight_of_the_examples(mapping):
    scaled = refine(0.25, mapping=mapping)
    count = len(CASE.x)
    weights = np.full(count, 4.0)
    weighted = refine(sample_weight=weights, mapping=mapping)
    # The same gradients but for a factor, which Adam takes out.
    np.testing.assert_allclose(scaled.params, weighted.params, atol=1e-5)
    for name in BOUNDS:
        np.testing.assert_allclose(
            scaled.history[name], 0.25 * weighted.history[name], rtol=1e-5
        )
    np.testing.assert_allclose(
        scaled.history["trace_elbo"],
        0.25 * weighted.history["trace_elbo"],
        rtol=1e-4,
    )
    assert not np.allclose(scaled.params, refine(mapping=mapping).params, 1e-2)


@pytest.mark.slow
def test_each_member_has_its_own():
    both = refine([1.0, 0.1])
    for member, kl_scale in enumerate((1.0, 0.1)):
        alone = refine(kl_scale, members=[member])
        np.testing.assert_array_equal(both.params[member], alone.params[0])
        for name in BOUNDS:
            np.testing.assert_array_equal(
                both.history[name][member], alone.history[name][0]
            )
    of_second = refine([1.0, 0.1], members=[1])
    np.testing.assert_array_equal(of_second.params[0], both.params[1])


def test_a_checkpoint_of_another_factor_is_refused(tmp_path):
    refine([1.0, 0.1], checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="kl_scale"):
        refine([0.1, 1.0], checkpoint_dir=tmp_path)


def test_some_members_have_the_factors_of_theirs():
    found = linear_gaussian.settings(
        num_members=2, kl_scale=[1.0, 0.1], members=[1]
    )
    assert found.kl_scale == (0.1,)


@pytest.mark.parametrize(
    "kl_scale", [0.0, -1.0, np.nan, "cold", [1.0], [1.0, 0.0], [1.0, 1.0, 1.0]]
)
def test_other_values_are_refused(kl_scale):
    with pytest.raises(ValueError, match="kl_scale"):
        refine(kl_scale)
    with pytest.raises(ValueError, match="kl_scale"):
        refinement.RefinementCallback(
            CASE.x, CASE.y, num_members=2, kl_scale=kl_scale
        )


def test_a_factor_for_each_member_needs_their_number():
    with pytest.raises(ValueError, match="kl_scale"):
        refine([1.0, 0.1], members=[2])
