import numpy as np
import pytest
import tensorflow_probability as tfp

from tests.support import layer_case
from tfp_refine import layers
from tfp_refine import regularizers

tfd = tfp.distributions

NUM_TRAIN_EXAMPLES = 20
SHAPES = {
    "dense": (layers.DenseFlipout, (3,), {"units": 4}),
    "conv": (
        layers.Conv2DLocalReparameterization,
        (3, 3, 2),
        {"filters": 3, "kernel_size": (2, 1)},
    ),
}


def make(name="dense", **arguments):
    """Returns a layer with correlated weights of order one."""
    make_layer, input_shape, own = SHAPES[name]
    layer = make_layer(
        **{
            "kernel_posterior": layers.LowRankPosterior(3),
            "bias_posterior": layers.LowRankPosterior(2),
            "num_train_examples": NUM_TRAIN_EXAMPLES,
            **own,
            **arguments,
        }
    )
    layer.build((None, *input_shape))
    rng = np.random.default_rng(8)
    for weight in layer.variational_weights:
        for variable in (weight.loc, *weight.scale_weights):
            variable.assign(rng.normal(size=variable.shape))
    return layer


def distribution(weight):
    """Returns the joint distribution of the weights of a tensor."""
    variables = weight.untransformed_diagonal, weight.factor, weight.loc
    raw, factor, loc = (np.asarray(v, "float64") for v in variables)
    rows = np.reshape(factor, (len(factor), -1))
    scale = np.ravel(np.log1p(np.exp(raw)))
    covariance = np.diag(scale**2) + rows.T @ rows / len(rows)
    return tfd.MultivariateNormalTriL(
        np.ravel(loc), np.linalg.cholesky(covariance)
    )


def marginals(weight):
    """Returns the product of the marginal distributions of a tensor."""
    joint = distribution(weight)
    return tfd.MultivariateNormalDiag(joint.mean(), joint.stddev())


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "regularizer",
    [
        regularizers.GaussianKL(0.5),
        regularizers.EmpiricalBayesKL(initial_prior_scale=0.6, learn_mean=True),
        regularizers.EmpiricalBayesKL(closed_form=True),
    ],
    ids=["gaussian", "empirical_bayes", "closed_form"],
)
def test_losses_are_the_exact_divergence_of_the_joint_distribution(
    name, regularizer
):
    layer = make(
        name, kernel_regularizer=regularizer, bias_regularizer=regularizer
    )
    assert len(layer.losses) == 2
    for weight, loss in zip(
        layer.variational_weights, layer.losses, strict=True
    ):
        if weight.prior_weights:
            weight.prior_weights[1].assign(0.3)
        joint = distribution(weight)
        if getattr(regularizer, "closed_form", False):
            moments = np.square(joint.mean()) + joint.variance()
            prior_scale = np.sqrt(np.mean(moments))
            prior_loc = 0.0
        else:
            prior_scale = float(weight.prior.scale)
            prior_loc = float(weight.prior.loc)
        size = joint.event_shape[0]
        prior = tfd.MultivariateNormalTriL(
            np.full(size, prior_loc), prior_scale * np.eye(size)
        )
        expected = float(tfd.kl_divergence(joint, prior))
        np.testing.assert_allclose(float(weight.kl()), expected, rtol=1e-5)
        loss = layer.losses[0 if weight.name == "kernel" else 1]
        np.testing.assert_allclose(
            float(loss), expected / NUM_TRAIN_EXAMPLES, rtol=1e-5
        )


def test_losses_are_scaled_as_those_of_other_families():
    layer = make(kl_scale=0.25, use_bias=False)
    (weight,) = layer.variational_weights
    np.testing.assert_allclose(
        layer_case.total(layer.losses),
        0.25 * float(weight.kl()) / NUM_TRAIN_EXAMPLES,
        rtol=1e-6,
    )


def test_without_factors_it_is_mean_field():
    layer = make()
    same = make(kernel_posterior="mean_field", bias_posterior="mean_field")
    for weight, other in zip(
        layer.variational_weights, same.variational_weights, strict=True
    ):
        weight.factor.assign(np.zeros(weight.factor.shape))
        other.assign(loc=weight.loc)
        other.untransformed_scale.assign(weight.untransformed_diagonal)
        np.testing.assert_allclose(weight.scale, other.scale, rtol=1e-6)
        np.testing.assert_allclose(weight.total_correlation(), 0.0, atol=1e-6)
    for loss, other in zip(layer.losses, same.losses, strict=True):
        np.testing.assert_allclose(float(loss), float(other), rtol=1e-6)


@pytest.mark.parametrize(
    "regularizer",
    [
        regularizers.CollapsedMeanKL(0.05),
        regularizers.CollapsedMeanKL(0.2, learn="closed_form"),
        regularizers.CollapsedVarianceKL(),
        regularizers.CollapsedMeanVarianceKL(),
        regularizers.LogUniformKL(),
    ],
    ids=lambda regularizer: type(regularizer).__name__,
)
@pytest.mark.parametrize("name", SHAPES)
def test_other_priors_see_marginals_and_the_joint_entropy(name, regularizer):
    # A divergence from a prior of independent weights is an expectation under
    # the marginals, less the entropy.
    layer = make(name, kernel_regularizer=regularizer, use_bias=False)
    (weight,) = layer.variational_weights
    of_marginals = weight.regularizer(
        weight.loc, weight.scale, weight.prior_weights
    )
    entropy = marginals(weight).entropy() - distribution(weight).entropy()
    assert entropy > 0.1
    for correlation in (entropy, weight.total_correlation()):
        np.testing.assert_allclose(
            float(weight.kl()),
            float(of_marginals) + float(correlation),
            rtol=1e-5,
        )
    (loss,) = layer.losses
    np.testing.assert_allclose(
        float(loss) * NUM_TRAIN_EXAMPLES, float(weight.kl()), rtol=1e-6
    )


