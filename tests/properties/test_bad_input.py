"""Bad input to every public callable is refused by name, or harmless.

`TFP_REFINE_KILLS=20` tries 20 values of each argument; a few by default.
"""

import collections
import os
import sys

import numpy as np
import pytest

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


def _try(cases):
    """Returns the failures among cases, and how many there are of each kind."""
    found = {repr(case): bad_input.failure(case) for case in cases}
    kinds = collections.Counter(
        text.partition(" ")[0] if text else "survived"
        for text in found.values()
    )
    sys.stdout.write(f"{dict(kinds)}\n")
    return {case: text for case, text in found.items() if text}


@pytest.mark.slow
def test_bad_input_is_refused_by_name_or_harmless():
    cases = bad_input.sample(seed=0, per_argument=1)
    quick = [case for case in cases if base_calls.is_quick(case.name)]
    assert _try(quick[:: max(1, len(quick) // 300)]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_much_bad_input_is_refused_by_name_or_harmless(part):
    cases = bad_input.sample(seed=1, per_argument=max(1, _KILLS))
    names = sorted({case.name for case in cases})[part::_PARTS]
    assert _try([case for case in cases if case.name in names]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(base_calls.BASES))
def test_a_good_call_is_finite(name):
    base = base_calls.BASES[name]
    if name != "datasets.load_texts":  # none comes with the package
        found = base.call(**base.arguments())
        assert bad_input.all_numbers(np.isfinite, found)
