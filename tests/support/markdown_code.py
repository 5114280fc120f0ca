"""Code blocks of Markdown files, for the tests that run them."""

import os
import pathlib
import re
from typing import NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def environment():
    """Returns the environment of a process that imports this checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class Block(NamedTuple):
    """A fenced block: the text after the fence, and the code."""

    info: str
    code: str


def blocks(path):
    """Returns the fenced blocks of a file, in order."""
    return [Block(*found) for found in _FENCED.findall(path.read_text())]


def python_blocks(path):
    """Returns the code of the blocks that follow each other in a session."""
    return [block.code for block in blocks(path) if block.info == "python"]


def run_session(path):
    """Runs the Python of a file, and compares the errors that it quotes.

    A block of Python that fails must be followed by a block of text: the error,
    `Type: message`, where `...` stands for omissions.

    Raises:
        AssertionError: If a block does not fail as it says, or fails.
    """
    names = {}
    found = blocks(path)
    for block, after in zip(found, [*found[1:], Block("", "")], strict=True):
        if not block.info.startswith("python"):
            continue
        quoted = after.code if after.info.startswith("text") else None
        try:
            exec(block.code, names)
        except Exception as error:
            if quoted is None:
                raise AssertionError(block.code) from error
            message = f"{type(error).__name__}: {error}"
            if not has_parts(message, quoted):
                raise AssertionError(f"{quoted} is not in {message}") from error
        else:
            if quoted is not None:
                raise AssertionError(f"no error, but not: {quoted}")


def has_parts(message, quoted):
    """Tells whether a message has the parts of a quotation, in order."""
    message, quoted = (" ".join(text.split()) for text in (message, quoted))
    position = 0
    for part in map(str.strip, quoted.split("...")):
        found = message.find(part, position)
        if found < 0:
            return False
        position = found + len(part)
    return True


def shortened(code):
    """Returns code that trains and samples less, with the same calls."""
    code = re.sub(r"\b(epochs|steps|num_members)=\d+", r"\1=2", code)
    return re.sub(r'("num_(warmup|samples)"): \d+', r"\1: 4", code)


def regression_names():
    """Returns the data that readers are told to have, small."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 13)).astype("float32")
    y = (x[:, :1] + 0.1 * rng.normal(size=(60, 1))).astype("float32")
    return {"x_train": x, "y_train": y, "x_test": x[:10], "y_test": y[:10]}
