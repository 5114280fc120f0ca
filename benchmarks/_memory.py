"""Memory of functions, each in a process of its own (Linux)."""

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
    return results(_peak, [(function, case) for case in cases])


def results(function, cases):
    """Returns the results of such calls, a list."""
    context = multiprocessing.get_context("spawn")
    values = []
    for case in cases:
        with context.Pool(1) as pool:
            values.append(pool.apply(function, case))
    return values


def now():
    """Returns the memory of this process, MiB."""
    return _status("VmRSS")


def reset_peak():
    """Makes the peak memory of this process that of now."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def peak():
    """Returns the peak memory of this process, MiB."""
    # Not `getrusage`: that starts with the peak of the parent.
    return _status("VmHWM")


def _peak(function, case):
    function(*case)
    return peak()


def _status(name):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+) kB", status).group(1)) / 1024
