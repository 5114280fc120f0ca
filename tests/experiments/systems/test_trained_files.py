"""Systems of a trained model, which may return logits or probabilities."""

import keras
import numpy as np
import pytest
import scipy.special

from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

QUICK = ("map", "temperature", "laplace", "csghmc", "deep_ensemble")
SYSTEMS = (*QUICK, "swag", "adversarial_ensemble", "multi_swag")


def data_of(num_classes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2)).astype(np.float32)
    y = np.digitize(x[:, 0] + rng.normal(size=90), [-0.5, 0.5])
    y = np.minimum(y, num_classes - 1)
    pairs = [(x[rows], y[rows]) for rows in np.split(np.arange(90), [60, 75])]
    train, validation, test = pairs
    return dataset.Dataset(
        train=train,
        validation=validation,
        test=test,
        num_classes=num_classes,
    )


def probabilities(path, data, outputs, activation, systems):
    """Returns the mean probabilities of test inputs, by system."""
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(outputs, activation=activation)]
    )
    kernel = [np.linspace(0.0, 1.5, outputs + 1)[1:], np.full(outputs, 0.3)]
    model.set_weights([np.stack(kernel), np.linspace(0.0, 0.5, outputs)])
    path.mkdir()
    model.save(path / "mine.keras")
    config = fields.Bench(
        dataset="iris", model=str(path / "mine.keras"), batch_size=32,
        train_steps=20, cycles=2, samples_per_cycle=1, num_members=2,
        swag_snapshots=2, swag_rank=2, num_samples=6, progress=False,
    )  # fmt: skip
    config = config.with_defaults(config.after_data("table", (2,), 60))
    with folder_lib.Folder(path / "out", "test", config, {}) as folder:
        of = repetition.Repetition(config, data, 0, folder)
        found = {}
        for text in systems:
            expression = registry.parse(text, fields.Bench)
            assert of.why_not(expression) is None
            draws = of.fitted(expression)[0].draws(data.test[0])
            assert draws.shape[1:] == (15, data.num_classes)
            found[text] = scipy.special.softmax(draws, axis=-1).mean(axis=0)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_classes", "outputs", "activation", "systems"),
    [
        (3, 3, "softmax", QUICK),
        pytest.param(3, 3, "softmax", SYSTEMS, marks=pytest.mark.slow),
        pytest.param(2, 1, "sigmoid", SYSTEMS, marks=pytest.mark.slow),
    ],
)
def test_models_of_probabilities_are_those_of_their_logits(
    tmp_path, num_classes, outputs, activation, systems
):
    data = data_of(num_classes)
    logits, probs = (
        probabilities(tmp_path / name, data, outputs, name, systems)
        for name in ("linear", activation)
    )
    for system in systems:
        np.testing.assert_allclose(
            probs[system], logits[system], rtol=1e-3, atol=1e-4, err_msg=system
        )
