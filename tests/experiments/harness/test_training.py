import errno
import os
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support import linear_gaussian
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine.experiments.harness import training


@pytest.fixture
def problem():
    return linear_gaussian.LinearGaussian()


@pytest.fixture(autouse=True, scope="module")
def _short_executions():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "_MAX_STEPS_PER_EXECUTION", 2)
        yield


def _model(problem):
    model = problem.model()
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=model.loss)
    return model


def _train(problem, directory, steps, batch_size=6, **options):
    return training.train(
        _model(problem), problem.x, problem.y, steps=steps,
        batch_size=batch_size, seed=3, directory=directory, segment_steps=8,
        **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def finished(_short_executions, tmp_path_factory):
    """A training of ten steps, and its folder."""
    path = tmp_path_factory.mktemp("finished")
    return _train(linear_gaussian.LinearGaussian(), path, 10), path


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of the folder of `finished`."""
    return shutil.copytree(finished[1], tmp_path / "copy")


def _without_times(trained):
    return [{**entry, "seconds": None} for entry in trained.history]


def _assert_same_weights(one, other):
    for ours, theirs in zip(
        one.model.get_weights(), other.model.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "steps",
    [7, 20, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 8, 23))],
)
def test_steps_are_counted_exactly(problem, tmp_path, steps):
    model = _train(problem, tmp_path, steps).model
    assert int(model.optimizer.iterations) == steps


@pytest.mark.slow
def test_callbacks_see_a_segment_as_an_epoch(problem, tmp_path):
    epochs = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: epochs.append(epoch)
    )
    _train(problem, tmp_path, 10, callbacks=[callback])
    assert epochs == [0, 1]


@pytest.mark.parametrize(
    "batch_size", [6, pytest.param(100, marks=pytest.mark.slow)]
)
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
    _assert_same_weights(whole, resumed)
    assert _without_times(whole) == _without_times(resumed)


@pytest.mark.slow
def test_finished_training_is_read_not_repeated(
    problem, finished, folder, monkeypatch
):
    whole, _ = finished
    monkeypatch.setattr(keras.Model, "fit", None)
    again = _train(problem, folder, 10)
    _assert_same_weights(whole, again)
    assert whole.history == again.history  # times and all
    assert {path.name for path in folder.iterdir()} == {
        "history.json",
        "segment_1.keras",
    }


@pytest.mark.slow
def test_history_tells_of_every_segment(problem, tmp_path):
    trained = _train(
        problem,
        tmp_path,
        20,
        validation_data=(problem.x[:5], problem.y[:5]),
        observe=lambda model, entry: {"twice": 2.0 * entry["loss"]},
    )
    assert [entry["step"] for entry in trained.history] == [8, 16, 20]
    for entry in trained.history:
        assert entry["twice"] == 2.0 * entry["loss"]
    assert trained.history[0]["val_loss"] != trained.history[2]["val_loss"]


def test_training_is_logged_for_tensorboard(problem, tmp_path):
    _train(problem, tmp_path, 20, tensorboard=True)
    paths = sorted(map(str, (tmp_path / "tensorboard").iterdir()))
    events = [
        (value.tag, event.step)
        for path in paths
        for event in tf.compat.v1.train.summary_iterator(path)
        for value in event.summary.value
    ]
    assert sorted(events) == [
        (tag, step) for tag in ("loss", "seconds") for step in (8, 16, 20)
    ]


class Validation:
    """Stands in for `evaluate`, with losses that are given."""

    def __init__(self, monkeypatch, losses):
        losses = iter(losses)
        monkeypatch.setattr(
            keras.Model,
            "evaluate",
            lambda self, *args, **kwargs: {"loss": next(losses)},
        )


def test_patience_stops_and_goes_back_to_the_best(
    problem, tmp_path, monkeypatch
):
    options = {"validation_data": (problem.x, problem.y)}
    Validation(monkeypatch, [3.0, 1.0, 2.0, 1.5, 0.0])
    stopped = _train(problem, tmp_path / "a", 40, patience=2, **options)
    assert [entry["val_loss"] for entry in stopped.history] == [3, 1, 2, 1.5]
    best = _train(problem, tmp_path / "b", 16)
    _assert_same_weights(stopped, best)
    # Stopped means stopped, also after a restart.
    again = _train(problem, tmp_path / "a", 40, patience=2, **options)
    _assert_same_weights(again, best)
    assert again.history == stopped.history


@pytest.mark.slow
def test_augmentation_reaches_the_model(problem, tmp_path):
    plain = _train(problem, tmp_path / "a", 8)
    zeros = _train(
        problem, tmp_path / "b", 8, augment=lambda x, seed: tf.zeros_like(x)
    )
    assert zeros.history[0]["loss"] != plain.history[0]["loss"]


@pytest.mark.slow
def test_a_save_that_fails_leaves_the_old_files(problem, tmp_path, monkeypatch):
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "tmp_segment_0.keras").symlink_to(mine)
    _train(problem, folder, 8)
    assert mine.read_bytes() == b"mine"
    before = sorted(folder.iterdir())

    def full(file):
        raise OSError("The disk is full.")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"history\.json.*full"):
        _train(problem, folder, 16)
    assert sorted(folder.iterdir()) == before


def test_a_damaged_checkpoint_is_an_error(problem, folder):
    path = folder / "segment_1.keras"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"segment_1.keras' cannot be read"):
        _train(problem, folder, 10)


def test_a_checkpoint_of_another_model_is_an_error(problem, folder):
    keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]).save(
        folder / "segment_1.keras"
    )
    with pytest.raises(ValueError, match="belongs to another model"):
        _train(problem, folder, 10)


@pytest.mark.parametrize("changed", ["activation", "prior"])
def test_a_checkpoint_of_another_model_of_the_same_shapes_is_an_error(
    problem, folder, changed
):
    other = _model(problem)
    if changed == "activation":
        other.layers[1].activation = keras.activations.tanh
    else:
        other.layers[1].kernel_regularizer.prior_scale = 2.0
    other.optimizer.build(other.trainable_variables)
    other.save(folder / "segment_1.keras")
    with pytest.raises(ValueError, match="has other outputs or another pen"):
        _train(problem, folder, 10)


def test_a_lost_history_is_an_error(problem, folder):
    (folder / "history.json").write_text("[")
    with pytest.raises(ValueError, match=r"history.json' is damaged"):
        _train(problem, folder, 10)


def test_a_training_that_diverges_stops(problem, tmp_path):
    steps = []

    def augment(x, seed):
        return x * np.float32(np.nan)

    with pytest.raises(FloatingPointError, match="nan between steps 0 and 8"):
        _train(
            problem, tmp_path, 40, augment=augment,
            observe=lambda model, entry: steps.append(entry),
        )  # fmt: skip
    assert not steps
    assert not list(tmp_path.glob("*.keras"))


@pytest.mark.slow
def test_patience_does_not_take_nan_for_the_best(
    problem, tmp_path, monkeypatch
):
    options = {"validation_data": (problem.x, problem.y)}
    Validation(monkeypatch, [np.nan, 2.0, 1.0, 3.0, 4.0])
    trained = _train(problem, tmp_path, 40, patience=2, **options)
    best = _train(problem, tmp_path / "b", 24)
    _assert_same_weights(trained, best)


def test_segments_do_not_break_epochs(problem, tmp_path, monkeypatch):
    starts = []
    original = training.batches.training_batches

    def spy(*arguments, first_step):
        starts.append((arguments[3], first_step))
        return original(*arguments, first_step=first_step)

    monkeypatch.setattr(training.batches, "training_batches", spy)
    _train(problem, tmp_path, 20)
    seeds, steps = zip(*starts, strict=True)
    assert steps == (0, 8, 16)
    assert len(set(seeds)) == 1


@pytest.mark.slow
def test_a_penalty_that_is_an_estimate_does_not_stop_a_restart(
    problem, tmp_path
):
    def train():
        inputs = keras.Input((2,))
        layer = layers.DenseReparameterization(
            1, kernel_regularizer="scale_mixture_kl", num_train_examples=20
        )
        model = keras.Model(inputs, layer(inputs))
        model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
        # Draws that no checkpoint has made.
        _ = model.losses
        return training.train(
            model, problem.x, problem.y, steps=16, batch_size=6, seed=3,
            directory=tmp_path, segment_steps=8, validation_data=(
                problem.x, problem.y
            ), patience=5,
        )  # fmt: skip

    first, again = train(), train()
    _assert_same_weights(first, again)


def test_a_model_that_does_not_fit_on_the_disk_names_the_file(monkeypatch):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])

    def fail(path):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(model, "save", fail)
    with pytest.raises(OSError, match="Cannot write '.*model.keras': No space"):
        functional.copying.to_bytes(model)
