import keras
import numpy as np
import pytest
import scipy.special
import sklearn.metrics

from tfp_refine import metrics


def draw_scores(rng, num_in, num_out, ties):
    """Scores that overlap, either all different or of few values."""
    in_scores = rng.normal(1.0, 1.0, size=num_in)
    out_scores = rng.normal(0.0, 1.0, size=num_out)
    if ties:
        return np.round(in_scores), np.round(out_scores)
    return in_scores, out_scores


def auroc_by_definition(in_scores, out_scores):
    gaps = in_scores[:, None] - out_scores
    return np.mean((gaps > 0) + 0.5 * (gaps == 0))


def fpr_by_definition(in_scores, out_scores):
    # 95% in whole numbers: 20 * passing >= 19 * all.
    enough = [
        threshold
        for threshold in in_scores
        if 20 * np.sum(in_scores >= threshold) >= 19 * len(in_scores)
    ]
    return np.mean(out_scores >= max(enough))


SIZES = [(1, 1), (19, 7), (20, 30), (21, 30), (40, 9), (157, 200)]


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("num_in", "num_out"), SIZES)
def test_rates_are_those_of_a_comparison_of_all_pairs(
    rng, num_in, num_out, ties
):
    scores = draw_scores(rng, num_in, num_out, ties)
    for metric, by_definition in (
        (metrics.auroc, auroc_by_definition),
        (metrics.fpr_at_95_tpr, fpr_by_definition),
    ):
        assert isinstance(metric(*scores), float)
        np.testing.assert_allclose(
            metric(*scores), by_definition(*scores), rtol=1e-12
        )


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("num_in", "num_out"), SIZES)
def test_fpr_is_the_first_of_the_curve_with_a_tpr_of_95_percent(
    rng, num_in, num_out, ties
):
    scores = draw_scores(rng, num_in, num_out, ties)
    is_in = np.repeat([1, 0], [num_in, num_out])
    fpr, tpr, _ = sklearn.metrics.roc_curve(
        is_in, np.concatenate(scores), drop_intermediate=False
    )
    assert metrics.fpr_at_95_tpr(*scores) == fpr[tpr >= 0.95][0]


@pytest.mark.parametrize("num", [20, 100, 1000])
def test_identical_sets_give_chance(rng, num):
    scores = rng.normal(size=num)
    np.testing.assert_allclose(metrics.auroc(scores, scores), 0.5, rtol=1e-12)
    np.testing.assert_allclose(
        metrics.fpr_at_95_tpr(scores, scores), 0.95, rtol=1e-12
    )


def test_separate_sets_give_a_perfect_or_a_hopeless_score():
    low, high = np.arange(20.0), np.arange(20.0) + 20.0
    assert metrics.auroc(high, low) == 1.0
    assert metrics.auroc(low, high) == 0.0
    assert metrics.fpr_at_95_tpr(high, low) == 0.0
    assert metrics.fpr_at_95_tpr(low, high) == 1.0


def test_equal_scores_tell_nothing_and_all_pass():
    assert metrics.auroc(np.ones(30), np.ones(7)) == 0.5
    assert metrics.fpr_at_95_tpr(np.ones(30), np.ones(7)) == 1.0


def test_threshold_is_a_score_and_an_other_example_on_it_passes():
    in_scores = np.arange(1.0, 21.0)
    # One in twenty may fail, the score 1: the threshold is 2.
    for out_score, expected in ((1.0, 0.0), (1.999, 0.0), (2.0, 1.0)):
        assert metrics.fpr_at_95_tpr(in_scores, [out_score]) == expected
    # Of nineteen, none.
    assert metrics.fpr_at_95_tpr(in_scores[:19], [1.0]) == 1.0
    assert metrics.fpr_at_95_tpr(in_scores[:19], [0.999]) == 0.0


def test_sets_that_change_places_and_scores_that_change_sign(rng):
    a, b = draw_scores(rng, 50, 80, ties=True)
    np.testing.assert_allclose(metrics.auroc(a, b) + metrics.auroc(b, a), 1.0)
    np.testing.assert_allclose(metrics.auroc(-b, -a), metrics.auroc(a, b))


def test_a_rising_function_of_scores_changes_nothing(rng):
    scores = draw_scores(rng, 50, 80, ties=False)
    for metric in (metrics.auroc, metrics.fpr_at_95_tpr):
        assert metric(*map(np.exp, scores)) == metric(*scores)


def test_lists_and_tensors_are_scores(rng):
    scores = draw_scores(rng, 40, 30, ties=False)
    for metric in (metrics.auroc, metrics.fpr_at_95_tpr):
        expected = metric(*scores)
        assert metric(*(values.tolist() for values in scores)) == expected
        tensors = [
            keras.ops.convert_to_tensor(values, dtype="float64")
            for values in scores
        ]
        assert metric(*tensors) == expected


def test_confidence_is_the_greatest_of_the_averaged_probabilities(rng):
    logits = rng.normal(0.0, 3.0, size=(5, 30, 4))
    probs = scipy.special.softmax(logits, axis=-1)
    expected = probs.mean(axis=0).max(axis=-1)
    assert np.all(expected < probs.max(axis=-1).mean(axis=0))
    for found in (
        metrics.confidence(probs),
        metrics.confidence(probs.mean(axis=0)),
        metrics.confidence(logits, from_logits=True),
    ):
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_extreme_logits_are_sure():
    logits = [[1e4, -1e4, 0.0], [0.0, 0.0, -1e4]]
    np.testing.assert_allclose(metrics.confidence(logits, True), [1.0, 0.5])


@pytest.mark.parametrize("metric", [metrics.auroc, metrics.fpr_at_95_tpr])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([], r"must not be empty.*shape \(0,\)"),
        ([1.0, np.nan], "must be finite"),
        ([1.0, np.inf], "must be finite"),
        (1.0, r"must have 1 axis.*shape \(\)"),
        ([[1.0, 2.0]], r"must have 1 axis.*shape \(1, 2\)"),
    ],
)
def test_scores_are_refused(metric, bad, message):
    with pytest.raises(ValueError, match=f"`in_scores` {message}"):
        metric(bad, [0.0])
    with pytest.raises(ValueError, match=f"`out_scores` {message}"):
        metric([0.0], bad)
