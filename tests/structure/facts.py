"""Counts the promises of the architecture, in this checkout or another one.

  python -m tests.structure.facts [PATH]

Everything is read with `ast`; nothing is imported. `FACTS` has the rules by
which things are counted. Experiments are left out but for their lines: they
write records and drive the library.
"""

import ast
import pathlib
import sys

from tests.structure import build_file
from tests.structure import levels

# Rooms of older checkouts, by their present names.
_RENAMED = {
    "arguments": "_validation",
    "baselines": "ensembles",
    "mcmc": "sampling",
    "prediction": "posteriors",
    "stateless": "functional",
}
_EXPERIMENTS = "experiments"
# Underscored names that the standard library makes public.
_NOT_PRIVATE = {"_asdict", "_fields", "_make", "_replace"}
_PATCHES = {"setattr", "delattr", "setitem", "delitem"}
_ARRAY_WRITERS = {"save", "savez", "savez_compressed", "write_array"}


class Checkout:
    """Syntax trees of the Python files of a checkout.

    Args:
        root: Folder of the repository.

    Attributes:
        trees: Dict from the path of a file, relative to the package, to its
            tree: the package without experiments.
        tests: Likewise for the tests.
        lines: Dict of the numbers of lines of `"package"`, `"experiments"`
            (which are in the package, too) and `"tests"`.
    """

    def __init__(self, root):
        package, tests = (
            pathlib.Path(root) / name
            for name in (build_file.PACKAGE, build_file.TESTS)
        )
        self._sources = _read(package)
        tested = _read(tests)
        self.trees = {
            path: ast.parse(text)
            for path, text in self._sources.items()
            if not path.startswith(f"{_EXPERIMENTS}/")
        }
        self.tests = {path: ast.parse(text) for path, text in tested.items()}
        self.lines = {
            "package": _count_lines(self._sources, ""),
            "experiments": _count_lines(self._sources, f"{_EXPERIMENTS}/"),
            "tests": _count_lines(tested, ""),
        }

    def imports(self):
        """Returns `{room: set of the rooms that it imports}`."""
        rooms = {path: _room(path) for path in self._sources}
        found = {room: set() for room in rooms.values()}
        for path, text in self._sources.items():
            found[rooms[path]] |= build_file.imported_libraries(
                text, set(found)
            )
        return {room: others - {room} for room, others in found.items()}


def rooms(checkout):
    """Rooms: direct sub-packages and modules of the package, and its root."""
    return sorted(checkout.imports())


def arrows(checkout):
    """Arrows: pairs of a room and one that it imports, anywhere in a file."""
    return [
        f"{room} -> {other}"
        for room, others in sorted(checkout.imports().items())
        for other in sorted(others)
    ]


def circles(checkout):
    """Rooms that import themselves by way of others."""
    imports = checkout.imports()
    reached = {room: set(others) for room, others in imports.items()}
    for through in imports:
        for others in reached.values():
            if through in others:
                others |= reached[through]
    return sorted(room for room, others in reached.items() if room in others)


def upward_arrows(checkout):
    """Arrows that do not point to a lower level, but for `SIDEWAYS`."""
    found = []
    for room, others in sorted(checkout.imports().items()):
        name = _RENAMED.get(room, room)
        below = levels.MAY_IMPORT.get(name, set()) | {name}
        found += [
            f"{room} -> {other}"
            for other in sorted(others)
            if _RENAMED.get(other, other) not in below
        ]
    return found


def predicting_classes(checkout):
    """Classes that define a method `predict` themselves."""
    return [
        f"{path}: {node.name}"
        for path, node in _classes(checkout)
        if any(method.name == "predict" for method in _methods(node))
    ]


def training_loops(checkout):
    """Modules with a compiled loop of optimization steps.

    Such a module has a loop in the graph (`tf.while_loop`, or `for` over
    `tf.range`), takes gradients with a `GradientTape`, and gives them to an
    optimizer (`step` of an update rule, or `apply_gradients`). A loop that
    evaluates, or that averages gradients, is none.
    """
    return [
        path
        for path, tree in checkout.trees.items()
        if _has_loop(tree)
        and "GradientTape" in _called(tree)
        and _called(tree) & {"step", "apply_gradients"}
    ]


def file_formats(checkout):
    """Modules that decide how arrays or JSON lie in a file.

    Such a module writes arrays itself (`np.save`, `np.savez`, `write_array`),
    opens a zip archive to write, or gives JSON to something that stores it.
    """
    return [
        path
        for path, tree in checkout.trees.items()
        if any(_writes(node) for node in ast.walk(tree) if _is_call(node))
    ]


