"""Runs pytest on its arguments: the `main` of every `py_test` in `BUILD`.

It is here, not in `tests`, because Python puts the folder of its main script
first in `sys.path`, where `tests/math` would hide `math`.
"""

import sys

import pytest

if __name__ == "__main__":
    sys.exit(pytest.main(sys.argv[1:]))
