import json

import numpy as np
import pytest

from tests.support import linear_gaussian
from tfp_refine.functional import members
from tfp_refine.refinement import AdaptiveSteps
from tfp_refine.refinement import loop

VIT = 86_567_656  # weights of ViT-B/16


def test_all_members_are_computed_by_default():
    assert linear_gaussian.settings(num_members=3).members == (0, 1, 2)


def test_learning_rate_follows_the_prior_scale_that_is_split():
    settings = linear_gaussian.settings(
        variance_ratios=(0.7, 0.5), learning_rate=0.1
    )
    rates = settings.learning_rates()
    np.testing.assert_allclose(rates, [0.1, 0.1 * np.sqrt(0.3)], rtol=1e-12)


def test_a_result_depends_on_all_but_the_number_of_members():
    one = linear_gaussian.settings(num_members=3).depends_on()
    assert (
        one
        == linear_gaussian.settings(
            num_members=9, members=np.arange(3)
        ).depends_on()
    )
    assert json.loads(json.dumps(one))["members"] == [0, 1, 2]
    for change in (
        {"steps": 11},
        {"seed": 1},
        {"members": (0,)},
        {"keep_better": False},
        {"refine_deterministic": True},
        {"learning_rate_decay": "linear"},
    ):
        assert linear_gaussian.settings(**change).depends_on() != one


def test_the_rate_falls_linearly_where_the_number_of_steps_is_known():
    for steps, decay in ((10, "linear"), (AdaptiveSteps(10), "constant")):
        settings = linear_gaussian.settings(
            steps=steps, learning_rate_decay=None
        )
        assert settings.learning_rate_decay == decay


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_members", 0),
        ("num_members", 2.5),
        ("members", ()),
        ("members", (1, 1)),
        ("members", (-1,)),
        ("variance_ratios", ()),
        ("variance_ratios", (0.7, 1.0)),
        ("variance_ratios", (0.0,)),
        ("variance_ratios", 0.7),
        ("variance_ratios", ("a",)),
        ("steps", 0),
        ("steps", True),
        ("batch_size", -1),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("learning_rate", "fast"),
        ("learning_rate_decay", "exponential"),
        ("num_eval_samples", 0),
        ("max_eval_examples", 0),
    ],
)
def test_bad_settings_are_named(name, value):
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}="):
        linear_gaussian.settings(**{name: value})


@pytest.mark.parametrize(
    ("members_per_batch", "expected"),
    [(None, 5), (1, 1), (np.int64(4), 4), (5, 5), (9, 5)],
)
def test_no_more_members_are_computed_than_there_are(
    members_per_batch, expected
):
    settings = linear_gaussian.settings(
        num_members=5, members_per_batch=members_per_batch
    )
    assert settings.members_at_a_time(100) == expected


@pytest.mark.parametrize(
    ("num_weights", "members_per_batch", "expected"),
    [
        (751, None, 13),
        (431_080, None, 4),
        (VIT, None, 1),
        (VIT, 1, 1),
        (VIT, 12, 12),
        (VIT, 13, 12),  # 13 are 2.25e9 parameters
        (2**30, 13, 1),
    ],
)
def test_members_at_a_time_are_few_if_they_have_many_weights(
    num_weights, members_per_batch, expected
):
    settings = linear_gaussian.settings(
        num_members=13, members_per_batch=members_per_batch
    )
    found = settings.members_at_a_time(num_weights)
    assert found == expected
    assert found == 1 or found * 2 * num_weights < 2**31


def test_a_state_of_more_than_two_to_the_31_parameters_is_cut():
    # Views of a single number.
    params = np.broadcast_to(np.float32(0.0), (13, 2, VIT))
    assert params.size > 2**31
    behind = loop._rows_of((params, params[:, 0]), np.arange(1, 13))
    assert behind[0].base is not None
    parts = members.batches(1, behind)
    assert len(parts) == 12
    for ((part, row),) in parts:
        assert part.shape == (1, 2, VIT)
        assert part.strides == (0, 0, 0)
        assert row.shape == (1, VIT)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mapping", "parallel"),
        ("mapping", None),
        ("members_per_batch", 0),
        ("members_per_batch", -2),
        ("members_per_batch", 1.5),
        ("members_per_batch", True),
        ("members_per_batch", "all"),
        ("coordinator", "cluster"),
    ],
)
def test_bad_execution_is_refused(name, value):
    with pytest.raises(ValueError, match=f"`{name}` .*{value}"):
        linear_gaussian.settings(**{name: value})
