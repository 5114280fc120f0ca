import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import conv_layers
from tests.support import posterior_families
from tests.support import statistics
from tfp_refine import layers

MOMENTS = {
    f"{family}-{make_layer.__name__}": (make_layer, family, shape, arguments)
    for family in posterior_families.FAMILIES
    for layers_of_kind, shape, arguments in (
        (posterior_families.DENSE, (3,), {"units": 3}),
        (
            posterior_families.CONV2D,
            (2, 2, 2),
            {"filters": 3, "kernel_size": (2, 1)},
        ),
    )
    for make_layer in layers_of_kind
}
# All layers of the family whose weights are correlated; of each other one, two.
QUICK = {name for name in MOMENTS if name.startswith("low_rank-Dense")} | {
    "low_rank-Conv2DFlipout",
    "low_rank-Conv2DLocalReparameterization",
    "low_rank-Conv2DReparameterization",
    "fixed_variance-Conv2DReparameterization",
    "fixed_variance-DenseLocalReparameterization",
    "k_tied-Conv2DLocalReparameterization",
    "k_tied-DenseFlipout",
}
# Other shapes, of slow tests.
SHAPES = {
    "low_rank-sequence-reparameterization": (
        layers.DenseReparameterization,
        "low_rank",
        (2, 3),
        {"units": 2},
    ),
    "low_rank-sequence-local_reparameterization": (
        layers.DenseLocalReparameterization,
        "low_rank",
        (2, 3),
        {"units": 2},
    ),
    "low_rank-sequence-flipout": (
        layers.DenseFlipout,
        "low_rank",
        (2, 3),
        {"units": 2},
    ),
    "k_tied-conv1d_flipout_groups": (
        layers.Conv1DFlipout,
        "k_tied",
        (3, 4),
        {"filters": 4, "kernel_size": 2, "groups": 2},
    ),
    "low_rank-conv2d_local_reparameterization_channels_first": (
        layers.Conv2DLocalReparameterization,
        "low_rank",
        (2, 2, 2),
        {
            "filters": 3,
            "kernel_size": (2, 1),
            "data_format": "channels_first",
        },
    ),
    "low_rank-conv2d_transpose_flipout": (
        layers.Conv2DTransposeFlipout,
        "low_rank",
        (1, 2, 2),
        {"filters": 2, "kernel_size": (1, 3), "strides": (1, 2)},
    ),
    "low_rank-depthwise_conv2d_flipout": (
        layers.DepthwiseConv2DFlipout,
        "low_rank",
        (1, 3, 2),
        {"kernel_size": (1, 2), "depth_multiplier": 2},
    ),
    "fixed_variance-depthwise_conv2d_flipout": (
        layers.DepthwiseConv2DFlipout,
        "fixed_variance",
        (1, 3, 2),
        {"kernel_size": (1, 2), "depth_multiplier": 2},
    ),
}


