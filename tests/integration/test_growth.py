"""Memory does not grow with calls, and threads share posteriors.

`TFP_REFINE_KILLS=20` calls each function 200 times; 40 times by default.
"""

import concurrent.futures
import gc
import os
import pathlib
import threading

import keras
import numpy as np
import pytest

import tfp_refine as tfr
from tests.support import posterior_cases
from tfp_refine.experiments.harness import memory

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore:The chains have not mixed", "ignore:.* transitions diverged"
    ),
]

_CALLS = 200 if "TFP_REFINE_KILLS" in os.environ else 40
X, Y = posterior_cases.data("classes")


def resident():
    """Returns the memory of this process, in MiB."""
    gc.collect()
    status = pathlib.Path("/proc/self/statm")
    if not status.exists():
        pytest.skip("The system does not report it.")
    pages = int(status.read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_of(function):
    """Returns the memory that a call adds to this process, in MiB."""
    with memory.Peak() as peak:
        function()
    if peak.mebibytes is None:
        pytest.skip("The system does not report it.")
    return peak.mebibytes


def _refine():
    return tfr.refine(
        posterior_cases.network(bayesian=True), X, Y, num_members=1,
        variance_ratios=(0.5,), steps=2, num_eval_samples=1, seed=1, verbose=0,
    )  # fmt: skip


def _predict():
    return posterior_cases.posterior("laplace_full").predict(X, 20)


def _laplace():
    laplace = tfr.laplace.LastLayerLaplace(
        posterior_cases.network(), "classification"
    )
    return laplace.fit(X, Y, verbose=0).predict(X, 5, seed=1)


@pytest.mark.parametrize("call", [_refine, _predict, _laplace])
def test_memory_does_not_grow_with_calls(call):
    sizes = []
    for _ in range(5):
        for _ in range(_CALLS // 4):
            call()
        sizes.append(resident())
    # A leak grows always, a cache that fills does not; a graph has megabytes.
    assert min(np.diff(sizes)) < 0.1 * (_CALLS // 4)


def test_members_that_wait_take_forty_bytes_a_weight():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 300)).astype("float32")
    y = rng.normal(size=(8, 300)).astype("float32")
    model = keras.Sequential(
        [
            keras.Input((300,)),
            tfr.layers.DenseReparameterization(300, num_train_examples=8),
        ]
    )
    model.compile("sgd", tfr.losses.GaussianNLL(1.0))

    def refine(num_members):
        tfr.refine(
            model, x, y, num_members=num_members, members_per_batch=1,
            variance_ratios=(0.5,), steps=2, num_eval_samples=1, seed=1,
            verbose=0,
        )  # fmt: skip

    refine(10)
    few, some, many = (
        peak_of(lambda count=count: refine(count)) for count in (10, 50, 200)
    )
    each = model.count_params() / 2 * 40 / 2**20  # MiB of a member
    assert some - few < 1.25 * 40 * each + 16.0
    assert many - some < 1.25 * 150 * each + 16.0


def test_a_summary_of_many_rows_draws_and_classes_fits_a_gibibyte():
    inputs = keras.Input((20,))
    model = keras.Model(
        inputs,
        tfr.layers.DenseReparameterization(100, num_train_examples=10)(inputs),
    )
    x = np.zeros((100_000, 20), np.float32)
    posterior = tfr.posterior(model)
    posterior.summarize(x[:300], 100, seed=1)
    assert peak_of(lambda: posterior.summarize(x, 100, seed=1)) < 1024.0


def test_a_thousand_classes_have_a_kronecker_approximation():
    rng = np.random.default_rng(0)
    model = keras.Sequential(
        [keras.Input((50,)), keras.layers.Dense(1000)]  # 51000 weights
    )
    x = rng.normal(size=(2000, 50)).astype("float32")
    laplace = tfr.laplace.LastLayerLaplace(
        model, "classification", hessian="kron"
    )

    def work():
        laplace.fit(x, rng.integers(0, 1000, 2000), verbose=0)
        laplace.predict_proba(x[:50], method="probit")

    # A full Hessian would take 20 GB.
    assert peak_of(work) < 1024.0


@pytest.mark.parametrize("name", posterior_cases.CLASSIFIERS)
def test_eight_threads_share_a_posterior(name):
    posterior = posterior_cases.posterior(name)
    expected = posterior.predict(X, 10, seed=1)
    together = threading.Barrier(8)

    def predict(_):
        together.wait()
        return posterior.predict(X, 10, seed=1)

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for found in threads.map(predict, range(8)):
            np.testing.assert_array_equal(found, expected)


def test_predictions_go_on_while_the_model_is_trained(rng):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            tfr.layers.DenseReparameterization(3, num_train_examples=40),
        ]
    )
    model.compile(
        "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    posterior = tfr.refine(
        model, X, Y, num_members=2, steps=2, seed=1, verbose=0
    )
    expected = posterior.predict(X, 10, seed=1)
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        training = thread.submit(model.fit, X, Y, epochs=60, verbose=0)
        while not training.done():
            np.testing.assert_array_equal(
                posterior.predict(X, 10, seed=1), expected
            )
            assert np.all(np.isfinite(tfr.predict(model, X, 10)))
        training.result()