def weight_vectors(checkout):
    """Classes that see weights as one vector, without those they inherit from.

    Such a class flattens several weights into one vector (`concat` or
    `concatenate` of arrays reshaped to one axis) and cuts a vector into
    tensors (`split`, or `reshape` to a shape), by itself or by functions of
    the package. Subclasses of such a class count as one with it.
    """
    functions = [
        one
        for tree in checkout.trees.values()
        for one in tree.body
        if isinstance(one, ast.FunctionDef)
    ]
    flattening = {one.name for one in functions if _flattens(one, set())}
    cutting = {one.name for one in functions if "split" in _called(one)}
    found, bases = {}, {}
    for path, node in _classes(checkout):
        bases[node.name] = {ast.unparse(b).split(".")[-1] for b in node.bases}
        methods = list(_methods(node))
        if any(_flattens(method, flattening) for method in methods) and any(
            _cuts(method, cutting) for method in methods
        ):
            found[node.name] = path
    return [
        f"{path}: {name}"
        for name, path in found.items()
        if not _ancestors(name, bases) & set(found)
    ]


def private_accesses(checkout):
    """Uses in tests of an underscored attribute, but for those of `self`."""
    return [
        f"{path}:{node.lineno}: {ast.unparse(node)}"
        for path, tree in checkout.tests.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in _NOT_PRIVATE
        and not (
            isinstance(node.value, ast.Name)
            and node.value.id in ("self", "cls")
        )
    ]


def monkeypatches(checkout):
    """Calls in tests of `monkeypatch.setattr` and the like, or of `patch`.

    Environment variables and the current folder do not count.
    """
    return [
        f"{path}:{node.lineno}: {ast.unparse(node.func)}"
        for path, tree in checkout.tests.items()
        for node in ast.walk(tree)
        if _is_call(node)
        and isinstance(node.func, ast.Attribute)
        and (
            (
                ast.unparse(node.func.value) == "monkeypatch"
                and node.func.attr in _PATCHES
            )
            or node.func.attr == "patch"
            or ast.unparse(node.func.value).endswith("mock.patch")
        )
    ]


# By name, in the order of the report; each returns a list.
FACTS = {
    function.__name__: function
    for function in (
        rooms,
        arrows,
        circles,
        upward_arrows,
        predicting_classes,
        training_loops,
        file_formats,
        weight_vectors,
        private_accesses,
        monkeypatches,
    )
}
# Of these only the number is of interest.
_NUMBERS = ("arrows", "private_accesses", "monkeypatches")


def main(root):
    """Writes the facts of a checkout."""
    checkout, lines = Checkout(root), []
    for name, count in checkout.lines.items():
        lines.append(f"{'lines of ' + name:24s}{count:6d}")
    for name, find in FACTS.items():
        found = find(checkout)
        lines.append(f"{name.replace('_', ' '):24s}{len(found):6d}")
        if name not in _NUMBERS:
            lines += [f"    {entry}" for entry in found]
    sys.stdout.write("\n".join([*lines, ""]))


def _read(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


def _count_lines(sources, prefix):
    return sum(
        len(text.splitlines())
        for path, text in sources.items()
        if path.startswith(prefix)
    )


def _room(path):
    if path == "__init__.py":
        return build_file.PACKAGE
    return path.split("/")[0].removesuffix(".py")


def _classes(checkout):
    for path, tree in checkout.trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield path, node


def _methods(node):
    return (one for one in node.body if isinstance(one, ast.FunctionDef))


def _is_call(node):
    return isinstance(node, ast.Call)


def _name(call):
    """Returns the last part of the name that is called, or ''."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _called(tree):
    return {_name(node) for node in ast.walk(tree) if _is_call(node)}


def _has_loop(tree):
    return "while_loop" in _called(tree) or any(
        isinstance(node, ast.For)
        and ast.unparse(node.iter).startswith("tf.range(")
        for node in ast.walk(tree)
    )


def _writes(call):
    name = _name(call)
    if name in _ARRAY_WRITERS and ast.unparse(call.func).startswith("np."):
        return True
    if name == "ZipFile":
        mode = [ast.unparse(argument) for argument in call.args[1:2]]
        return bool(mode) and mode != ["'r'"]
    if name == "dump" and ast.unparse(call.func) == "json.dump":
        return True
    return name != "loads" and any(
        _is_call(argument) and ast.unparse(argument.func) == "json.dumps"
        for argument in call.args
    )


def _flattens(function, helpers):
    """Returns whether a function makes one vector of several weights."""
    called = _called(function)
    if called & helpers:
        return True
    return bool(called & {"concat", "concatenate"}) and any(
        _is_flat(node) for node in ast.walk(function) if _is_call(node)
    )


def _is_flat(call):
    return _name(call) == "ravel" or (
        _name(call) == "reshape"
        and bool(call.args)
        and ast.unparse(call.args[-1]) in ("-1", "[-1]", "(-1,)")
    )


def _cuts(function, helpers):
    """Returns whether a function makes tensors of a vector."""
    if _called(function) & {"split", *helpers}:
        return True
    return any(
        _name(node) == "reshape" and not _is_flat(node)
        for node in ast.walk(function)
        if _is_call(node)
    )


def _ancestors(name, bases):
    found, left = set(), set(bases.get(name, ()))
    while left:
        base = left.pop()
        if base not in found:
            found.add(base)
            left |= bases.get(base, set())
    return found


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else build_file.ROOT)
