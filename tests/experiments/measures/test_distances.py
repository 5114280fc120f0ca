"""With which samples of NUTS a system is compared."""

import types

import numpy as np
import pytest

from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.measures import distances
from tfp_refine.experiments.systems import registry


def test_halves_are_of_different_chains():
    samples = np.arange(2 * 4 * 3).reshape(2, 4, 3)
    first, second = distances.halves(samples)
    np.testing.assert_array_equal(first, samples[:, ::2].reshape(4, 3))
    np.testing.assert_array_equal(second, samples[:, 1::2].reshape(4, 3))
    assert first.dtype == np.float64


def test_halves_of_one_chain_are_every_other_sample():
    samples = np.arange(5 * 2).reshape(5, 1, 2)
    first, second = distances.halves(samples)
    np.testing.assert_array_equal(first, samples[::2, 0])
    np.testing.assert_array_equal(second, samples[1::2, 0])


def reference(system, *others):
    expressions = {
        text: registry.parse(text, fields.Bench) for text in (*others, system)
    }
    found = distances.reference_of(
        types.SimpleNamespace(
            expression=expressions[system],
            bench=types.SimpleNamespace(expressions=lambda: expressions),
        )
    )
    return found and registry.short(found)


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("map", "nuts"),
        ("laplace", "nuts"),
        ("flows(flow_length=1)", "nuts"),
        ("nuts", "nuts"),
        ("nuts(nuts_samples=9)", "nuts"),
        ("laplace_all", "nuts(laplace_all)"),
        ("flows(laplace_all)", "nuts(laplace_all)"),
        ("refined(laplace)", "nuts"),
        ("refined(laplace_all)", "nuts(laplace_all)"),
        ("nuts(laplace_all)", "nuts(laplace_all)"),
        ("laplace(hessian=diag)", "nuts(laplace(hessian=diag))"),
        ("flows(laplace(hessian=kron))", "nuts"),
        ("temperature", None),
        ("deep_ensemble", None),
        ("vi", None),
        ("refined", None),
        ("mc_dropout", None),
    ],
)
def test_the_reference_samples_what_a_system_approximates(system, expected):
    others = ("nuts", "nuts(laplace_all)", "nuts(laplace(hessian=diag))")
    assert reference(system, *others) == expected


def test_without_nuts_there_is_no_distance():
    assert reference("laplace", "map") is None
    assert reference("laplace", "nuts(laplace_all)") is None
