import numpy as np

from tests.structure import build_file
from tests.structure import docstrings


def test_no_docstring_opens_with_a_question_word():
    for folder in (build_file.PACKAGE, build_file.TESTS):
        opened = [
            f"{path}:{line}"
            for path, line, text in docstrings.find(build_file.ROOT / folder)
            if docstrings.QUESTION.match(text)
        ]
        assert opened == []


def test_parts_of_a_docstring_are_seen():
    def complete(x: np.ndarray) -> np.ndarray:
        """Returns `x`.

        Args:
            x: Array, `[N]`.

        Returns:
            x: Array, `[N]`.

        Raises:
            ValueError: If `x` is empty.

        Example:

        ```python
        complete(x)
        ```
        """
        if not len(x):
            raise ValueError
        return x

    def bare(x: np.ndarray) -> np.ndarray:
        """Does something."""
        if not len(x):
            raise ValueError
        return x

    def procedure() -> None:
        """Does something."""

    for part, has in docstrings.PARTS.items():
        complete.__qualname__ = bare.__qualname__ = "function"
        assert has(complete, complete.__doc__), part
        assert has(bare, bare.__doc__) is False, part
        if part != "example":
            assert has(procedure, procedure.__doc__) is None, part


def test_docstrings_of_public_names_are_complete():
    for part, answers in docstrings.scores().items():
        missing = [name for name, answer in answers.items() if not answer]
        assert len(missing) <= 0.05 * len(answers), (part, missing)
