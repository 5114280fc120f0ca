"""Scores the docstrings of all public names.

  python -m tests.structure.docstrings [--missing]

Each public function, class and method is asked for the parts of `PARTS` that
apply to it. `--missing` lists the names that lack a part.
"""

import ast
import functools
import importlib
import inspect
import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Iterator

from tests.structure import build_file

QUESTION = re.compile(r"(What|How|Whether|Which|Who|Whose|Where|When|Why)\b")
_ARRAYS = re.compile(r"ArrayLike|ndarray|Tensor")
# Keras' methods are documented on the class.
_KERAS = {
    "apply",
    "build",
    "call",
    "compute_mask",
    "compute_output_shape",
    "compute_output_spec",
    "from_config",
    "get_config",
    "on_epoch_end",
    "on_train_batch_end",
    "on_train_begin",
    "on_train_end",
    "reset_state",
    "result",
    "update_state",
    "update_step",
}


def find(root):
    """Yields `(path, line, docstring)` of all docstrings below a folder."""
    for path in sorted(pathlib.Path(root).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
            text = ast.get_docstring(node) if isinstance(node, kinds) else None
            if text:
                yield path, node.body[0].lineno, text


def public_entries():
    """Returns `{name: object}` of public functions, classes and methods."""
    found = {}
    root = importlib.import_module(build_file.PACKAGE)
    rooms = [n for n in root.__all__ if inspect.ismodule(getattr(root, n))]
    for room in [*rooms, "plotting", "refinement"]:
        module = importlib.import_module(f"{build_file.PACKAGE}.{room}")
        for name in module.__all__:
            entry = getattr(module, name)
            if not inspect.isfunction(entry) and not inspect.isclass(entry):
                continue
            found[f"{room}.{name}"] = entry
            if inspect.isclass(entry):
                found |= {
                    f"{room}.{name}.{key}": value
                    for key, value in vars(entry).items()
                    if inspect.isfunction(value)
                    and not key.startswith("_")
                    and key not in _KERAS
                }
    return found


def _function(entry):
    """Returns the function whose arguments an entry has, or `None`."""
    if inspect.isfunction(entry):
        return entry
    own = vars(entry).get("__init__")
    return own if inspect.isfunction(own) else None


def _parameters(entry):
    function = _function(entry)
    if function is None:
        return []
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.name != "self"]


def _raises(entry):
    """Returns whether an entry raises errors, or checks its arguments."""
    function = inspect.unwrap(_function(entry) or (lambda: None))
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return False
    return any(
        isinstance(node, ast.Raise)
        or (isinstance(node, ast.Name) and node.id == "_validation")
        for node in ast.walk(tree)
    )


def has_args(entry, text):
    """Every argument is described; `None` without arguments."""
    names = [parameter.name for parameter in _parameters(entry)]
    if not names:
        return None
    return all(re.search(rf"^ +\**{name}: ", text, re.M) for name in names)


def has_returns(entry, text):
    """The result is described; `None` for classes and procedures."""
    if not inspect.isfunction(entry):
        return None
    # A context manager without a value is a procedure, too.
    if inspect.signature(entry).return_annotation in (None, Iterator[None]):
        return None
    return bool(re.match("Returns|Yields", text)) or (
        re.search(r"^ *(Returns|Yields):$", text, re.M) is not None
    )


def has_raises(entry, text):
    """Errors are described; `None` if it raises none itself."""
    if not _raises(entry):
        return None
    return re.search(r"^ *Raises:$", text, re.M) is not None


def has_shape(entry, text):
    """Shapes of arrays are given; `None` without arrays."""
    function = _function(entry)
    if function is None or not _ARRAYS.search(str(inspect.signature(function))):
        return None
    return bool(re.search(r"`\[|\bscalar\b|[Ss]hape|one number", text))


def has_example(entry, text):
    """There is an example; `None` for methods."""
    if inspect.isfunction(entry) and "." in entry.__qualname__:
        return None
    return "```" in text or ">>>" in text


# By name; each returns `None` where it does not apply.
PARTS = {
    "Args": has_args,
    "Returns": has_returns,
    "Raises": has_raises,
    "shape": has_shape,
    "example": has_example,
}


@functools.cache
def scores():
    """Returns `{part: {name: bool}}` of the public names."""
    found = {part: {} for part in PARTS}
    for name, entry in public_entries().items():
        text = inspect.getdoc(entry) or ""
        for part, has in PARTS.items():
            answer = has(entry, text)
            if answer is not None:
                found[part][name] = answer
    return found


def main(arguments):
    """Writes the score of each part."""
    for part, answers in scores().items():
        good = sum(answers.values())
        share = good / max(1, len(answers))
        sys.stdout.write(
            f"{part:8s} {share:6.1%}  {good} of {len(answers)} names\n"
        )
        if "--missing" in arguments:
            for name, answer in answers.items():
                if not answer:
                    sys.stdout.write(f"    {name}\n")


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main(sys.argv[1:])
