"""Every random draw of a tensor names its algorithm, in `math/philox.py`."""

import ast

import pytest

from tests.structure import build_file

_DRAWS = build_file.ROOT / build_file.PACKAGE / "math" / "philox.py"
# Of Keras: not a draw; and one of two numbers, where it has the only state.
_ALLOWED = {
    "keras.random.SeedGenerator",
    "keras.random.randint((2,), 0, tf.int32.max)",
}


def draws(source):
    """Returns the draws in a program, with their lines."""
    found, tree = [], ast.parse(source)
    for node in ast.walk(tree):
        name = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if name.startswith(("keras.random.", "tf.random.")) or (
            name.split(".")[-1].startswith("stateless_")
            and not name.endswith(".stateless_call")
        ):
            found.append((node.lineno, name))
    allowed = {
        (node.lineno, ast.unparse(node.func))
        for node in ast.walk(tree)
        if found and isinstance(node, ast.Call)
        if ast.unparse(node) in _ALLOWED
    }
    return [
        f"{line}: {name}"
        for line, name in found
        if name not in _ALLOWED and (line, name) not in allowed
    ]


@pytest.mark.parametrize(
    "source",
    [
        "tf.random.stateless_normal([3], seed)",
        "tf.random.experimental.stateless_shuffle(x, seed)",
        "tf.random.normal([3])",
        "tf.nn.experimental.stateless_dropout(x, 0.1, seed)",
        "keras.random.normal([3])",
        "keras.random.randint((3,), 0, 2)",
    ],
)
def test_a_draw_elsewhere_is_found(source):
    assert draws(source)


def test_all_draws_are_made_in_one_place():
    found = [
        f"{path.relative_to(build_file.ROOT)}:{draw}"
        for path in sorted(_DRAWS.parents[1].rglob("*.py"))
        for draw in draws(path.read_text(encoding="utf-8"))
        if path != _DRAWS
    ]
    assert not found, "Use tfp_refine.math.philox:\n" + "\n".join(found)


def test_each_draw_there_names_its_algorithm():
    for node in ast.walk(ast.parse(_DRAWS.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and "stateless_" in ast.unparse(
            node.func
        ):
            keywords = {one.arg: one.value for one in node.keywords}
            (named,) = (
                keywords[key] for key in ("alg", "rng_alg") if key in keywords
            )
            assert ast.unparse(named) == "_algorithm()"
