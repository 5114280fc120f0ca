"""Tests of ensembles whose members have weights."""

import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import posterior_cases
from tfp_refine import posteriors

X, _ = posterior_cases.data("classes")


def weighted(name, weights=None):
    """Returns an ensemble of a case, with weights for its members."""
    found = posterior_cases.posterior(name)
    if weights is None:
        weights = np.arange(1.0, found.num_members + 1)
    options = {}
    if name == "refined":
        options = {"prior_loc": found.prior.loc}
        options["prior_scale"] = found.prior.scale
    return type(found)(
        found.view,
        found.params,
        fixed=found.fixed,
        link=found.link,
        stacked=found._stacked,
        member_weights=np.divide(weights, np.sum(weights)),
        **options,
    )


def members_of(posterior, num_samples):
    """Returns the member of each draw of the weights."""
    centres = posterior.params.reshape(posterior.num_members, -1)
    if isinstance(posterior, tfr.RefinedEnsemble):
        centres = posterior.loc
    draws = posterior.sample(num_samples, seed=1)
    distances = np.linalg.norm(draws[:, np.newaxis] - centres, axis=-1)
    return np.argmin(distances, axis=1)


@pytest.mark.parametrize("name", ["deep_ensemble", "refined"])
def test_members_are_drawn_in_proportion_to_their_weights(name):
    posterior = weighted(name)
    members = members_of(posterior, 60)
    for count in (1, 2, 7, 60):
        # However few, draws are never two or more from their share.
        found = np.bincount(members[:count], minlength=posterior.num_members)
        assert np.all(np.abs(found - count * posterior.member_weights) < 1.5)
    np.testing.assert_array_equal(members_of(posterior, 7), members[:7])


def test_many_members_of_little_weight_have_their_share_together():
    case = posterior_cases.posterior("deep_ensemble")
    heavy, light = np.full(10, 0.095), np.full(40, 0.05 / 40)
    rows = np.arange(50) % case.num_members
    posterior = posteriors.EnsemblePosterior(
        case.view, case.params[rows], [value[rows] for value in case.fixed],
        member_weights=np.append(heavy, light),
    )  # fmt: skip
    for count in (20, 100, 1000):
        members = posterior._numbers(count)
        assert abs(np.sum(members >= 10) - 0.05 * count) < 1.5
    # Each of them is drawn when its turn comes.
    assert np.bincount(posterior._numbers(8000)).min() >= 9


def test_probabilities_are_weighted_means():
    posterior = weighted("deep_ensemble")
    one_each = posteriors.EnsemblePosterior(
        posterior.view, posterior.params, posterior.fixed, posterior.link
    )
    probs = [
        one_each.link.probabilities(draw).numpy()
        for draw in one_each.predict(X, posterior.num_members, seed=1)
    ]
    np.testing.assert_allclose(
        posterior.predict_proba(X, 2000, seed=1),
        np.tensordot(posterior.member_weights, probs, 1),
        atol=1e-3,
    )


def test_weights_of_low_precision_have_the_sum_1():
    posterior = weighted("refined")
    posterior.member_weights = np.float32(posterior.member_weights)
    assert set(members_of(posterior, 60)) == {*range(posterior.num_members)}


def test_a_member_without_weight_is_never_drawn():
    weights = np.zeros(posterior_cases.posterior("refined").num_members)
    weights[1] = 1.0
    assert set(members_of(weighted("refined", weights), 20)) == {1}


@pytest.mark.parametrize("name", ["deep_ensemble", "refined"])
def test_weights_are_saved(name, tmp_path):
    posterior = weighted(name)
    posterior.save(tmp_path / "one.posterior")
    loaded = tfr.load_posterior(tmp_path / "one.posterior")
    np.testing.assert_array_equal(
        loaded.member_weights, posterior.member_weights
    )
    np.testing.assert_array_equal(
        loaded.predict(X, 20, seed=1), posterior.predict(X, 20, seed=1)
    )
    assert posterior_cases.posterior(name).member_weights is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1.0], r"`member_weights` must have shape"),
        (lambda count: [1.0] * count, "must not be negative, and have the sum"),
        (lambda count: [2.0, -1.0, *[0.0] * (count - 2)], "not be negative"),
        ("equal", "`member_weights` must be an array"),
    ],
)
def test_bad_weights_are_refused(value, message):
    posterior = weighted("deep_ensemble")
    if callable(value):
        value = value(posterior.num_members)
    with pytest.raises(ValueError, match=message):
        posterior.member_weights = value
