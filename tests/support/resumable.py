"""Work that can be stopped at any moment, in processes that start quickly."""

import errno
import itertools
import multiprocessing
import os
import pathlib
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings

import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine.refinement import loop

METHODS = (
    "refine",
    "callback",
    "deep_ensemble",
    "swag",
    "cyclical_sghmc",
    "nuts",
    "refine_full",
    "refine_kron",
    "laplace_refine",
)


def make(method, folder):
    """Makes a posterior with checkpoints in a folder, or without.

    Returns predictions.
    """
    loop.Loop.save_every = loop.Loop.save_ratio = 0.0
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype("float32")
    y = (x[:, 0] + 0.3 * rng.normal(size=64) > 0.0).astype("int32")
    keras.utils.set_random_seed(1)
    dense = keras.layers.Dense
    if method in ("refine", "callback"):
        dense = tfr.layers.DenseReparameterization
    model = keras.Sequential(
        [keras.Input((3,)), dense(8, activation="tanh"), dense(2)]
    )
    if method in ("refine", "callback"):
        tfr.layers.set_num_train_examples(model, 64)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss)
    options = {"checkpoint_dir": folder, "seed": 1, "verbose": 0}
    if method == "refine":
        made = tfr.refine(
            model, x, y, num_members=3, steps=3000, batch_size=16, **options
        )
    elif method == "callback":
        callback = tfr.RefinementCallback(
            x, y, num_members=3, steps=3000, batch_size=16, **options
        )
        model.fit(x, y, epochs=20, verbose=0, callbacks=[callback])
        made = callback.ensemble
    elif method.startswith("refine_"):  # of a correlated Gaussian
        laplace = tfr.laplace.LastLayerLaplace(
            model, "classification", method.removeprefix("refine_")
        )
        laplace.fit(x, y, verbose=0)
        made = tfr.refine(
            laplace, x, y, num_members=3, steps=3000, batch_size=16, **options
        )
    elif method == "laplace_refine":
        saved = pathlib.Path(folder or ".") / "laplace.posterior"
        if folder and saved.exists():
            laplace = tfr.load_posterior(saved)
        else:
            laplace = tfr.laplace.LastLayerLaplace(model, "classification")
            laplace.fit(x, y, verbose=0)
            if folder:
                saved.parent.mkdir(exist_ok=True)
                laplace.save(saved)
        made = laplace.refine(x, y, epochs=300, seed=1, verbose=0)
    elif method == "deep_ensemble":
        made = tfr.ensembles.deep_ensemble(
            model, x, y, num_members=3, steps=20000, batch_size=16, **options
        )
    elif method == "swag":
        made = tfr.ensembles.swag(
            model, x, y, num_snapshots=10, steps_per_snapshot=4000, rank=5,
            batch_size=16, **options,
        )  # fmt: skip
    elif method == "cyclical_sghmc":
        made = tfr.sampling.cyclical_sghmc(
            model, x, y, num_cycles=2, samples_per_cycle=3, batch_size=16,
            steps_per_cycle=20000, steps_per_sample=2000, **options,
        )  # fmt: skip
    elif method == "nuts":
        laplace = tfr.laplace.LastLayerLaplace(model, "classification")
        laplace.fit(x, y, verbose=0)
        made = tfr.sampling.nuts_last_layer(
            laplace, num_chains=2, num_warmup=500, num_samples=500,
            jit_compile=False, **options,
        )  # fmt: skip
    return made.predict(x, 20, seed=1)


class Work:
    """A process that makes a posterior and saves its predictions.

    Args:
        method: One of `METHODS`.
        folder: Folder of checkpoints, or `None`.
        result: File of the predictions.
        before: Function that the process calls first.
    """

    def __init__(self, method, folder, result, before=None):
        self._errors = pathlib.Path(f"{result}.errors")
        self.process = _SERVER.Process(
            target=_work, args=(method, folder, result, before, self._errors)
        )
        self.process.start()

    def send(self, signum):
        """Sends a signal, if the process has not ended."""
        if self.process.exitcode is None:
            os.kill(self.process.pid, signum)

    def end(self):
        """Waits for the end; returns the exit code and the output."""
        self.process.join(600)
        assert self.process.exitcode is not None, "too slow"
        return self.process.exitcode, self._errors.read_text()


# It has imported TensorFlow, so that signals fall into work, not into imports.
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload([__name__])


def _work(method, folder, result, before, errors):
    with errors.open("w") as file:
        os.dup2(file.fileno(), 2)
    warnings.simplefilter("ignore")
    if before is not None:
        before()
    try:
        np.save(result, make(method, folder))
    except Exception:  # a small disk has no room for all of it
        sys.exit(traceback.format_exc()[-1500:])


# States of a disk or a clock: functions that a process calls first.


def small_disk():
    """Lets no file have more than 2000 bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


def slow_disk():
    """Lets the disk take half a second for each file."""
    fsync = os.fsync
    os.fsync = lambda file: (time.sleep(0.5), fsync(file))


def jumping_clock():
    """Lets the time of day go forth and back."""
    hours, now = itertools.cycle([0, -1e6, 1e6, 3600, -3600]), time.time
    time.time = lambda: now() + next(hours)


def read_only_disk():
    """Lets no file be made."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    whole = pathlib.Path.open
    tempfile.TemporaryFile = refuse
    pathlib.Path.open = lambda path, mode="r", *arguments: (
        refuse() if {*mode} & {"x", "w"} else whole(path, mode, *arguments)
    )
