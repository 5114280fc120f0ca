"""Members of ensembles that are copies of a model of one's own."""

import keras
import numpy as np
import pytest

from tfp_refine import ensembles


def test_checkpoints_of_models_that_train_otherwise_are_refused(tmp_path):
    def model(decay=0.0, rate=0.1, average=0.9):
        built = keras.Sequential(
            [
                keras.Input((3,)),
                keras.layers.Dense(
                    2,
                    kernel_regularizer=keras.regularizers.L2(decay),
                    kernel_initializer=keras.initializers.Constant(0.1),
                ),
                keras.layers.BatchNormalization(momentum=average),
                keras.layers.Dropout(rate, seed=1),
                keras.layers.Dense(1),
            ]
        )
        built.compile(loss="mse")
        return built

    x, y = np.ones((20, 3), np.float32), np.ones((20, 1), np.float32)
    options = {
        "num_members": 2, "steps": 2, "batch_size": 5, "seed": 1, "verbose": 0,
        "checkpoint_dir": tmp_path,
    }  # fmt: skip
    ensembles.deep_ensemble(model(), x, y, **options)
    ensembles.deep_ensemble(model(), x, y, **options)  # continues
    for change in ({"decay": 0.1}, {"rate": 0.5}, {"average": 0.5}):
        with pytest.raises(ValueError, match="a different deep ensemble"):
            ensembles.deep_ensemble(model(**change), x, y, **options)


@keras.saving.register_keras_serializable(package="tests")
class OwnInitializer(keras.initializers.Initializer):
    def __init__(self, seed=None):
        self.seed = seed

    def __call__(self, shape, dtype=None):
        return keras.random.uniform(shape, dtype=dtype, seed=self.seed)

    def get_config(self):
        return {"seed": self.seed}


def test_members_of_own_initializers_with_seeds_start_apart():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, kernel_initializer=OwnInitializer(5)),
        ]
    )
    model.compile(loss="mse")
    x, y = np.ones((8, 3), np.float32), np.ones((8, 2), np.float32)
    ensemble = ensembles.deep_ensemble(
        model, x, y, num_members=3, steps=1, learning_rate=1e-12, seed=1,
        verbose=0,
    )  # fmt: skip
    assert np.abs(np.diff(ensemble.params, axis=0)[:, :6]).min() > 1e-4