def test_a_divergence_by_draws_sees_the_draw_of_the_forward_pass():
    regularizer = regularizers.ScaleMixtureKL(0.3, 1.5, 0.2)
    layer = layers.DenseReparameterization(
        4,
        use_bias=False,
        kernel_posterior=layers.LowRankPosterior(2, initial_scale=0.5),
        kernel_regularizer=regularizer,
        num_train_examples=1,
    )
    draw = layer(np.eye(3, dtype="float32"))  # the kernel
    (weight,) = layer.variational_weights
    expected = regularizer(weight.loc, weight.scale, (), draw)
    (loss,) = layer.losses
    np.testing.assert_allclose(
        float(loss),
        float(expected) + float(weight.total_correlation()),
        rtol=1e-4,
    )


def test_scales_are_those_of_the_marginals():
    for weight in make().variational_weights:
        expected = np.asarray(distribution(weight).stddev())
        np.testing.assert_allclose(np.ravel(weight.scale), expected, rtol=1e-5)
        independent = np.log1p(np.exp(weight.untransformed_diagonal))
        np.testing.assert_allclose(
            weight.independent_scale, independent, rtol=1e-5
        )
        np.testing.assert_allclose(
            weight.variance("float32"), independent**2, rtol=1e-5
        )


@pytest.mark.parametrize("initial_scale", [1e-6, 1e-3, 0.7, 50.0])
def test_training_starts_from_factors_of_a_tenth(initial_scale):
    layer = layers.DenseFlipout(
        30, kernel_posterior=layers.LowRankPosterior(4, initial_scale)
    )
    layer.build((None, 20))
    kernel = layer.variational_weights[0]
    assert kernel.family == "low_rank"
    assert kernel.factor.shape == (4, 20, 30)
    np.testing.assert_allclose(
        kernel.independent_scale, initial_scale, rtol=1e-5
    )
    factor = np.asarray(kernel.factor) / initial_scale
    for one in factor:
        assert 0.09 < np.std(one) < 0.11
        assert abs(np.mean(one)) < 0.02
    correlations = np.corrcoef(np.reshape(factor, (4, -1)))
    assert np.max(np.abs(correlations - np.eye(4))) < 0.25


def test_the_factors_repeat_with_the_seed():
    def factor(seed):
        layer = layers.DenseFlipout(
            3, kernel_posterior=layers.LowRankPosterior(2, seed=seed)
        )
        layer.build((None, 4))
        return np.asarray(layer.variational_weights[0].factor)

    np.testing.assert_array_equal(factor(5), factor(5))
    assert not np.any(np.isclose(factor(5), factor(6), atol=0.0))
    assert not np.any(np.isclose(factor(None), factor(None), atol=0.0))


def test_a_rank_above_the_number_of_weights_is_refused():
    for name, size in (("kernel", 6), ("bias", 3)):
        for rank in (size, size + 1):
            layer = layers.DenseFlipout(
                3, **{f"{name}_posterior": layers.LowRankPosterior(rank)}
            )
            if rank == size:
                layer.build((None, 2))
                continue
            message = rf"rank={rank} for {size} weights \({name}\)"
            with pytest.raises(ValueError, match=message):
                layer.build((None, 2))


@pytest.mark.parametrize("rank", [0, -1, 1.0, "2", True])
def test_the_rank_must_be_a_positive_integer(rank):
    with pytest.raises(ValueError, match="`rank` must be a positive integer"):
        layers.LowRankPosterior(rank)


@pytest.mark.parametrize(
    "initial_scale", [0.0, -1.0, float("nan"), float("inf"), "1"]
)
def test_initial_scale_must_be_a_positive_finite_number(initial_scale):
    with pytest.raises(ValueError, match="`initial_scale` must be a positive"):
        layers.LowRankPosterior(initial_scale=initial_scale)


def test_its_scales_cannot_be_set():
    for weight in make().variational_weights:
        before = layer_case.values((weight.loc, *weight.scale_weights))
        with pytest.raises(ValueError, match="'low_rank' cannot be set"):
            weight.assign(loc=before[0] + 1.0, scale=np.ones(weight.loc.shape))
        after = layer_case.values((weight.loc, *weight.scale_weights))
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old, new)


def test_the_default_rank_fits_every_tensor():
    layer = layers.DenseFlipout(
        3, kernel_posterior="low_rank", bias_posterior="low_rank"
    )
    layer.build((None, 4))
    kernel, bias = layer.variational_weights
    assert kernel.factor.shape == (5, 4, 3)
    assert bias.factor.shape == (3, 3)


@pytest.mark.parametrize("seed", ["", "1", 1.5, True, -1, [], {}])
def test_a_wrong_seed_is_refused(seed):
    with pytest.raises(ValueError, match="`seed` must be an integer, not neg"):
        layers.LowRankPosterior(seed=seed)
    assert layers.LowRankPosterior(seed=None).seed is None
