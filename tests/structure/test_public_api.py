import ast
import importlib
import inspect
import subprocess
import sys
import types
from typing import NamedTuple

import keras
import pytest

from tests.structure import build_file

ROOMS = [
    name
    for name in build_file.find_libraries()
    if (build_file.ROOT / build_file.PACKAGE / name / "__init__.py").exists()
]
PACKAGES = [
    build_file.PACKAGE,
    *(f"{build_file.PACKAGE}.{room}" for room in ROOMS),
]


def parse(package):
    """Returns the statements of a package's `__init__.py`."""
    path = build_file.ROOT.joinpath(*package.split("."), "__init__.py")
    return ast.parse(path.read_text(encoding="utf-8")).body


def is_docstring(statement):
    return isinstance(statement, ast.Expr) and isinstance(
        statement.value, ast.Constant
    )


def is_import(statement):
    return isinstance(statement, ast.Import | ast.ImportFrom)


def is_all(statement):
    return (
        isinstance(statement, ast.Assign)
        and ast.unparse(statement.targets[0]) == "__all__"
    )


def literal_all(package):
    (statement,) = filter(is_all, parse(package))
    return ast.literal_eval(statement.value)


def imported_from_us(package):
    """Returns the public names that `__init__.py` imports from `tfp_refine`."""
    return {
        alias.asname or alias.name
        for statement in parse(package)
        if isinstance(statement, ast.ImportFrom)
        and statement.module.partition(".")[0] == build_file.PACKAGE
        for alias in statement.names
        if not alias.name.startswith("_")
    }


def entries(package):
    """Returns `{name: object}` of a package's public names."""
    module = importlib.import_module(package)
    return {name: getattr(module, name) for name in literal_all(package)}


@pytest.mark.parametrize(
    "package",
    [
        name
        for name in PACKAGES
        if name.rpartition(".")[2] in literal_all(build_file.PACKAGE)
    ],
)
def test_no_object_is_shown_as_an_address(package):
    plain = (object, keras.layers.Layer, keras.metrics.Metric)
    for name, entry in entries(package).items():
        if isinstance(entry, type):
            assert all(entry.__repr__ is not k.__repr__ for k in plain), name


def has_own_docstring(entry):
    """Says whether an entry is documented; a constant needs no docstring."""
    documented = (type, types.ModuleType)
    if not isinstance(entry, documented) and not callable(entry):
        return True
    doc = (entry.__doc__ or "").strip()
    # A NamedTuple or dataclass without a docstring shows its signature.
    is_signature = inspect.isclass(entry) and doc.startswith(
        f"{entry.__name__}("
    )
    return bool(doc) and not is_signature


def is_refusal(node):
    """Says whether a statement is an `if` that does nothing but raise."""
    return (
        isinstance(node, ast.If)
        and all(isinstance(inner, ast.Raise) for inner in node.body)
        and not node.orelse
    )


@pytest.mark.parametrize("room", ROOMS)
def test_room_init_is_docstring_imports_and_all(room):
    docstring, *imports, names = parse(f"{build_file.PACKAGE}.{room}")
    assert is_docstring(docstring)
    # Or the check that a package is there which an extra installs.
    assert all(is_import(node) or is_refusal(node) for node in imports)
    assert is_all(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_sorted_and_complete(package):
    names = literal_all(package)
    assert isinstance(names, list)
    assert names == sorted(set(names))
    assert imported_from_us(package) <= set(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists_and_is_documented(package):
    undocumented = [
        name
        for name, entry in entries(package).items()
        if not has_own_docstring(entry)
    ]
    assert undocumented == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_class_that_keras_saves_is_registered_as_ours(package):
    for name, entry in entries(package).items():
        if inspect.isclass(entry) and hasattr(entry, "get_config"):
            registered = keras.saving.get_registered_name(entry)
            assert registered == f"{build_file.PACKAGE}>{name}"
            assert keras.saving.get_registered_object(registered) is entry


@pytest.mark.slow
def test_importing_the_package_registers_what_a_model_file_names():
    program = (
        "import tfp_refine\n"
        "from keras.saving import get_registered_object\n"
        "assert get_registered_object('tfp_refine>DenseFlipout')\n"
        "assert get_registered_object('tfp_refine>GaussianKL')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_docstrings_that_python_supplies_do_not_count():
    class Child(keras.Layer):
        pass

    class Pair(NamedTuple):
        loc: float
        scale: float

    assert has_own_docstring(keras.Layer)
    assert not has_own_docstring(Child)
    assert not has_own_docstring(Pair)


def public_callables():
    """Returns `(name, function)` of all that users call, methods too."""
    found = {}
    root = importlib.import_module(build_file.PACKAGE)
    rooms = [name for name in root.__all__ if name in ROOMS]
    for room in [*rooms, "plotting"]:
        module = importlib.import_module(f"{build_file.PACKAGE}.{room}")
        for name in module.__all__:
            entry = getattr(module, name)
            if inspect.isfunction(entry):
                found[name] = entry
            elif inspect.isclass(entry):
                if "__init__" in vars(entry):
                    found[name] = entry.__init__
                found |= {
                    f"{name}.{key}": value
                    for key, value in vars(entry).items()
                    if not key.startswith("_") and inspect.isfunction(value)
                }
    return found


def test_signatures_are_explicit_and_annotated():
    hidden, bare = set(), set()
    for name, function in public_callables().items():
        for parameter in list(inspect.signature(function).parameters.values()):
            if parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                hidden.add(name)
            elif (
                parameter.annotation is parameter.empty
                and parameter.name != "self"
            ):
                bare.add(f"{name}({parameter.name})")
    assert hidden == set()
    assert bare == set()
