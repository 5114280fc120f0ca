"""Runs pytest on its arguments: the `main` of every `py_test` in `BUILD`.

It is here, not in `tests`, because Python puts the folder of its main script
first in `sys.path`, where `tests/math` would hide `math`.
"""

import sys

import pytest


def hide_editable_install():
    """Leaves a test the rooms that `BUILD` gives it.

    The finder of `pip install -e` would find all others in the repository.
    """
    sys.meta_path[:] = [
        finder
        for finder in sys.meta_path
        if not getattr(finder, "__module__", "").startswith(
            "__editable___tfp_refine"
        )
    ]


if __name__ == "__main__":
    hide_editable_install()
    sys.exit(pytest.main(sys.argv[1:]))
