"""Quiet imports: TensorFlow greets on standard error."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def dropped(applies: bool = True) -> Iterator[None]:
    """Drops all of standard error, that of C++ too, unless there is an error.

    Args:
        applies: Whether it does; else it does nothing.
    """
    if not applies:
        yield
        return
    sys.stderr.flush()
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        except Exception:
            kept.seek(0)
            os.write(terminal, kept.read())
            raise
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
