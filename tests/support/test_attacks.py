"""The table of attacks that `make torture` prints."""

import types

from tests.support import attacks


def report(passed, record=None, name="test_it"):
    return types.SimpleNamespace(
        user_properties=record or [], passed=passed, nodeid=f"a.py::{name}"
    )


def test_attacks_are_summed_by_kind_and_target():
    records = [[], []]
    for record in records:
        counted = attacks.Attacks(lambda *one, to=record: to.append(one))
        counted.tried("SIGKILL", "refine", 3)
        counted.survived("SIGKILL", "refine", 2)
    rows = attacks.table([report(False, record) for record in records])
    assert rows[1].split() == ["SIGKILL", "on", "refine", "6", "4", "2"]


def test_a_test_without_counts_is_one_attack_of_its_file():
    rows = attacks.table([report(True), report(False, name="test_more[1]")])
    assert rows[1].split() == ["a.py", "2", "1", "1"]
