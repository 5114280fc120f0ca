"""Peak memory of functions, each in a process of its own (Linux)."""

import multiprocessing
import pathlib
import re


def peaks(function, cases):
    """Returns the peak memory of calls of a function, MiB.

    Args:
        function: Function of a module, which a new process can import.
        cases: List of tuples: the arguments of each call.

    Returns:
        peaks: List: those of the processes, with all that they imported.
    """
    context = multiprocessing.get_context("spawn")
    values = []
    for case in cases:
        with context.Pool(1) as pool:
            values.append(pool.apply(_peak, (function, case)))
    return values


def _peak(function, case):
    function(*case)
    # Not `getrusage`: that starts with the peak of the parent.
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) / 1024
