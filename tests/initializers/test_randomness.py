import keras
import numpy as np
import pytest

from tests.support import bayesian_linear
from tfp_refine import initializers
from tfp_refine import layers
from tfp_refine import models
from tfp_refine.initializers import iblm

INITIALIZERS = {
    "iblm": initializers.IBLM,
    "paper": iblm.PaperIBLM,
    "lsuv": initializers.LSUV,
    "orthogonal": initializers.Orthogonal,
}


@pytest.fixture
def data(rng):
    x = rng.normal(size=(200, 4)).astype("float32")
    y = np.sin(2.0 * x[:, :1]) + 0.1 * rng.normal(size=(200, 1))
    return x, y.astype("float32")


def initialized(make, data, seed, model_seed=1, hidden=(8, 7)):
    """Returns the weights of a new model."""
    model = models.MLP((4,), 1, hidden=hidden, seed=model_seed)
    make(seed=seed, verbose=False)(model, *data)
    return [
        np.array(v)
        for weight in variational_weights(model)
        for v in (weight.loc, weight.scale)
    ]


def variational_weights(model):
    return [w for layer in model.layers for w in weights_of(layer)]


def weights_of(layer):
    return getattr(layer, "variational_weights", ())


@pytest.mark.slow
@pytest.mark.parametrize("make", INITIALIZERS.values(), ids=INITIALIZERS)
def test_the_same_seeds_give_the_same_weights(make, data):
    first, second = (initialized(make, data, 3) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("make", INITIALIZERS.values(), ids=INITIALIZERS)
def test_other_seeds_give_other_weights(make, data):
    expected = initialized(make, data, 3)[0]
    for seed in (4, None):
        assert np.mean(initialized(make, data, seed)[0] == expected) < 0.5


def test_without_a_seed_each_call_differs(data):
    make = initializers.IBLM
    first, second = (initialized(make, data, None)[0] for _ in range(2))
    assert np.mean(first == second) < 0.5


def test_the_seed_of_keras_fixes_a_call_without_a_seed(data):
    found = []
    for _ in range(2):
        keras.utils.set_random_seed(5)
        found.append(initialized(initializers.Orthogonal, data, None)[0])
    np.testing.assert_array_equal(*found)


def test_layers_draw_their_weights_with_seeds_of_their_own(data):
    first = initialized(initializers.IBLM, data, 3)
    second = initialized(initializers.IBLM, data, 3, model_seed=2)
    # The first layer sees the data themselves.
    np.testing.assert_array_equal(first[0], second[0])
    assert np.mean(first[4] == second[4]) < 0.5


def test_the_global_generators_are_left_alone(data):
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    initialized(initializers.IBLM, data, None)
    assert np.random.random() == expected  # noqa: NPY002


def correlations(columns):
    """Returns absolute correlations of all pairs of different columns."""
    normed = columns / np.linalg.norm(columns, axis=0)
    return np.abs(normed.T @ normed)[np.triu_indices(columns.shape[1], 1)]


@pytest.mark.slow
@pytest.mark.parametrize("num", [10, 50, 300])
@pytest.mark.parametrize("index", [0, 1])
def test_hidden_units_differ(num, index, rng):
    x = rng.normal(size=(num, 4))
    y = x[:, 0] - x[:, 1] + 0.1 * rng.normal(size=num)
    model = models.MLP((4,), 1, hidden=(10, 10), seed=1)
    initializers.IBLM(seed=0, verbose=False)(model, x, y)
    mean, _ = bayesian_linear.read(model.layers[1 + index])
    assert np.max(correlations(mean)) < 1.0 - 1e-7


def test_units_of_the_paper_differ_by_their_mini_batches(rng):
    x = rng.normal(size=(300, 4))
    y = x[:, 0] + 0.1 * rng.normal(size=300)
    model = models.MLP((4,), 1, hidden=(10,), seed=1)
    iblm.PaperIBLM(seed=0, verbose=False)(model, x, y)
    mean, _ = bayesian_linear.read(model.layers[1])
    assert 0.9 < np.max(correlations(mean)) < 1.0 - 1e-7


# Signs and targets of hidden units.


def hidden_means(x, y, outputs, make=initializers.IBLM, **arguments):
    """Returns means of the one hidden layer of a model, `[F + 1, 64]`."""
    model = models.MLP((x.shape[1],), outputs, hidden=(64,), seed=1)
    make(**arguments, seed=0, verbose=False)(model, x, y)
    return bayesian_linear.read(model.layers[1])[0]


def steep(rng):
    x = rng.normal(size=(200, 1))
    return x, 3.0 * x + 0.1 * rng.normal(size=(200, 1))


def test_both_signs_appear(rng):
    slopes = hidden_means(*steep(rng), 1)[0]
    np.testing.assert_allclose(np.abs(slopes), 3.0, rtol=0.1)
    # 64 fair coins: false alarm 3e-9.
    assert 10 <= np.sum(slopes > 0.0) <= 54


@pytest.mark.slow
@pytest.mark.parametrize(
    "make", [bayesian_linear.iblm(random_signs=False), iblm.PaperIBLM]
)
def test_signs_need_not_be_random(make, rng):
    assert np.all(hidden_means(*steep(rng), 1, make)[0] > 2.0)


def test_hidden_targets_are_centered_unless_asked_otherwise(rng):
    x, y = steep(rng)
    x -= np.mean(x)
    found = {
        center: hidden_means(
            x,
            y + 20.0,
            1,
            bayesian_linear.iblm(center=center, random_signs=False),
            bias_prior_variance=1e4,
        )[1]
        for center in (True, False)
    }
    # A bias is that of a mini-batch: the mean of the residuals.
    assert np.max(np.abs(found[True])) < 0.5
    assert np.min(found[False]) > 19.0


def test_each_hidden_unit_has_any_of_the_targets(rng):
    x = rng.normal(size=(400, 3))
    make = bayesian_linear.iblm(random_signs=False)
    means = hidden_means(x, 3.0 * x, 3, make)
    targets = np.argmax(means[:-1], axis=0)
    np.testing.assert_allclose(np.max(means[:-1], axis=0), 3.0, rtol=0.1)
    # 64 fair draws of three: that fewer than 3 are of one has false alarm
    # 3 * P(Binomial(64, 1/3) < 3) < 1e-7.
    assert np.min(np.bincount(targets, minlength=3)) >= 3


# Mini-batches.


def test_units_see_examples_that_are_drawn_with_replacement(monkeypatch, rng):
    x, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 1))
    seen = spy_on_mini_batches(monkeypatch)
    model = models.MLP((4,), 1, hidden=(6,), seed=1)
    initializers.IBLM(seed=0, verbose=False)(model, x, y)
    hidden, last = seen
    assert hidden.examples.shape == (6, 128)
    assert hidden.rows.shape == (6, 128, 4)
    for examples, rows in zip(hidden.examples, hidden.rows, strict=True):
        np.testing.assert_array_equal(rows, x.astype("float32")[examples])
        # All 30 are drawn in 128 but for one in 3: never fewer than 15.
        assert 15 <= len(set(examples)) <= 30
    assert sorted(last.examples) == list(range(30))
    assert last.rows.shape == (30, 6)


