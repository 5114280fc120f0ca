"""Arrays that may be larger than the memory."""

import math
import os
import tempfile

import numpy as np

# Bytes above which an array is in a temporary file.
_IN_MEMORY = 2**30


def zeros(shape, dtype):
    """Returns an array of zeros, a large one as pages of a file.

    The system writes pages to the file, and reads them again, as it needs the
    memory. The file, in the folder of `tempfile`, has no name and ends with the
    array. Raises an `OSError` if there is no room for it.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size <= _IN_MEMORY:
        return np.zeros(shape, dtype)
    with tempfile.TemporaryFile() as file:
        # Without room, later writes to pages would end the process.
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"No room for a temporary file of {size / 2**30:.1f} GiB "
                    f"(TMPDIR names its folder): {error.strerror}",
                    tempfile.gettempdir(),
                ) from error
        return np.asarray(np.memmap(file, dtype, "w+", shape=tuple(shape)))


def stack(rows):
    """Stacks a sequence of arrays, as `np.stack`."""
    result = zeros((len(rows), *np.shape(rows[0])), np.result_type(*rows))
    for index, row in enumerate(rows):
        result[index] = row
    return result
