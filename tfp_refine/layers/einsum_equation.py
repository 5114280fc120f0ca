"""Equations of einsum layers: the role of each axis."""

import re
import string
from typing import NamedTuple

_EQUATION = re.compile(
    r"(\.\.\.)?([a-zA-Z]+)(\.\.\.)?,([a-zA-Z]+)->(\.\.\.)?([a-zA-Z]+)(\.\.\.)?"
)


class EinsumEquation(NamedTuple):
    """Letters of the axes of inputs, kernel and outputs of an einsum.

    The axes that "..." stands for are on the left if `elides_left`, on the
    right if `elides_right`, and not among the letters.
    """

    inputs: str
    kernel: str
    outputs: str
    elides_left: bool = False
    elides_right: bool = False

    @classmethod
    def parse(cls, equation: str) -> "EinsumEquation":
        """Reads an equation; raises a `ValueError` if it is none."""
        found = isinstance(equation, str) and _EQUATION.fullmatch(equation)
        if not found:
            raise ValueError(
                "`equation` must be of the form 'ab,bc->ac', '...ab,bc->...ac' "
                f"or 'ab...,bc->ac...'. Received: equation={equation!r}"
            )
        left, inputs, right, kernel, *outputs = found.groups()
        if (left, right) != (outputs[0], outputs[2]) or (left and right):
            raise ValueError(
                "`equation` must have '...' on one side, the same one of "
                f"inputs and outputs. Received: equation={equation!r}"
            )
        self = cls(inputs, kernel, outputs[1], bool(left), bool(right))
        for name in ("kernel", "outputs"):
            letters = getattr(self, name)
            if len(set(letters)) < len(letters):
                raise ValueError(
                    f"`equation` must not repeat a letter of the {name}: only "
                    "a diagonal would have a meaning. Received: "
                    f"equation={equation!r}"
                )
        for letter in kernel:
            if letter not in self.inputs + self.outputs:
                raise ValueError(
                    "`equation` must have each letter of the kernel in the "
                    f"inputs or in the outputs; '{letter}' is in neither. "
                    f"Received: equation={equation!r}"
                )
        for letter in self.outputs:
            if letter not in self.inputs + self.kernel:
                raise ValueError(
                    "`equation` must have each letter of the outputs in the "
                    f"inputs or in the kernel; '{letter}' is in neither. "
                    f"Received: equation={equation!r}"
                )
        return self

    def for_rank(self, rank: int) -> "EinsumEquation":
        """Gives the axes that "..." stands for letters, for inputs `[...]`."""
        used = {*self.inputs, *self.kernel, *self.outputs}
        unused = [c for c in string.ascii_letters if c not in used]
        more = "".join(unused[: rank - len(self.inputs)])
        if self.elides_right:
            return EinsumEquation(
                self.inputs + more, self.kernel, self.outputs + more
            )
        return EinsumEquation(
            more + self.inputs, self.kernel, more + self.outputs
        )

    def __str__(self) -> str:
        return f"{self.inputs},{self.kernel}->{self.outputs}"

    @property
    def reduced(self) -> "EinsumEquation":
        """The equation of inputs that are summed over axes of no weight.

        Those that are neither in the kernel nor in the outputs: all their
        positions are multiplied with the same weights. Diagonals are taken
        too, so that no letter is left twice.
        """
        kept = [c for c in self.inputs if c in self.kernel + self.outputs]
        return self._replace(inputs="".join(dict.fromkeys(kept)))

    @property
    def contracted(self) -> str:
        """Letters of the kernel that the sum of a unit goes over."""
        return "".join(c for c in self.kernel if c not in self.outputs)

    @property
    def units(self) -> str:
        """Letters of the kernel that count units, in their order."""
        return "".join(c for c in self.kernel if c in self.outputs)

    @property
    def groups(self) -> str:
        """Those of them that inputs have too, of which each unit sees one."""
        return "".join(c for c in self.units if c in self.inputs)

    @property
    def positions(self) -> str:
        """Letters of the outputs, but those of units and the first axis."""
        return "".join(c for c in self.outputs[1:] if c not in self.kernel)

    @property
    def keeps_examples(self) -> bool:
        """True if examples stay the first axis and share all weights."""
        if self.elides_left:
            return True
        first = self.inputs[0]
        return (
            self.outputs[0] == first
            and first not in self.kernel
            and first not in self.inputs[1:]
        )
