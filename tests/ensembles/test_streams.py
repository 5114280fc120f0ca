"""Training of ensembles on data that memory does not hold."""

import keras
import numpy as np
import pytest

from tests.support import small_streams
from tfp_refine import ensembles
from tfp_refine import sampling


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Blocks of 2 examples of 16 bytes, windows of 3 steps."""
    small_streams.shrink(monkeypatch, window_bytes=16 * 4 * 3)


@pytest.fixture
def data(rng):
    x = rng.normal(size=(25, 3))
    return small_streams.Batches(x, x[:, :1])


def model(*middle):
    made = keras.Sequential(
        [
            keras.Input((3,)),
            *middle,
            keras.layers.Dense(4, "tanh"),
            keras.layers.Dense(1),
        ]
    )
    made.compile(loss="mse")
    return made


def train(data, **options):
    return ensembles.deep_ensemble(
        model(),
        data,
        **{
            "num_members": 2,
            "steps": 47,
            "batch_size": 4,
            "learning_rate": 0.01,
            "seed": 1,
            "verbose": 0,
            **options,
        },
    )


@pytest.mark.slow
def test_an_ensemble_is_trained_on_a_stream(data):
    found = train(data, steps=400)
    loss = found.history["loss"]
    assert loss.shape == (2, 20)
    assert np.all(loss[:, -1] < 0.2 * loss[:, 0])
    x, y = next(iter(data))
    draws = found.predict(x, 2)
    np.testing.assert_allclose(draws.mean(axis=0), y, atol=0.3)
    assert not np.allclose(draws[0], draws[1], atol=1e-4)


@pytest.mark.slow
def test_a_seed_fixes_an_ensemble(data):
    first, again, other = (train(data, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.params, again.params)
    np.testing.assert_array_equal(first.history["loss"], again.history["loss"])
    assert not np.array_equal(first.params, other.params)


@pytest.mark.slow
def test_losses_are_means_over_the_steps_between(data):
    # Segments of 3 steps lie across windows of 3 and, of 2, do not.
    whole = train(data, steps=60)
    assert whole.history["step"].tolist() == list(range(3, 61, 3))
    found = train(data, adversarial_epsilon=0.01)
    assert np.isfinite(found.history["loss"]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "progress",
    [
        pytest.param(0.2, marks=pytest.mark.slow),
        0.5,
        pytest.param(0.8, marks=pytest.mark.slow),
    ],
)
def test_interrupted_training_ends_with_the_same_weights(
    data, tmp_path, progress
):
    begin = data.count
    expected = train(data)
    data.fails_at = data.count + int(progress * (data.count - begin))
    with pytest.raises(RuntimeError, match="the disk is gone"):
        train(data, checkpoint_dir=tmp_path)
    assert list(tmp_path.glob("*.ckpt"))
    data.fails_at = None
    resumed = train(data, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(resumed.params, expected.params)
    np.testing.assert_array_equal(
        resumed.history["loss"], expected.history["loss"]
    )


def test_members_with_examples_of_their_own_need_memory(data):
    with pytest.raises(ValueError, match="`bootstrap=True` needs data that"):
        train(data, bootstrap=True)


def test_chains_and_averages_take_streams(data):
    given = {"batch_size": 4, "seed": 1, "verbose": 0}
    found = sampling.cyclical_sghmc(
        model(), data, num_cycles=2, samples_per_cycle=1, steps_per_cycle=9,
        steps_per_sample=2, **given,
    )  # fmt: skip
    assert len(found.sample(2, seed=1)) == 2
    averaged = {"num_snapshots": 3, "rank": 2, "steps_per_snapshot": 4}
    found = ensembles.swag(model(), data, **averaged, **given)
    assert np.isfinite(found.loc).all()
    normalized = model(keras.layers.BatchNormalization())
    with pytest.raises(ValueError, match="moving averages.*fit in memory"):
        ensembles.swag(normalized, data, **averaged, **given)


@pytest.mark.slow
def test_checkpoints_say_what_differs(data, tmp_path):
    train(data, checkpoint_dir=tmp_path)
    x = np.ones((25, 3))
    other = small_streams.Batches(x, x[:, :1])
    with pytest.raises(ValueError, match="data: '25 examples"):
        train(other, checkpoint_dir=tmp_path)
