import keras
import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.metrics

from tfp_refine import metrics

S, N, C, D = 5, 7, 4, 3


@pytest.fixture
def logits(rng):
    return rng.normal(0.0, 3.0, size=(S, N, C))


@pytest.fixture
def probs(logits):
    return scipy.special.softmax(logits, axis=-1)


@pytest.fixture
def labels(rng):
    return rng.integers(C, size=N)


@pytest.fixture
def gaussians(rng):
    """Targets `[N, D]`, means and standard deviations `[S, N, D]`."""
    y_true = rng.normal(size=(N, D))
    loc = rng.normal(size=(S, N, D))
    return y_true, loc, rng.uniform(0.2, 2.0, size=(S, N, D))


def test_averaged_probabilities_give_the_log_loss(probs, labels):
    averaged = probs.mean(axis=0)
    expected = sklearn.metrics.log_loss(labels, averaged, labels=range(C))
    nll = metrics.negative_log_likelihood
    assert isinstance(nll(labels, averaged), float)
    np.testing.assert_allclose(nll(labels, averaged), expected, rtol=1e-12)
    np.testing.assert_allclose(nll(labels, probs), expected, rtol=1e-12)


def test_logits_are_averaged_as_probabilities(logits, probs, labels):
    np.testing.assert_allclose(
        metrics.negative_log_likelihood(labels, logits, from_logits=True),
        metrics.negative_log_likelihood(labels, probs),
        rtol=1e-12,
    )


def test_a_constant_added_to_a_draws_logits_changes_nothing(logits, labels):
    shift = np.array([0.0, 3.0, -50.0, 800.0, 1.0])[:, None, None]
    np.testing.assert_allclose(
        metrics.negative_log_likelihood(labels, logits + shift, True),
        metrics.negative_log_likelihood(labels, logits, True),
        rtol=1e-10,
    )


def test_one_draw_and_equal_draws_are_the_plain_nll(probs, labels):
    plain = -np.mean(np.log(probs[0, np.arange(N), labels]))
    for draws in (probs[:1], probs[0], np.repeat(probs[:1], 6, axis=0)):
        np.testing.assert_allclose(
            metrics.negative_log_likelihood(labels, draws), plain, rtol=1e-12
        )


def test_averaging_draws_beats_the_average_draw(probs, labels):
    each = [metrics.negative_log_likelihood(labels, draw) for draw in probs]
    assert metrics.negative_log_likelihood(labels, probs) < np.mean(each) - 0.1


@pytest.mark.parametrize("num_classes", [2, 10])
def test_uniform_probabilities_give_log_c(num_classes):
    uniform = np.full((3, num_classes, num_classes), 1.0 / num_classes)
    nll = metrics.negative_log_likelihood(np.arange(num_classes), uniform)
    np.testing.assert_allclose(nll, np.log(num_classes), rtol=1e-12)


def test_labels_may_have_three_shapes_and_any_number_type(probs, labels):
    expected = metrics.negative_log_likelihood(labels, probs)
    for y_true in (
        labels[:, None],
        np.eye(C)[labels],
        np.eye(C, dtype=np.int8)[labels],
        labels.astype(np.uint8),
        labels.astype(np.float32),
        labels.tolist(),
        keras.ops.convert_to_tensor(labels),
        keras.ops.one_hot(labels, C),
    ):
        assert metrics.negative_log_likelihood(y_true, probs) == expected


def test_booleans_are_labels_of_two_classes():
    probs = np.array([[0.9, 0.1], [0.2, 0.8]])
    nll = metrics.negative_log_likelihood(np.array([False, True]), probs)
    np.testing.assert_allclose(nll, -0.5 * np.log(0.9 * 0.8), rtol=1e-12)


def test_column_of_labels_of_one_example_is_no_one_hot_row():
    nll = metrics.negative_log_likelihood([[1]], [[0.25, 0.75]])
    np.testing.assert_allclose(nll, -np.log(0.75), rtol=1e-12)


