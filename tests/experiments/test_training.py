import keras
import numpy as np
import pytest

from tests.support import linear_gaussian
from tfp_refine.experiments import training


@pytest.fixture
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch):
    monkeypatch.setattr(training, "_MAX_SEGMENT", 8)
    monkeypatch.setattr(training, "_MAX_STEPS_PER_EXECUTION", 4)


def _model(problem):
    model = problem.model()
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=model.loss)
    return model


def _train(problem, directory, steps, batch_size=6):
    return training.train(
        _model(problem), problem.x, problem.y, steps=steps,
        batch_size=batch_size, seed=3, directory=directory,
    )  # fmt: skip


@pytest.mark.parametrize("steps", [1, 7, 8, 20, 23])
def test_steps_are_counted_exactly(problem, tmp_path, steps):
    model = _train(problem, tmp_path, steps)
    assert int(model.optimizer.iterations) == steps


@pytest.mark.parametrize("batch_size", [6, 100])
def test_stopped_training_ends_with_the_same_weights(
    problem, tmp_path, monkeypatch, batch_size
):
    whole = _train(problem, tmp_path / "whole", 20, batch_size)
    fit, calls = keras.Model.fit, []

    def stopping_fit(self, *args, **kwargs):
        calls.append(kwargs["steps_per_epoch"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit(self, *args, **kwargs)

    monkeypatch.setattr(keras.Model, "fit", stopping_fit)
    with pytest.raises(KeyboardInterrupt):
        _train(problem, tmp_path / "stopped", 20, batch_size)
    resumed = _train(problem, tmp_path / "stopped", 20, batch_size)
    assert calls == [8, 8, 8, 4]  # the second was stopped and done again
    for one, other in zip(
        whole.get_weights(), resumed.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_finished_training_is_read_not_repeated(problem, tmp_path, monkeypatch):
    whole = _train(problem, tmp_path, 10)
    monkeypatch.setattr(keras.Model, "fit", None)
    again = _train(problem, tmp_path, 10)
    for one, other in zip(
        whole.get_weights(), again.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert [path.name for path in tmp_path.iterdir()] == ["segment_1.keras"]
