"""Settings of every test run. The environment is set before any import."""

import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Without, TensorFlow convolves with channels first on some CPUs only.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["MPLBACKEND"] = "Agg"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Threads of several processes would wait for each other.
    for _name in (
        "OMP_NUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
    ):
        os.environ.setdefault(_name, "1")

import numpy as np
import pytest

# A failing assert in a shared check is then as telling as one in a test.
pytest.register_assert_rewrite("tests.support")


def pytest_configure(config):
    """Imports TensorFlow, but where other processes run the tests."""
    if not config.getoption("numprocesses", None):
        _set_up_tensorflow(config.getoption("markexpr") == "not slow")


def _set_up_tensorflow(only_quick):
    import keras
    import tensorflow as tf
    from tensorflow.python.util import tf_stack

    # Keras takes its policy from the `floatx` of the first call, and keeps it:
    # tests that change the latter would decide the precision of those behind
    # them.
    keras.config.dtype_policy()

    # TF32 keeps 10 bits of mantissa: it would hide errors that tolerances look
    # for.
    tf.config.experimental.enable_tensor_float_32_execution(False)

    # Each operation of a graph notes the Python calls that led to it, of which
    # a test has a hundred: a tenth of the time of most tests.
    stack = tf_stack.extract_stack()
    tf_stack.extract_stack = lambda stacklevel=1: stack

    # TensorFlow optimizes each graph before its first call, which for most in
    # tests is the last one, too: a seventh of their time. The whole suite runs
    # them as a user's programs do.
    if only_quick:
        tf.config.optimizer.set_experimental_options(
            {"disable_meta_optimizer": True}
        )


def pytest_collection_finish():
    """Spares Python looking for garbage in the modules of TensorFlow.

    A tenth of the time of most tests goes there: every trace makes a million
    objects, and after some thousands all others are looked at.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 10, 10)


@pytest.fixture(autouse=True)
def _fixed_seed():
    """Makes a test draw the same numbers alone and among others."""
    from tests.support import global_seed

    global_seed.set_to(0)


@pytest.fixture
def attacks(record_property):
    """Counts of attacks, for the table of `make torture`."""
    from tests.support import attacks

    return attacks.Attacks(record_property)


def pytest_terminal_summary(terminalreporter):
    """Prints the table of `make torture`."""
    if "TFP_REFINE_KILLS" not in os.environ:
        return
    from tests.support import attacks

    stats = terminalreporter.stats
    reports = [*stats.get("passed", []), *stats.get("failed", [])]
    terminalreporter.section("attacks")
    for line in attacks.table(r for r in reports if r.when == "call"):
        terminalreporter.write_line(line)


@pytest.fixture
def rng():
    """A NumPy generator that starts anew in each test."""
    return np.random.default_rng(0)
