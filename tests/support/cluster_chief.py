"""A chief that refines a model; a process of its own.

Run as a script, with the folder of the checkpoint, the file of the ensemble's
arrays, the refined model, a name in `STARTS`, and `here`, `cluster`,
`impatient` or `member_by_member`: by a cluster, each member a job of its own,
after which the work is saved.
"""

import pathlib
import sys

import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine import functional
from tfp_refine.refinement import loop

NUM_MEMBERS = 5
STEPS = 1500


def model():
    """Makes the model to refine, always the same."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            tfr.layers.DenseLocalReparameterization(20, activation="relu"),
            tfr.layers.DenseFlipout(1),
            tfr.layers.HomoscedasticNoise(),
        ]
    )
    tfr.layers.set_num_train_examples(model, 300)
    model.compile("adam", tfr.losses.HeteroscedasticGaussianNLL())
    return model


def data():
    """Returns inputs and targets."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    return x, np.sin(np.sum(x, axis=1, keepdims=True))


def laplace():
    """Makes a Gaussian of correlated weights, always the same."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(20, activation="relu"),
            keras.layers.Dense(1),
        ]
    )
    return tfr.laplace.LastLayerLaplace(model, "regression").fit(
        *data(), verbose=0
    )


STARTS = {"layers": model, "laplace": laplace}


def main():
    """Refines, and writes the result."""
    folder, path, start, where = sys.argv[1:]
    coordinator = None
    if where != "here":
        coordinator = tfr.distribute.connect(timeout=300)
    if where == "impatient":
        functional.executor.ClusterExecutor.patience = 60.0
    alone = where == "member_by_member"
    if alone:
        loop.Loop.save_every = loop.Loop.save_ratio = 0.0
    ensemble = tfr.refine(
        STARTS[start](),
        *data(),
        num_members=NUM_MEMBERS,
        steps=STEPS,
        batch_size=64,
        num_eval_samples=3,
        coordinator=coordinator,
        members_per_batch=1 if alone else None,
        checkpoint_dir=None if folder == "none" else folder,
        seed=3,
        verbose=2,
    )
    draws = ensemble.predict(data()[0][:5], num_samples=10, seed=4)
    np.savez(
        pathlib.Path(path),
        **ensemble.history,
        params=ensemble.params,
        draws=draws,
    )


if __name__ == "__main__":
    main()
