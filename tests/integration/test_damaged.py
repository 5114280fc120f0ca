"""Files of every kind, cut and changed anywhere, are refused or the same.

`TFP_REFINE_KILLS=20` tries 20 times as many places.
"""

import os
import random
import re
import shutil

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import posterior_cases
from tfp_refine.experiments.harness import training

pytestmark = pytest.mark.slow

_PLACES = 20 * int(os.environ.get("TFP_REFINE_KILLS", "1"))
X, Y = posterior_cases.data("regression")


def _posterior(folder):
    """Loads a posterior, made first if need be; returns predictions."""
    path = folder / "laplace.posterior"
    if not path.exists():
        laplace = tfr.laplace.LastLayerLaplace(
            posterior_cases.network("regression"), "regression"
        )
        laplace.fit(X, Y, verbose=0).save(path)
    return tfr.load_posterior(path).predict(X[:3], 5, seed=1)


def _swag(folder):
    """Trains an ensemble, or reads its checkpoint."""
    made = tfr.ensembles.swag(
        posterior_cases.network("regression"), X, Y, num_snapshots=3, rank=2,
        steps_per_snapshot=1, checkpoint_dir=folder, seed=1, verbose=0,
    )  # fmt: skip
    return made.predict(X[:3], 5, seed=1)


def _training(folder):
    """Trains as experiments do, or reads their files."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    trained = training.train(
        model, X, Y, steps=4, segment_steps=2, batch_size=8, seed=1,
        directory=folder, verbose=0,
    )  # fmt: skip
    losses = [entry["loss"] for entry in trained.history]
    return np.concatenate([np.ravel(trained.model(X[:3])), losses])


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "changed"])
@pytest.mark.parametrize("make", [_posterior, _swag, _training])
def test_a_damaged_file_is_named_or_the_same(make, cut, tmp_path, attacks):
    kind = "cut" if cut else "flipped bit"
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = make(whole)
    rng = random.Random(0)
    files = [path for path in whole.iterdir() if path.stat().st_size > 20]
    assert files
    for place in range(_PLACES):
        folder = tmp_path / "damaged"
        shutil.copytree(whole, folder)
        path = folder / rng.choice(files).name
        contents = bytearray(path.read_bytes())
        position = rng.randrange(len(contents))
        if cut:
            contents = contents[:position]
        else:
            contents[position] ^= 1 << rng.randrange(8)
        path.write_bytes(contents)
        attacks.tried(kind, make.__name__)
        try:
            found = make(folder)
        except ValueError as error:
            assert re.search(f"'{path}'", str(error)), (place, position)  # noqa: PT017
        else:
            np.testing.assert_array_equal(found, expected)
        attacks.survived(kind, make.__name__)
        shutil.rmtree(folder)