def test_units_of_the_paper_are_propagated_by_themselves(monkeypatch, rng):
    x, y = rng.normal(size=(300, 4)), rng.normal(size=(300, 2))
    seen = spy_on_mini_batches(monkeypatch)
    model = models.MLP((4,), 2, hidden=(3,), seed=1)
    iblm.PaperIBLM(seed=0, verbose=False)(model, x, y)
    assert [list(batch.units) for batch in seen] == [[0], [1], [2], [0], [1]]
    for batch in seen:
        assert batch.examples.shape == (1, 128)
        assert len(set(batch.examples[0])) == 128
    assert len({tuple(batch.examples[0]) for batch in seen}) == 5
    for batch in seen[:3]:
        np.testing.assert_array_equal(
            batch.rows[0], x.astype("float32")[batch.examples[0]]
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "positions", "batch_size"),
    [(4, 1, 128), (99, 1, 200), (999, 1, 512), (99, 4, 128)],
)
def test_wide_layers_have_larger_mini_batches(
    size, positions, batch_size, monkeypatch, rng
):
    seen = spy_on_mini_batches(monkeypatch)
    shape = (size,) if positions == 1 else (positions, size)
    inputs = keras.Input(shape)
    x = layers.DenseFlipout(2, "relu")(inputs)
    outputs = layers.DenseFlipout(1)(keras.layers.Flatten()(x))
    model = keras.Model(inputs, outputs)
    data = rng.normal(size=(20, *shape)), rng.normal(size=20)
    initializers.IBLM(seed=0, verbose=False)(model, *data)
    assert seen[0].examples.shape == (2, batch_size)
    assert seen[0].rows.shape == (2, batch_size * positions, size)


@pytest.mark.slow
@pytest.mark.parametrize("make", [initializers.IBLM, iblm.PaperIBLM])
def test_hidden_groups_see_their_own_channels(make, monkeypatch, rng):
    seen = spy_on_mini_batches(monkeypatch)
    x = rng.normal(size=(30, 1, 1, 6)).astype("float32")
    inputs = keras.Input((1, 1, 6))
    hidden = layers.Conv2DFlipout(4, 1, groups=2)(inputs)
    outputs = layers.DenseFlipout(1)(keras.layers.Flatten()(hidden))
    model = keras.Model(inputs, outputs)
    y = rng.normal(size=30)
    make(seed=0, verbose=False)(model, x, y)
    units = []
    for batch in seen[:-1]:
        parts = batch.units, batch.examples, batch.rows
        for unit, examples, rows in zip(*parts, strict=True):
            units.append(unit)
            start = 3 * (unit // 2)
            expected = x[examples, 0, 0, start : start + 3]
            np.testing.assert_array_equal(rows, expected)
    assert units == [0, 1, 2, 3]


def spy_on_mini_batches(monkeypatch):
    """Returns a list that mini-batches will be added to."""
    seen = []
    of = iblm.regression.UnitTargets.of

    def spy(self, batch):
        seen.append(batch)
        return of(self, batch)

    monkeypatch.setattr(iblm.regression.UnitTargets, "of", spy)
    return seen


@pytest.mark.parametrize("pool_size", [3, 1000])
def test_pools_are_as_large_as_asked_for(pool_size, monkeypatch, rng):
    seen = spy_on_mini_batches(monkeypatch)
    x, y = rng.normal(size=(600, 4)), rng.normal(size=600)
    model = models.MLP((4,), 1, hidden=(40,), seed=1)
    initializers.IBLM(
        batch_size=64, pool_size=pool_size, seed=0, verbose=False
    )(model, x, y)
    number = len(np.unique(seen[0].examples))
    assert seen[0].examples.shape == (40, 64)
    # 2560 draws out of 600 leave out about 8, never 60.
    assert number == 3 if pool_size == 3 else 540 < number <= 600
