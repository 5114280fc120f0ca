import numpy as np
import pytest
import tensorflow as tf

from tfp_refine.math import gauss_newton

# N, C, P.
SHAPES = [(7, 3, 4), (1, 4, 2), (5, 2, 1), (30, 3, 2)]


def of_softmax(logits):
    probs = np.exp(logits - np.max(logits, axis=-1, keepdims=True))
    probs /= np.sum(probs, axis=-1, keepdims=True)
    return (
        np.einsum("nc,cd->ncd", probs, np.eye(probs.shape[-1]))
        - probs[:, :, None] * probs[:, None, :]
    )


def softmax_problem(rng, shape):
    n, c, p = shape
    features = rng.normal(size=(n, p))
    weights = rng.normal(size=(c, p))
    labels = rng.integers(c, size=n)
    return features, weights, labels, of_softmax(features @ weights.T)


def random_curvature(rng, n, c):
    root = rng.normal(size=(n, c, c))
    return root @ np.swapaxes(root, 1, 2)


def autodiff_hessian(loss, weights):
    flat = tf.constant(np.reshape(weights, [-1]))
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(flat)
        with tf.GradientTape() as inner:
            inner.watch(flat)
            value = loss(tf.reshape(flat, weights.shape))
        gradient = inner.gradient(value, flat)
    return outer.jacobian(gradient, flat, experimental_use_pfor=False)


def full(features, output_hessian):
    return gauss_newton.full(
        tf.constant(features), tf.constant(output_hessian)
    ).numpy()


def kronecker(features, output_hessian):
    gram = gauss_newton.gram(tf.constant(features)).numpy()
    return np.kron(np.sum(output_hessian, axis=0), gram / len(features))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_hessian_is_that_of_autodiff(rng, shape):
    features, weights, labels, output_hessian = softmax_problem(rng, shape)

    def loss(theta):
        logits = tf.matmul(tf.constant(features), theta, transpose_b=True)
        return tf.reduce_sum(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        )

    found = full(features, output_hessian)
    size = shape[1] * shape[2]
    assert found.shape == (size, size)
    expected = autodiff_hessian(loss, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_the_hessian_of_a_gaussian_loss_is_that_of_autodiff(rng):
    n, c, p = 6, 3, 2
    features = rng.normal(size=(n, p))
    targets = rng.normal(size=(n, c))
    precision = random_curvature(rng, n, c)

    def loss(theta):
        error = targets - tf.matmul(features, theta, transpose_b=True)
        return 0.5 * tf.einsum("nc,ncd,nd->", error, precision, error)

    expected = autodiff_hessian(loss, rng.normal(size=(c, p)))
    found = full(features, precision)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_of_equal_noise_the_hessian_is_block_diagonal(rng):
    features = rng.normal(size=(6, 2))
    found = full(features, np.tile(np.eye(3) / 0.25, [6, 1, 1]))
    expected = np.kron(np.eye(3), features.T @ features / 0.25)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_hessian_is_the_sum_of_kronecker_products(rng, shape):
    n, c, p = shape
    features = rng.normal(size=(n, p))
    # Not symmetric: rows are not taken for columns.
    output_hessian = rng.normal(size=(n, c, c))
    expected = sum(
        np.kron(b, np.outer(phi, phi))
        for b, phi in zip(output_hessian, features, strict=True)
    )
    found = full(features, output_hessian)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_diagonal_is_that_of_the_hessian(rng, shape):
    n, c, p = shape
    features = rng.normal(size=(n, p))
    output_hessian = random_curvature(rng, n, c)
    found = gauss_newton.diagonal(
        tf.constant(features),
        tf.constant(np.diagonal(output_hessian, axis1=1, axis2=2)),
    )
    expected = np.diagonal(full(features, output_hessian)).reshape(c, p)
    assert found.shape == (c, p)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_gram_matrix_is_the_sum_of_outer_products(rng):
    features = rng.normal(size=(5, 3))
    found = gauss_newton.gram(tf.constant(features))
    expected = sum(np.outer(phi, phi) for phi in features)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "same", ["example", "features", "curvature", "nothing"]
)
def test_the_kronecker_product_is_exact_only_where_stated(rng, same):
    n = 1 if same == "example" else 8
    features = rng.normal(size=(n, 3))
    output_hessian = random_curvature(rng, n, 2)
    if same == "features":
        features[:] = features[0]
    elif same == "curvature":
        output_hessian[:] = output_hessian[0]
    exact = full(features, output_hessian)
    error = np.linalg.norm(kronecker(features, output_hessian) - exact)
    error /= np.linalg.norm(exact)
    if same == "nothing":
        assert error > 0.05
    else:
        assert error < 1e-13


@pytest.mark.parametrize("shape", [(40, 3, 4), (40, 5, 2), (2, 3, 4)])
def test_of_softmax_one_direction_per_feature_is_flat(rng, shape):
    n, c, p = shape
    features, *_, output_hessian = softmax_problem(rng, shape)
    found = full(features, output_hessian)
    # An example has a rank of C - 1.
    rank = (c - 1) * min(n, p)
    assert np.linalg.matrix_rank(found, hermitian=True) == rank
    # All rows of Theta moved alike change no probability.
    flat = np.kron(np.ones([c, 1]), np.eye(p))
    np.testing.assert_allclose(found @ flat, 0.0, atol=1e-12)
    assert np.min(np.linalg.eigvalsh(found)) > -1e-12
