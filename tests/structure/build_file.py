"""Computes `BUILD` from the tree and its imports.

Run `python -m tests.structure.build_file` in the repository's root to rewrite
it, after adding a room or a test file or changing what one imports.

A library of `BUILD` is a room (a direct sub-package of `tfp_refine`), a module
directly in `tfp_refine`, or the root package (`__init__.py` alone). Its `deps`
are the libraries that it imports, wherever in a file the import is.
"""

import ast
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "tfp_refine"
COMMAND = "python -m tests.structure.build_file"

_TEST_MAIN = "tests/structure/pytest_main.py"

_HEADER = f"""\
# Written by `{COMMAND}`, which reads the tree and
# its imports; tests/structure/test_imports.py holds this file to them.

load("@rules_python//python:defs.bzl", "py_library", "py_test")

package(default_visibility = ["//visibility:public"])

licenses(["notice"])

exports_files(["LICENSE"])

# What tests/structure and other tests of the repository itself read.
filegroup(
    name = "repository",
    srcs = glob(
        ["**"],
        exclude = [
            ".git/**",
            ".venv/**",
            "bazel-*/**",
        ],
    ),
)
"""


def find_libraries():
    """Maps the name of each library to its Python files, both sorted."""
    package = ROOT / PACKAGE
    libraries = {}
    for path in sorted(package.rglob("*.py")):
        if path == package / "__init__.py":
            name = PACKAGE
        else:
            name = path.relative_to(package).parts[0].removesuffix(".py")
        libraries.setdefault(name, []).append(path)
    return dict(sorted(libraries.items()))


def find_tests():
    """Returns the paths of the test files, sorted."""
    return sorted((ROOT / "tests").rglob("test_*.py"))


def find_support():
    """Returns the paths of the Python files in `tests` that hold no tests."""
    return sorted(set((ROOT / "tests").rglob("*.py")) - set(find_tests()))


def imported_libraries(source, libraries):
    """Returns the libraries that Python source text imports.

    Args:
        source: Text of a Python file.
        libraries: Names of all libraries.

    Returns:
        A set of names. A name imported from `tfp_refine` that is no library
        counts as the root package's.

    Raises:
        ValueError: If an import is relative.
    """
    modules = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(
                    "Imports must be absolute. Received a relative one in line"
                    f" {node.lineno}."
                )
            modules += [f"{node.module}.{alias.name}" for alias in node.names]
    imported = set()
    for module in modules:
        package, _, inside = module.partition(".")
        if package == PACKAGE:
            name = inside.partition(".")[0]
            imported.add(name if name in libraries else PACKAGE)
    return imported


def dependencies(files, libraries):
    """Returns the libraries that any of some Python files imports."""
    return set().union(
        *(
            imported_libraries(path.read_text(encoding="utf-8"), libraries)
            for path in files
        )
    )


def build_text():
    """Returns the text that `BUILD` should have, formatted as by buildifier."""
    libraries = find_libraries()
    rules = [
        _library(name, dependencies(files, libraries))
        for name, files in libraries.items()
    ]
    support = find_support()
    rules.append(
        _rule(
            "py_library",
            name="test_support",
            testonly=True,
            srcs=[path.relative_to(ROOT).as_posix() for path in support],
            data=["pyproject.toml"],
            deps=_labels(dependencies(support, libraries)),
        )
    )
    rules += [
        _test(
            path.relative_to(ROOT), dependencies([path], libraries), libraries
        )
        for path in find_tests()
    ]
    return "\n".join([_HEADER, *rules])


def _library(name, imported):
    if name == PACKAGE:
        srcs = [f"{PACKAGE}/__init__.py"]
    elif (ROOT / PACKAGE / name).is_dir():
        srcs = _glob(f"{PACKAGE}/{name}/**/*.py")
    else:
        srcs = [f"{PACKAGE}/{name}.py"]
    data = None
    if (ROOT / PACKAGE / name / "data").is_dir():
        data = _glob(f"{PACKAGE}/{name}/data/**")
    return _rule(
        "py_library",
        name=name,
        srcs=srcs,
        data=data,
        deps=_labels(imported - {name}),
    )


def _test(path, imported, libraries):
    file = path.as_posix()
    data = [":test_support"]
    # A test outside a room's mirror image looks at the repository itself.
    if path.parts[1] not in {*libraries, "support"}:
        data = [":repository", *data]
    return _rule(
        "py_test",
        name=file.removesuffix(".py"),
        srcs=sorted([file, _TEST_MAIN]),
        args=[file],
        data=data,
        main=_TEST_MAIN,
        deps=_labels(imported),
    )


class _Source(str):
    """Text that goes into `BUILD` as it is."""

    __slots__ = ()


def _glob(pattern):
    return _Source(f"glob({_source([pattern])})")


def _labels(names):
    return [f":{name}" for name in sorted(names)]


def _source(value):
    """Returns a value as source text of an attribute."""
    if isinstance(value, _Source | bool):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if len(value) == 1:
        return f"[{_source(value[0])}]"
    lines = "".join(f"        {_source(item)},\n" for item in value)
    return f"[\n{lines}    ]"


def _rule(kind, **attributes):
    """Returns the call of a rule, without the attributes that are empty."""
    lines = "".join(
        f"    {name} = {_source(value)},\n"
        for name, value in attributes.items()
        if value
    )
    return f"{kind}(\n{lines})\n"


if __name__ == "__main__":
    (ROOT / "BUILD").write_text(build_text(), encoding="utf-8")
