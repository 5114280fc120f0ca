"""Times functions side by side, so that a slow moment hits all of them."""

import time

import numpy as np


def side_by_side(functions, rounds=7):
    """Returns the median seconds of each function.

    Args:
        functions: Dict from name to function without arguments.
        rounds: How often each is run, in turn, after one run that is not
            counted.

    Returns:
        seconds: Dict from name to median.
    """
    times = in_turn(functions, rounds)
    return {name: float(np.median(values)) for name, values in times.items()}


def in_turn(functions, rounds=7, clock=time.perf_counter):
    """Returns the seconds of each function in each round, a dict of arrays.

    Arguments as for `side_by_side`; `clock` returns seconds.
    """
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            begin = clock()
            function()
            times[name].append(clock() - begin)
    return {name: np.array(values) for name, values in times.items()}