def test_tensors_in_single_precision_are_averaged_in_double():
    # In float32, 1 + exp(-20) is 1.
    logits = np.array([[20.0, 0.0]], dtype=np.float32)
    nll = metrics.negative_log_likelihood(
        [0], keras.ops.convert_to_tensor(logits), from_logits=True
    )
    np.testing.assert_allclose(nll, np.log1p(np.exp(-20.0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("label", "expected"), [(0, np.log(2.0)), (1, np.log(2.0)), (2, 2e4)]
)
def test_extreme_logits_stay_finite(label, expected):
    draws = np.array([[[1e4, -1e4, -1e4]], [[-1e4, 1e4, -1e4]]])
    nll = metrics.negative_log_likelihood([label], draws, from_logits=True)
    np.testing.assert_allclose(nll, expected, rtol=1e-12)


def test_probability_zero_in_one_draw_is_fine_and_in_all_is_infinite():
    draws = np.array([[[0.0, 1.0]], [[0.5, 0.5]]])
    nll = metrics.negative_log_likelihood([0], draws)
    np.testing.assert_allclose(nll, -np.log(0.25), rtol=1e-12)
    assert metrics.negative_log_likelihood([0], draws[:1]) == np.inf


UNIFORM = np.full((2, 3, 4), 0.25)


@pytest.mark.parametrize(
    ("y_true", "draws", "message"),
    [
        ([0, 1, 2], np.full(4, 0.25), r"`draws` must have 3 axes.*\(4,\)"),
        ([0, 1, 2], np.ones((1, 2, 3, 4)), r"must have 3 axes.*\(1, 2, 3, 4\)"),
        ([0, 1, 2], np.ones((3, 1)), r"at least 2 classes.*\(1, 3, 1\)"),
        ([], np.zeros((0, 4)), r"`draws` must not be empty.*\(0, 4\)"),
        ([0, 1], UNIFORM, r"N=3 and C=4.*Received: shape \(2,\)"),
        (np.zeros((3, 2)), UNIFORM, r"N=3 and C=4.*shape \(3, 2\)"),
        (np.zeros((1, 3)), UNIFORM, r"N=3 and C=4.*shape \(1, 3\)"),
        (np.zeros((3, 1, 1)), UNIFORM, r"N=3 and C=4.*shape \(3, 1, 1\)"),
        ([0, 1, 4], UNIFORM, r"class numbers in \[0, 4\).*from 0 to 4"),
        ([0, 1, -1], UNIFORM, r"class numbers in \[0, 4\).*from -1 to 1"),
        ([0, 1, 0.5], UNIFORM, "whole class numbers"),
        ([0, 1, np.nan], UNIFORM, "`y_true` must be finite"),
        (np.full((3, 4), 0.25), UNIFORM, "one-hot rows"),
        (np.eye(4)[:3] * 0, UNIFORM, "one-hot rows"),
        (np.eye(4)[:3] * 2, UNIFORM, "one-hot rows"),
        (np.ones((3, 4)), UNIFORM, "one-hot rows"),
        ([0, 1, 2], UNIFORM * np.nan, "`draws` must be finite"),
        ([0, 1, 2], UNIFORM * 1.01, "sum to 1 .*from 1.01 to 1.01"),
        ([0, 1, 2], UNIFORM - [0.5, 0, 0, -0.5], "probabilities .*: -0.25"),
    ],
)
def test_negative_log_likelihood_rejects(y_true, draws, message):
    with pytest.raises(ValueError, match=message):
        metrics.negative_log_likelihood(y_true, draws)


def test_infinite_logits_are_rejected():
    with pytest.raises(ValueError, match="`draws` must be finite"):
        metrics.negative_log_likelihood([0], [[0.0, np.inf]], from_logits=True)


def test_one_gaussian_gives_the_density_of_scipy(gaussians):
    y_true, loc, scale = (gaussians[0], gaussians[1][0], gaussians[2][0])
    densities = [
        scipy.stats.multivariate_normal(loc[n], np.diag(scale[n] ** 2)).logpdf(
            y_true[n]
        )
        for n in range(N)
    ]
    nll = metrics.gaussian_negative_log_likelihood(y_true, loc, scale)
    assert isinstance(nll, float)
    np.testing.assert_allclose(nll, -np.mean(densities), rtol=1e-12)
    np.testing.assert_allclose(
        metrics.gaussian_negative_log_likelihood(y_true, loc[None], scale),
        nll,
        rtol=1e-12,
    )


def test_draws_give_the_mixture_of_their_joint_densities(gaussians):
    y_true, loc, scale = gaussians
    joint = scipy.stats.norm(loc, scale).logpdf(y_true).sum(axis=-1)
    mixture = scipy.special.logsumexp(joint, axis=0, b=1.0 / S)
    np.testing.assert_allclose(
        metrics.gaussian_negative_log_likelihood(y_true, loc, scale),
        -mixture.mean(),
        rtol=1e-12,
    )


def test_mixture_beats_its_average_component(gaussians):
    y_true, loc, scale = gaussians
    each = [
        metrics.gaussian_negative_log_likelihood(y_true, *draw)
        for draw in zip(loc, scale, strict=True)
    ]
    mixture = metrics.gaussian_negative_log_likelihood(y_true, loc, scale)
    assert mixture < np.mean(each) - 0.1


@pytest.mark.slow
def test_density_of_the_mixture_integrates_to_one():
    loc = np.array([-1.0, 0.5, 4.0])[:, None, None]
    scale = np.array([0.3, 1.0, 0.2])[:, None, None]
    grid, step = np.linspace(-9.0, 11.0, 401, retstep=True)
    densities = [
        np.exp(-metrics.gaussian_negative_log_likelihood([y], loc, scale))
        for y in grid
    ]
    np.testing.assert_allclose(np.sum(densities) * step, 1.0, rtol=1e-10)


def test_change_of_units_adds_the_log_scale_of_each_dimension(gaussians):
    y_true, loc, scale = gaussians
    unit = np.array([0.1, 3.0, 1e3])
    np.testing.assert_allclose(
        metrics.gaussian_negative_log_likelihood(
            y_true * unit, loc * unit, scale * unit
        ),
        metrics.gaussian_negative_log_likelihood(y_true, loc, scale)
        + np.log(unit).sum(),
        rtol=1e-12,
    )


@pytest.mark.parametrize("shape", [(), (D,), (1, D), (N, 1), (S, 1, 1), (N, D)])
def test_scale_broadcasts_to_loc(gaussians, rng, shape):
    y_true, loc, _ = gaussians
    scale = rng.uniform(0.5, 2.0, size=shape)
    np.testing.assert_allclose(
        metrics.gaussian_negative_log_likelihood(y_true, loc, scale),
        metrics.gaussian_negative_log_likelihood(
            y_true, loc, np.broadcast_to(scale, loc.shape)
        ),
        rtol=1e-12,
    )


def test_flat_targets_are_a_column_and_never_a_table(gaussians):
    y_true, loc, scale = (array[..., :1] for array in gaussians)
    assert metrics.gaussian_negative_log_likelihood(
        y_true[:, 0], loc, scale
    ) == metrics.gaussian_negative_log_likelihood(y_true, loc, scale)


def test_far_targets_stay_finite():
    nll = metrics.gaussian_negative_log_likelihood(
        [1e3], np.array([[[0.0]], [[1.0]]]), np.float32(1e-3)
    )
    # float32 holds 1e-3 to 5e-8.
    np.testing.assert_allclose(nll, 0.5 * (999.0 / 1e-3) ** 2, rtol=2e-7)


ZEROS = np.zeros((2, 3, 1))


@pytest.mark.parametrize(
    ("y_true", "loc", "scale", "message"),
    [
        (np.zeros(3), np.zeros(3), 1.0, r"`loc` must have 3 axes.*\(3,\)"),
        (np.zeros(2), ZEROS, 1.0, r"shape \(3, 1\), .* \(or \[N\]\).*\(2,\)"),
        (np.zeros((1, 3)), ZEROS, 1.0, r"shape \(3, 1\).*shape \(1, 3\)"),
        (np.zeros((2, 3, 1)), ZEROS, 1.0, r"shape \(3, 1\).*\(2, 3, 1\)"),
        (np.zeros(3), np.zeros((3, 3)), 1.0, r"shape \(3, 3\).*shape \(3,\)"),
        (np.zeros((3, 1)), np.zeros((3, 2)), 1.0, r"shape \(3, 2\).*\(3, 1\)"),
        (np.zeros(3), ZEROS, np.ones(3), r"broadcastable.*\(2, 3, 1\).*\(3,\)"),
        (np.zeros(3), ZEROS[0], np.ones((2, 3, 1)), r"broadcastable.*\(3, 1\)"),
        (np.zeros(3), ZEROS, 0.0, "`scale` must be positive. Received: 0.0"),
        (np.zeros(3), ZEROS, [[1.0], [-2.0], [1.0]], "positive.*-2.0"),
        (np.zeros(3), ZEROS, np.nan, "`scale` must be finite"),
        (np.zeros(3), ZEROS, np.inf, "`scale` must be finite"),
        (np.zeros(3), ZEROS + np.inf, 1.0, "`loc` must be finite"),
        ([0.0, np.nan, 0.0], ZEROS, 1.0, "`y_true` must be finite"),
    ],
)
def test_gaussian_negative_log_likelihood_rejects(y_true, loc, scale, message):
    with pytest.raises(ValueError, match=message):
        metrics.gaussian_negative_log_likelihood(y_true, loc, scale)
