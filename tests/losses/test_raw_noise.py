import numpy as np
import pytest

from tfp_refine import losses

KINDS = ["log_variance", "softplus_scale", "softplus_variance"]


@pytest.mark.parametrize("noise", KINDS)
@pytest.mark.parametrize("scale", [1.2e-3, 0.01, 0.3, 1.0, 12.0])
def test_a_raw_value_is_read_as_the_noise_it_was_made_of(noise, scale):
    loss = losses.HeteroscedasticGaussianNLL(noise)
    raw = loss.raw_noise(scale)
    assert isinstance(raw, float)
    _, found = loss.loc_and_scale(np.array([[0.0, raw]]))
    np.testing.assert_allclose(found, [[scale]], rtol=1e-6)


def test_raw_values_are_what_the_docstring_says():
    found = [
        losses.HeteroscedasticGaussianNLL(noise).raw_noise(0.5)
        for noise in KINDS
    ]
    expected = [
        np.log(0.25),
        np.log(np.expm1(0.5)),
        np.log(np.expm1(0.25 - 1e-6)),
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("noise", KINDS)
def test_less_noise_than_there_is_becomes_little_noise(noise):
    loss = losses.HeteroscedasticGaussianNLL(noise)
    raw = loss.raw_noise(1e-12)
    _, scale = loss.loc_and_scale(np.array([[0.0, raw]]))
    assert np.isfinite(raw)
    assert 0.0 < float(scale[0, 0]) < 2e-3
