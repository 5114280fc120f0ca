"""Times functions side by side, so that a slow moment hits all of them."""

import time


def side_by_side(functions, rounds=7):
    """Returns the median seconds of each function.

    Args:
        functions: Dict from name to function without arguments.
        rounds: How often each is run, in turn, after one run that is not
            counted.

    Returns:
        seconds: Dict from name to median.
    """
    times = {name: [] for name in functions}
    for function in functions.values():
        function()
    for _ in range(rounds):
        for name, function in functions.items():
            begin = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - begin)
    return {name: sorted(values)[rounds // 2] for name, values in times.items()}
