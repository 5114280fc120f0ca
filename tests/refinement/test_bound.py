import keras
import numpy as np
import pytest

from tests.support import linear_gaussian
from tests.support import statistics
from tfp_refine import layers
from tfp_refine import refinement
from tfp_refine.refinement import bound


@pytest.mark.parametrize(
    ("shapes", "rows"),
    [
        ((7,), 2048),
        ((7, 13), 2048),
        ((7, 1024), 2048),
        ((7, 1025), 2046),
        ((7, 32, 32, 3), 682),
        ((7, 224, 224, 3), 13),
        ((7, 3000, 3000), 1),
        ({"a": (7, 1024), "b": [(7, 512), (7, 512)]}, 1024),
        ((7, 0), 2048),
    ],
)
def test_inputs_with_many_numbers_are_computed_in_smaller_blocks(shapes, rows):
    x = keras.tree.map_structure_up_to(
        _structure(shapes), lambda shape: np.broadcast_to(0.0, shape), shapes
    )
    assert bound.block_rows(x) == rows


def _structure(shapes):
    """Replaces shapes, the innermost tuples, by leaves."""
    if isinstance(shapes, dict):
        return {name: _structure(shape) for name, shape in shapes.items()}
    if isinstance(shapes, list):
        return [_structure(shape) for shape in shapes]
    return 0


def _blocks_of(monkeypatch, size):
    monkeypatch.setattr(bound, "block_rows", lambda x: size)


def _mean_loss(y_true, y_pred):
    return keras.ops.mean(keras.ops.square(y_true - y_pred))


@pytest.mark.parametrize("loss", [None, _mean_loss])
def test_without_spread_blocks_make_no_difference(monkeypatch, loss):
    problem = linear_gaussian.LinearGaussian()  # 20 examples
    model = problem.model()
    loc, scale = problem.mean_field()
    model.layers[-1].variational_weights[0].assign(loc, 1e-7 * scale)
    bounds = {}
    for size in (1, 3, 6, 7, 20, 2049):
        with monkeypatch.context() as patch:
            _blocks_of(patch, size)
            bounds[size] = refinement.elbo(
                model, problem.x, problem.y, loss=loss, num_samples=3, seed=1
            )
    np.testing.assert_allclose(list(bounds.values()), bounds[2049], rtol=1e-5)
    if loss is None:
        exact = problem.elbo(loc, 1e-7 * scale)
        np.testing.assert_allclose(bounds[7], exact, rtol=1e-5)


def _evaluate(evaluator, work, num_rows, num_samples):
    return evaluator(
        work.state().members,
        np.array(work.settings.members, np.int64),
        np.arange(num_rows, dtype=np.int32),
        np.int64(num_samples),
        *work.constants,
    )


@pytest.mark.parametrize("size", [pytest.param(3, marks=pytest.mark.slow), 8])
def test_bound_in_blocks_is_the_exact_one(monkeypatch, size):
    _blocks_of(monkeypatch, size)
    linear = linear_gaussian.LinearGaussian()
    work = linear_gaussian.Work(
        linear.model(), linear.x, linear.y, num_members=600
    )
    evaluator = bound.evaluator(work.objective)
    log_likelihood, kl = _evaluate(evaluator, work, 20, 12)
    exact = linear.elbo(*linear.mean_field())
    statistics.assert_mean((log_likelihood - kl).numpy(), exact, resolves=0.2)
    # Other rows and samples need no other program.
    _evaluate(evaluator, work, 7, 1)
    assert evaluator.trace_count == 1


@pytest.mark.slow
def test_blocks_draw_independently(monkeypatch):
    # A draw of the weights for each block, twice, and outputs that are it.
    linear = linear_gaussian.LinearGaussian()
    work = linear_gaussian.Work(
        linear.model(layers.DenseReparameterization),
        np.ones_like(linear.x),
        linear.y,
        lambda y, outputs: outputs[:, 0],
        num_members=600,
    )
    variances = []
    for size in (1, 5, 2049):
        with monkeypatch.context() as patch:
            _blocks_of(patch, size)
            evaluator = bound.evaluator(work.objective)
            log_likelihood, _ = _evaluate(evaluator, work, 20, 2)
            variances.append(np.var(log_likelihood))
    np.testing.assert_allclose(
        variances, variances[-1] / np.array([20, 4, 1]), rtol=0.4
    )
