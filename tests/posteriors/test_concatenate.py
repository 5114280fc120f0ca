"""Tests of ensembles that are joined to one."""

import keras
import numpy as np
import pytest

from tests.support import posterior_cases
from tfp_refine import functional
from tfp_refine import posteriors

X = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)


def build(units=2):
    return keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(units),
        ]
    )


def ensemble(seed, num_members, stacked=True, units=2):
    """Returns an ensemble of points that differ in their statistics, too."""
    rng, view = np.random.default_rng(seed), functional.WeightView(build(units))
    params = rng.normal(size=(num_members, view.size)).astype(np.float32)
    lead = (num_members,) if stacked else ()
    fixed = [
        rng.uniform(1.0, 2.0, size=(*lead, *value.shape)).astype(np.float32)
        for value in view.fixed()
    ]
    return posteriors.EnsemblePosterior(view, params, fixed, stacked=stacked)


@pytest.mark.parametrize("stacked", [(True, True), (True, False)])
def test_members_are_those_of_all_in_order(stacked):
    parts = [ensemble(n, 2 + n, stacked[n]) for n in range(2)]
    expected = np.concatenate(
        [part.predict(X, part.num_members) for part in parts]
    )
    parts[1].member_weights = [0.5, 0.25, 0.25]  # which are not kept
    found = posteriors.concatenate(iter(parts))
    assert found.num_members == 5
    np.testing.assert_allclose(found.predict(X, 5), expected, rtol=1e-5)


def test_it_is_of_the_outputs_of_the_first():
    one = posterior_cases.posterior("deep_ensemble")
    found = posteriors.concatenate([one, one])
    x, _ = posterior_cases.data("classes")
    np.testing.assert_allclose(
        found.predict_proba(x, found.num_members),
        one.predict_proba(x, one.num_members),
        rtol=1e-5,
    )


@pytest.mark.parametrize(
    ("ensembles", "message"),
    [
        ((), r"one or more EnsemblePosteriors.*Received: ensembles=\(\)"),
        (3, "one or more EnsemblePosteriors.*Received: ensembles=3"),
        (ensemble(0, 2), "one or more.*Received: .*EnsemblePosterior"),
        ((ensemble(0, 2), "second"), "one or more EnsemblePosteriors.*second"),
        ((ensemble(0, 2), ensemble(0, 2, units=3)), "of one model.*Received"),
    ],
    ids=["none", "number", "one", "text", "another model"],
)
def test_others_are_refused(ensembles, message):
    with pytest.raises(ValueError, match=message):
        posteriors.concatenate(ensembles)


def test_members_that_are_refined_are_refused():
    refined = posterior_cases.posterior("refined")
    with pytest.raises(ValueError, match="Received: .*RefinedEnsemble"):
        posteriors.concatenate([refined, refined])
