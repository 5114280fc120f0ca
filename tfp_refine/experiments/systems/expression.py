"""Names of systems: `refined(cm(iblm), num_members=5)`."""

import ast
import dataclasses
import re

_SPACE = re.compile(r"\s")


@dataclasses.dataclass(frozen=True)
class Expression:
    """A system, the one that it starts from, and options of its own.

    Options are pairs of a configuration's field and its text.
    """

    name: str
    argument: "Expression | None" = None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self):
        inner = [] if self.argument is None else [str(self.argument)]
        inner += [f"{name}={text}" for name, text in self.options]
        return f"{self.name}({', '.join(inner)})" if inner else self.name

    @property
    def chain(self) -> "list[Expression]":
        """Lists the system, the one that it starts from, and so on."""
        rest = [] if self.argument is None else self.argument.chain
        return [self, *rest]


def parse(text: str) -> Expression:
    """Parses the name of a system.

    It is `NAME`, `NAME(SYSTEM)`, `NAME(FIELD=VALUE, ...)` or
    `NAME(SYSTEM, FIELD=VALUE, ...)`: an expression of Python.

    Raises:
        ValueError: If it is nothing like that.
    """
    code = text.strip()
    try:
        found = _read(ast.parse(code, mode="eval").body, code)
    except (SyntaxError, ValueError):
        found = None
    # Python also accepts comments, a last comma and values in parentheses.
    if not found or _SPACE.sub("", str(found)) != _SPACE.sub("", code):
        raise ValueError(
            "--systems must hold names such as vi, refined(cm(iblm)) or "
            f"refined(vi, num_members=5). Received: {text}"
        )
    return found


def _read(node, code):
    if isinstance(node, ast.Name):
        return Expression(node.id)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise ValueError("neither a name nor a call of one")
    argument = [_read(each, code) for each in node.args] or [None]
    options = tuple(
        (each.arg, ast.get_source_segment(code, each.value))
        for each in node.keywords
    )
    if any(set("(,") & set(value) for _, value in options):
        raise ValueError("an option of several values")
    return Expression(node.func.id, argument[0], options)