class Moments:
    """Outputs for two examples under many draws, and their exact moments.

    Attributes:
        draws: `[S, 2 * N]`, `N` being all outputs of example 0, then 1.
        mean: Exact mean, `[2 * N]`.
        covariance: Exact covariance, `[2 * N, 2 * N]`.
    """

    def __init__(self, make_layer, family, input_shape, arguments):
        layer = posterior_families.built(
            make_layer, family, input_shape, **arguments
        )
        rng = np.random.default_rng(4)
        x = rng.normal(1.0, 0.7, size=(2, *input_shape)).astype("float32")
        self.estimator = make_layer.__mro__[1].__name__
        self.draws = _draw(layer, x, self.estimator)
        self._derive(layer, x, posterior_families.FAMILIES[family])

    def _derive(self, layer, x, families):
        self.mean = 0.0
        independent, correlated = 0.0, 0.0
        for weight, family, matrix in zip(
            layer.variational_weights,
            families,
            (_kernel_matrix(layer, x), _bias_matrix(layer, x)),
            strict=True,
        ):
            variance, covariance = _posterior(weight, family)
            loc = np.ravel(np.asarray(weight.loc, "float64"))
            self.mean = self.mean + matrix @ loc
            independent = independent + (matrix * variance) @ matrix.T
            correlated = correlated + matrix @ covariance @ matrix.T
        same_example = np.kron(np.eye(2), np.ones([len(self.mean) // 2] * 2))
        self.covariance = {
            # One draw for the batch.
            "Reparameterization": independent + correlated,
            # One for each example.
            "Flipout": same_example * (independent + correlated),
            # And the independent parts for each output.
            "LocalReparameterization": np.diag(np.diag(independent))
            + same_example * correlated,
        }[self.estimator]


def _draw(layer, x, estimator):
    """Draws outputs, `[S, 2 * N]`."""
    if estimator == "LocalReparameterization":  # no two examples share a draw
        outputs = layer(np.concatenate([x] * posterior_families.NUM_DRAWS))
        return np.reshape(outputs, (posterior_families.NUM_DRAWS, -1))
    x = tf.constant(x)
    shape = layer(x).shape

    @tf.function
    def draw():
        outputs = tf.TensorArray(
            tf.float32, posterior_families.NUM_DRAWS, element_shape=shape
        )
        for i in tf.range(posterior_families.NUM_DRAWS):
            outputs = outputs.write(i, layer(x))
        return outputs.stack()

    return np.reshape(draw(), (posterior_families.NUM_DRAWS, -1))


def _posterior(weight, family):
    """Computes the covariance that the variables of a weight stand for.

    Returns:
        variance: Of the independent part, `[D]`.
        covariance: Of the rest, `[D, D]`.
    """
    size = int(np.prod(weight.loc.shape))
    variables = [np.asarray(v, "float64") for v in weight.scale_weights]
    if weight.family == "low_rank":
        factor = np.reshape(variables[1], (-1, size))
        rest = factor.T @ factor / len(factor)
        return np.ravel(_softplus(variables[0]) ** 2), rest
    if weight.family == "k_tied":
        rows, columns = (_softplus(raw) for raw in variables)
        scale = np.ravel(rows @ columns.T)
    else:
        scale = np.full(size, family.scale)
    return scale**2, np.zeros([size, size])


def _softplus(x):
    return np.log1p(np.exp(x))


def _kernel_matrix(layer, x):
    """Returns the part of each weight of the kernel in each output, `[2N, D]`.

    The map is linear in the kernel, so these are the outputs of Keras' own
    layer for kernels that are 1 at one place and 0 at the others.
    """
    if isinstance(layer, posterior_families.DENSE):
        twin = keras.layers.Dense(layer.units, use_bias=False)
        twin.build(x.shape)
    else:
        twin = conv_layers.twin(layer, x.shape)
    size = int(np.prod(twin.kernel.shape))
    columns = []
    for one_hot in np.eye(size):
        twin.kernel.assign(np.reshape(one_hot, twin.kernel.shape))
        columns.append(np.ravel(np.asarray(twin(x), "float64")))
    return np.stack(columns, axis=-1)


def _bias_matrix(layer, x):
    shape = layer.compute_output_shape(x.shape)
    num = shape[layer.channel_axis]
    channels = np.moveaxis(np.eye(num), 0, -1)
    ones = [1] * len(shape)
    ones[layer.channel_axis] = num
    columns = [np.reshape(one_hot, ones) for one_hot in channels]
    columns = [np.ravel(np.broadcast_to(one, shape)) for one in columns]
    return np.stack(columns, axis=-1)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow)
        for name in MOMENTS | SHAPES
    ],
)
def moments(request):
    keras.utils.set_random_seed(0)
    return Moments(*(MOMENTS | SHAPES)[request.param])


def test_each_output_has_the_exact_mean_and_variance(moments):
    variance = np.diag(moments.covariance)
    statistics.assert_mean(
        moments.draws,
        moments.mean,
        np.sqrt(variance),
        resolves=0.22 * np.sqrt(variance),
    )
    statistics.assert_variance(moments.draws, variance, resolves_ratio=1.35)


def test_outputs_are_correlated_as_the_estimator_says(moments):
    stddev = np.sqrt(np.diag(moments.covariance))
    z = (moments.draws - moments.mean) / stddev
    statistics.assert_mean(
        z[:, :, None] * z[:, None, :],
        moments.covariance / (stddev[:, None] * stddev),
        resolves=0.4,
    )


def test_steps_of_time_distributed_layers_have_draws_of_their_own():
    # Unlike the positions of a sequence that a dense layer sees as one input.
    layer = posterior_families.built(
        layers.DenseLocalReparameterization,
        "low_rank",
        (3,),
        units=1,
        use_bias=False,
    )
    x = np.ones([posterior_families.NUM_DRAWS, 2, 3], "float32")
    y = np.asarray(keras.layers.TimeDistributed(layer)(x))[..., 0]
    z = (y - np.mean(y, axis=0)) / np.std(y, axis=0)
    statistics.assert_mean(z[:, 0] * z[:, 1], 0.0, resolves=0.25)
    together = np.asarray(layer(x))[..., 0]
    assert np.corrcoef(together.T)[0, 1] > 0.5
