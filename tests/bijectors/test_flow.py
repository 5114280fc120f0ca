"""Common behaviour of all bijectors of the package."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_probability as tfp
from scipy import stats

from tests.support import flow_checks
from tfp_refine import bijectors
from tfp_refine.math import gated_coupling
from tfp_refine.math import planar_flow
from tfp_refine.math import radial_flow

tfd = tfp.distributions

CLASSES = [bijectors.Radial, bijectors.Planar, bijectors.GatedCoupling]
HIDDEN = 3
# Axes without batches.
SHAPES = {
    bijectors.Radial: {"x0": "D", "alpha_prime": "", "beta_prime": ""},
    bijectors.Planar: {"u": "D", "w": "D", "b": ""},
    bijectors.GatedCoupling: {
        "mask": "D",
        "hidden_kernel": "DH",
        "hidden_bias": "H",
        "shift_kernel": "HD",
        "shift_bias": "D",
        "gate_kernel": "HD",
        "gate_bias": "D",
    },
}
PARAMETERS = [(cls, name) for cls in CLASSES for name in SHAPES[cls]]


def draw(cls, rng, size=2, batch=()):
    """Draws the parameters of a bijector, a dict of arrays."""
    sizes = {"D": size, "H": HIDDEN}
    parameters = {
        name: rng.normal(size=(*batch, *(sizes[axis] for axis in axes)))
        for name, axes in SHAPES[cls].items()
    }
    if "mask" in parameters:
        every_other = np.arange(size) % 2.0
        parameters["mask"] = np.broadcast_to(every_other, [*batch, size])
    return parameters


def as_variables(parameters):
    return {name: tf.Variable(value) for name, value in parameters.items()}


def formulas(cls, x, parameters):
    """Computes the same by the functions of `tfp_refine.math`."""
    if cls is bijectors.GatedCoupling:
        network = {k: v for k, v in parameters.items() if k != "mask"}
        return gated_coupling.forward(
            x, parameters["mask"], gated_coupling.Network(**network)
        )
    module = radial_flow if cls is bijectors.Radial else planar_flow
    return module.forward(x, **parameters)


# A bijector remembers its result for a tensor; it does not know a copy.


def forward_and_log_det(bijector):
    def forward(x):
        x = tf.identity(x)
        return bijector.forward(x), bijector.forward_log_det_jacobian(x)

    return forward


def inverse(bijector):
    return lambda y: bijector.inverse(tf.identity(y))


@pytest.mark.parametrize(("batch", "size"), [((), 1), ((3,), 4)])
@pytest.mark.parametrize("cls", CLASSES)
def test_a_bijector_is_what_the_formulas_say(cls, batch, size, rng):
    parameters = draw(cls, rng, size, batch)
    bijector = cls(**parameters)
    x = tf.constant(rng.normal(size=(5, *batch, size)))
    y, log_det = formulas(
        cls, x, {name: tf.constant(v) for name, v in parameters.items()}
    )
    found = forward_and_log_det(bijector)(x)
    np.testing.assert_array_equal(found[0], y)
    np.testing.assert_array_equal(found[1], log_det)
    flow_checks.assert_log_det(forward_and_log_det(bijector), x, rtol=1e-10)
    flow_checks.assert_inverse(
        forward_and_log_det(bijector), inverse(bijector), x
    )
    np.testing.assert_allclose(
        bijector.inverse_log_det_jacobian(tf.identity(y)),
        -log_det,
        rtol=1e-9,
        atol=1e-11,
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_log_dets_of_several_vectors_are_summed(cls, rng):
    bijector = cls(**draw(cls, rng))
    x = tf.constant(rng.normal(size=(5, 3, 2)))
    one_by_one = bijector.forward_log_det_jacobian(x)
    assert one_by_one.shape == [5, 3]
    together = bijector.forward_log_det_jacobian(x, event_ndims=2)
    np.testing.assert_allclose(
        together, tf.reduce_sum(one_by_one, axis=-1), rtol=1e-12
    )


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("cls", CLASSES)
def test_densities_are_normalized(cls, size, rng):
    distribution = tfd.TransformedDistribution(
        tfd.MultivariateNormalDiag(tf.zeros([size], tf.float64)),
        cls(**draw(cls, rng, size)),
    )
    # Not evenly around zero, where the kink of a radial flow may be.
    axis = np.linspace(-12.0, 12.1, {1: 20_001, 2: 301}[size])
    grid = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), axis=-1)
    density = tf.exp(distribution.log_prob(tf.constant(grid)))
    total = np.sum(density) * (axis[1] - axis[0]) ** size
    np.testing.assert_allclose(total, 1.0, rtol={1: 1e-5, 2: 2e-3}[size])


@pytest.mark.parametrize("cls", CLASSES)
def test_densities_are_those_of_a_change_of_variables(cls, rng):
    bijector = cls(**draw(cls, rng, 3))
    distribution = tfd.TransformedDistribution(
        tfd.MultivariateNormalDiag(tf.zeros([3], tf.float64)), bijector
    )
    x = tf.constant(rng.normal(size=(20, 3)))
    _, log_det = np.linalg.slogdet(flow_checks.jacobian(bijector.forward, x))
    np.testing.assert_allclose(
        distribution.log_prob(tf.identity(bijector.forward(x))),
        np.sum(stats.norm.logpdf(x), axis=-1) - log_det,
        rtol=1e-9,
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_variables_are_trained_and_their_changes_seen(cls, rng):
    variables = as_variables(draw(cls, rng))
    bijector = cls(**variables)
    assert {v.ref() for v in bijector.trainable_variables} == {
        v.ref() for v in variables.values()
    }
    x = tf.constant(rng.normal(size=(4, 2)))
    variables.pop("mask", None)
    for variable in variables.values():
        with tf.GradientTape() as tape:
            y = bijector.forward(x)
        assert np.any(tape.gradient(y, variable) != 0.0)
        variable.assign(1.5 * variable + 0.1)
        changed = bijector.forward(tf.identity(x))
        assert np.any(changed != y)
        np.testing.assert_allclose(inverse(bijector)(changed), x, rtol=1e-9)


@pytest.mark.parametrize("cls", CLASSES)
def test_variables_may_have_unknown_shapes(cls, rng):
    parameters = draw(cls, rng)
    bijector = cls(
        **{
            name: tf.Variable(value, shape=tf.TensorShape(None))
            for name, value in parameters.items()
        }
    )
    x = tf.constant(rng.normal(size=(4, 2)))
    expected = cls(**parameters).forward(x)
    np.testing.assert_array_equal(bijector.forward(x), expected)


@pytest.mark.parametrize("cls", CLASSES)
def test_parameters_may_be_transformed_variables(cls, rng):
    parameters = draw(cls, rng)
    name, value = parameters.popitem()
    variable = tf.Variable(value)
    deferred = tfp.util.DeferredTensor(variable, lambda v: 2.0 * v)
    bijector = cls(**parameters, **{name: deferred})
    assert bijector.trainable_variables == (variable,)
    x = tf.constant(rng.normal(size=(4, 2)))
    expected = cls(**parameters, **{name: 2.0 * value}).forward(x)
    np.testing.assert_array_equal(bijector.forward(x), expected)
    variable.assign(0.5 * variable)
    expected = cls(**parameters, **{name: value}).forward(x)
    np.testing.assert_array_equal(bijector.forward(tf.identity(x)), expected)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_copy_has_the_same_variables(cls, rng):
    variables = as_variables(draw(cls, rng))
    bijector = cls(**variables, validate_args=True, name="mine")
    copied = bijector.copy()
    assert (copied.name, copied.validate_args) == ("mine", True)
    assert set(copied.parameters) == {*variables, "validate_args", "name"}
    for one, other in zip(
        copied.trainable_variables, bijector.trainable_variables, strict=True
    ):
        assert one is other
    name, variable = variables.popitem()
    changed = bijector.copy(**{name: variable + 1.0, "name": "other"})
    assert changed.name == "other"
    variable.assign_add(tf.ones_like(variable))
    x = tf.constant(rng.normal(size=(4, 2)))
    np.testing.assert_array_equal(copied.forward(x), bijector.forward(x))
    np.testing.assert_array_equal(changed.forward(x), bijector.forward(x))


@pytest.mark.parametrize("convert", [tf.constant, tf.Variable])
@pytest.mark.parametrize(("cls", "name"), PARAMETERS)
def test_other_dtypes_are_refused_by_name(cls, name, convert, rng):
    parameters = draw(cls, rng)
    parameters = {key: convert(value) for key, value in parameters.items()}
    parameters[name] = convert(tf.cast(parameters[name], tf.float32))
    first = next(iter(parameters))
    # The first parameter decides.
    wrong, wanted = (name, "float64")
    if name == first:
        wrong, wanted = (list(parameters)[1], "float32")
    with pytest.raises(
        ValueError, match=f"`{wrong}` must have .*{wanted}. Rec"
    ):
        cls(**parameters)


@pytest.mark.parametrize("convert", [np.asarray, tf.constant, tf.Variable])
@pytest.mark.parametrize(
    ("cls", "name"), [(c, n) for c, n in PARAMETERS if SHAPES[c][n]]
)
def test_too_few_axes_are_refused_by_name(cls, name, convert, rng):
    parameters = draw(cls, rng)
    parameters[name] = convert(parameters[name][0])
    ndims = len(SHAPES[cls][name])
    shape = r"\(\)" if ndims == 1 else r"\([23],\)"
    with pytest.raises(
        ValueError,
        match=f"`{name}` must have {ndims} axes or more and dtype float64. "
        f"Received: shape {shape}, dtype float64",
    ):
        cls(**parameters)


@pytest.mark.parametrize(
    ("convert", "dtype"),
    [
        (np.ndarray.tolist, tf.float32),
        (np.asarray, tf.float64),
        (np.float32, tf.float32),
        (tf.constant, tf.float64),
    ],
)
@pytest.mark.parametrize("cls", CLASSES)
def test_parameters_decide_the_dtype(cls, convert, dtype, rng):
    parameters = draw(cls, rng)
    bijector = cls(**{name: convert(v) for name, v in parameters.items()})
    assert bijector.dtype == dtype
    assert bijector.forward(tf.zeros([2], dtype)).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int64, bool])
@pytest.mark.parametrize("cls", CLASSES)
def test_whole_numbers_do_not_decide_the_dtype(cls, dtype, rng):
    parameters = draw(cls, rng)
    first = next(iter(parameters))
    whole = np.array([1, 0], dtype)
    x = tf.constant(rng.normal(size=(4, 2)))
    expected = cls(**{**parameters, first: whole.astype(float)}).forward(x)
    found = cls(**{**parameters, first: whole}).forward(x)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "name"), PARAMETERS)
def test_each_parameter_may_have_batches(cls, name, rng):
    parameters = draw(cls, rng)
    batch = draw(cls, rng, batch=(4,))[name]
    bijector = cls(**{**parameters, name: batch})
    assert bijector.experimental_batch_shape() == [4]
    x = tf.constant(rng.normal(size=2))
    found = {
        "forward": bijector.forward(x),
        "inverse": bijector.inverse(x),
        "forward_log_det_jacobian": bijector.forward_log_det_jacobian(x),
    }
    for index, value in enumerate(batch):
        single = cls(**{**parameters, name: value})
        for method, values in found.items():
            expected = getattr(single, method)(x)
            np.testing.assert_allclose(
                np.broadcast_to(values, [4, *expected.shape])[index],
                expected,
                rtol=1e-10,
                atol=1e-13,
            )


@pytest.mark.slow
@pytest.mark.parametrize("cls", CLASSES)
def test_a_compiled_function_gives_the_same(cls, rng):
    variables = as_variables(draw(cls, rng))
    bijector = cls(**variables)

    def compute(x):
        with tf.GradientTape() as tape:
            x = tf.identity(x)
            log_det = bijector.inverse_log_det_jacobian(x)
            back = bijector.inverse(x)
        gradients = tape.gradient([log_det, back], list(variables.values()))
        return [log_det, back, bijector.forward(back), *gradients]

    compiled = tf.function(
        compute,
        input_signature=[tf.TensorSpec([None, 2], tf.float64)],
        jit_compile=True,
    )
    x = tf.constant(rng.normal(size=(4, 2)))
    for found, expected in zip(compiled(x), compute(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: bijectors.Planar([1.0, 2.0, 3.0], [1.0, 2.0], 0.1),
            "`w` must have 3 in place of 2",
        ),
        (
            lambda: bijectors.GatedCoupling(
                [1.0, 0.0], [[1.0], [1.0]], [0.0], [[1.0, 1.0]], [0.0],
                [[1.0, 1.0]], [0.0, 0.0],
            ),
            "`shift_bias` must have 2 in place of 1",
        ),
    ],
)  # fmt: skip
def test_parameters_of_other_sizes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "flow",
    [
        lambda: bijectors.Planar([1.0], [2.0], 0.1),
        lambda: bijectors.Radial([1.0, 2.0, 3.0], 0.1, 0.2),
    ],
)
def test_points_of_another_size_are_refused(flow):
    points = np.zeros((4, 2), "float32")
    for method in ("forward", "inverse"):
        with pytest.raises(ValueError, match="coordinates. Received: shape"):
            getattr(flow(), method)(points)
    with pytest.raises(ValueError, match="coordinates. Received: shape"):
        flow().forward_log_det_jacobian(points, 1)
