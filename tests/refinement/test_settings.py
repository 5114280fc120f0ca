import numpy as np
import pytest

from tfp_refine.refinement import settings as settings_lib

_VALID = {
    "num_members": 3,
    "members": None,
    "variance_ratios": (0.7, 0.5),
    "steps": 4,
    "batch_size": 8,
    "learning_rate": 0.1,
    "learning_rate_decay": "constant",
    "keep_better": True,
    "refine_deterministic": False,
    "num_eval_samples": 2,
    "max_eval_examples": 100,
    "seed": 0,
}


def test_all_members_are_computed_by_default():
    assert settings_lib.check(**_VALID).members == (0, 1, 2)


def test_learning_rate_follows_the_prior_scale_that_is_split():
    rates = settings_lib.check(**_VALID).learning_rates()
    np.testing.assert_allclose(rates, [0.1, 0.1 * np.sqrt(0.3)], rtol=1e-12)


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
        settings_lib.check(**{**_VALID, name: value})


@pytest.mark.parametrize("mapping", ["auto", "mapped", "vectorized"])
@pytest.mark.parametrize(
    ("members_per_batch", "expected"),
    [(None, 5), (1, 1), (np.int64(4), 4), (5, 5), (9, 5)],
)
def test_execution_computes_no_more_members_than_there_are(
    mapping, members_per_batch, expected
):
    execution = settings_lib.Execution.check(mapping, members_per_batch, 5)
    assert execution == (mapping, expected, None)
    assert type(execution.members_per_batch) is int


@pytest.mark.parametrize(
    ("mapping", "members_per_batch", "message"),
    [
        ("parallel", None, "`mapping` must be one of .*'parallel'"),
        (None, None, "`mapping` .*None"),
        ("auto", 0, "`members_per_batch` .*0"),
        ("auto", -2, "`members_per_batch`"),
        ("auto", 1.5, "`members_per_batch`"),
        ("auto", True, "`members_per_batch`"),
        ("auto", "all", "`members_per_batch`"),
    ],
)
def test_bad_execution_is_refused(mapping, members_per_batch, message):
    with pytest.raises(ValueError, match=message):
        settings_lib.Execution.check(mapping, members_per_batch, 5)
