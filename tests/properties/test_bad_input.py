"""Bad input to every public callable is refused by name, or harmless.

`TFP_REFINE_KILLS=20` tries 20 values of each argument; a few by default.
"""

import math
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.properties import bad_input
from tests.properties import base_calls

_KILLS = int(os.environ.get("TFP_REFINE_KILLS", "0"))
_PARTS = 8
CALLABLES = bad_input.callables()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    """Moves to a folder for files of odd names."""
    monkeypatch.chdir(tmp_path)


def test_every_public_callable_has_a_good_call():
    known = {*base_calls.BASES, *base_calls.WITHOUT}
    assert sorted(set(CALLABLES) - known) == []
    assert sorted(known - set(CALLABLES)) == []
    assert not set(base_calls.BASES) & set(base_calls.WITHOUT)


def _try(cases, attacks):
    """Returns the failures among cases, and counts them by room."""
    failures = {}
    for case in cases:
        room = case.name.partition(".")[0] if "." in case.name else "tfp_refine"
        attacks.tried("bad input", room)
        text = bad_input.failure(case)
        if text:
            failures[repr(case)] = text
        else:
            attacks.survived("bad input", room)
    return failures


@pytest.mark.slow
def test_bad_input_is_refused_by_name_or_harmless(attacks):
    cases = bad_input.sample(seed=0, per_argument=1)
    quick = [case for case in cases if base_calls.is_quick(case.name)]
    assert _try(quick[:: max(1, len(quick) // 300)], attacks) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_much_bad_input_is_refused_by_name_or_harmless(part, attacks):
    cases = bad_input.sample(seed=1, per_argument=max(1, _KILLS))
    names = sorted({case.name for case in cases})[part::_PARTS]
    some = [case for case in cases if case.name in names]
    assert _try(some, attacks) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(base_calls.BASES))
def test_a_good_call_is_finite(name):
    base = base_calls.BASES[name]
    if name != "datasets.load_texts":  # none comes with the package
        found = base.call(**base.arguments())
        assert bad_input.all_numbers(np.isfinite, found)


@pytest.mark.parametrize(
    ("name", "argument", "value"),
    [
        ("datasets.standardize_pixels", "images", np.ones((1, 0, 2, 3))),
        ("load_posterior", "path", ""),
        ("metrics.MeanLoss", "loss", lambda *_: None),
        ("models.MLP", "noise_scale", 1e300),
        ("initializers.MOPED", "min_scale", 1e300),
        ("Posterior.export", "input_signature", np.ones((2, 3))),
        ("Posterior.export", "input_signature", tf.constant("a")),
        ("layers.ConcreteDropout", "prior_scale", 1e300),
        ("layers.Conv1DTransposeFlipout", "output_padding", "2"),
        ("models.ResNet", "kernel_initializer", np.ones((0, 3))),
        ("models.ResNet", "name", np.ones(2)),
        ("models.WideResNet", "name", np.ones(2)),
        ("optimizers.IVON", "beta_1", tf.constant("a")),
        ("posteriors.fast_gradient_sign", "seed", 10**30),
        (
            "plotting.reliability_diagram",
            "bins",
            {"class_name": "Unknown", "config": {}},
        ),
        ("plotting.convergence", "labels", {}),
        ("plotting.convergence", "labels", {"a": 1}),
        ("plotting.densities", "grid", None),
        ("plotting.elbo_staircase", "staircase", {"a": 1}),
        ("plotting.entropy_histogram", "num_bins", 10**30),
        ("plotting.flow_length", "references", (math.nan,)),
        ("plotting.integration_errors", "probit", "2"),
        ("plotting.learning_curves", "history", 0.5),
        ("plotting.memorization", "chance", 10**400),
        ("plotting.posterior_contours", "log_density", []),
        ("plotting.posterior_scatter", "prior_variances", "2"),
        ("plotting.predictive_bands", "data", 2),
        ("plotting.predictive_bands", "truth", [-3.0, []]),
        ("plotting.rotated_digit", "class_names", 3),
        ("plotting.save", "dpi", 1.5),
        ("plotting.save", "path", ""),
        ("plotting.save", "path", [None]),
    ],
)
def test_bad_input_that_once_went_through_is_refused(name, argument, value):
    assert bad_input.failure(bad_input.Case(name, argument, value)) == ""
