"""Number of cases that a property is tried on.

The environment variable `TFP_REFINE_CASES` names one of three profiles:

- "few" (the default) is part of every run of the tests;
- "many" is part of `make test-slow`;
- "fresh" draws other cases at each run, or those of `--hypothesis-seed=N`.

The first two try the same cases at each run.
"""

import os

import hypothesis

PROFILE_VARIABLE = "TFP_REFINE_CASES"
_FACTORS = {"few": 1, "many": 8, "fresh": 8}


def profile():
    """Returns the name of the profile that was asked for."""
    name = os.environ.get(PROFILE_VARIABLE, "few")
    if name not in _FACTORS:
        raise ValueError(
            f"{PROFILE_VARIABLE} must be one of {sorted(_FACTORS)}. "
            f"Received: {name!r}"
        )
    return name


def cases(number):
    """Sets how many cases a property is tried on, in the profile "few"."""
    name = profile()
    return hypothesis.settings(
        max_examples=number * _FACTORS[name],
        derandomize=name != "fresh",
        deadline=None,
        database=None,
        phases=[
            hypothesis.Phase.explicit,
            hypothesis.Phase.generate,
            hypothesis.Phase.shrink,
        ],
        # Draws are cheap beside building a layer; filtered cases are checked
        # by the strategies themselves.
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
