"""Names of systems: `refined(cm(iblm), num_members=5)`."""

import dataclasses
import re

_TOKEN = re.compile(r"\s*([A-Za-z_]\w*|[(),=]|[^\s(),=]+)")


@dataclasses.dataclass(frozen=True)
class Expression:
    """A system, the one that it starts from, and options of its own.

    Attributes:
        name: Name of the system.
        argument: `Expression` of what it starts from, or `None`.
        options: Pairs of a configuration's field and its text.
    """

    name: str
    argument: "Expression | None" = None
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self):
        inner = [] if self.argument is None else [str(self.argument)]
        inner += [f"{name}={text}" for name, text in self.options]
        return f"{self.name}({', '.join(inner)})" if inner else self.name


def parse(text):
    """Parses the name of a system.

    Args:
        text: `NAME`, `NAME(SYSTEM)`, `NAME(FIELD=VALUE, ...)` or
            `NAME(SYSTEM, FIELD=VALUE, ...)`.

    Returns:
        expression: `Expression`.

    Raises:
        ValueError: If it is nothing like that.
    """
    tokens = _TOKEN.findall(text)
    expression, rest = _read(tokens, text)
    if rest:
        raise _error(text)
    return expression


def _read(tokens, text):
    """Reads an expression; returns it and the tokens behind it."""
    if not tokens or not tokens[0].isidentifier():
        raise _error(text)
    name, rest = tokens[0], tokens[1:]
    if rest[:1] != ["("]:
        return Expression(name), rest
    argument, options = None, []
    rest = rest[1:]
    while True:
        if rest[1:2] == ["="] and rest[2:] and rest[2] not in "(),=":
            options.append((rest[0], rest[2]))
            rest = rest[3:]
        elif argument is None and not options:
            argument, rest = _read(rest, text)
        else:
            raise _error(text)
        if rest[:1] == [")"]:
            return Expression(name, argument, tuple(options)), rest[1:]
        if rest[:1] != [","]:
            raise _error(text)
        rest = rest[1:]


def _error(text):
    return ValueError(
        "--systems must hold names such as vi, refined(cm(iblm)) or "
        f"refined(vi, num_members=5). Received: {text}"
    )
