"""Computes `BUILD` from the tree and its imports.

Run `python -m tests.structure.build_file` in the repository's root to rewrite
it, after adding a room or a test file or changing the imports of one.

A library of `BUILD` is a room (a direct sub-package of `tfp_refine`), a module
directly in `tfp_refine`, the root package (`__init__.py` alone), or a file that
tests import. Its `deps` are the libraries that it imports, wherever in a file
the import is; Bazel runs a test with these alone, without the root package.
"""

import ast
import functools
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = "tfp_refine"
TESTS = "tests"
COMMAND = "python -m tests.structure.build_file"

_TEST_MAIN = "tests/structure/pytest_main.py"
# Needs of every test, whether it imports it or not. Some file of the package
# is in it: without one, a test would find a `tfp_refine` that is installed.
_TEST_SETTINGS = "test_settings"
_SOME_FILE = "version"

_HEADER = f"""\
# Written by `{COMMAND}`, which reads the tree and
# its imports; tests/structure/test_imports.py holds this file to them.

load("@rules_python//python:defs.bzl", "py_library", "py_test")

package(default_visibility = ["//visibility:public"])

licenses(["notice"])

exports_files(["LICENSE"])

# Files that tests of the repository itself read.
filegroup(
    name = "repository",
    srcs = glob(
        ["**"],
        exclude = [
            "**/__pycache__/**",
            ".mypy_cache/**",
            ".pytest_cache/**",
            ".ruff_cache/**",
            "bazel-*/**",
            "demo_output/**",
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
    return sorted((ROOT / TESTS).rglob("test_*.py"))


def find_test_libraries():
    """Maps the names of libraries for tests to their Python files.

    One library is for all tests: packages, the files pytest reads by itself
    and the main script. Each other file is a library of its own.
    """
    libraries = {_TEST_SETTINGS: []}
    for path in sorted(set((ROOT / TESTS).rglob("*.py")) - set(find_tests())):
        file = path.relative_to(ROOT).as_posix()
        if path.name in ("__init__.py", "conftest.py") or file == _TEST_MAIN:
            libraries[_TEST_SETTINGS].append(path)
        else:
            libraries[file.removesuffix(".py")] = [path]
    return libraries


def imported_libraries(source, libraries):
    """Returns the libraries that Python source text imports.

    Args:
        source: Text of a Python file.
        libraries: Names of all libraries.

    Returns:
        A set of names. A name imported from `tfp_refine` that is no library
        counts as the root package's. Text of programs and names of modules in
        strings count as imports: tests run them.

    Raises:
        ValueError: If an import is relative.
    """
    names = (_library_of(module, libraries) for module in _modules(source))
    return {name for name in names if name}


@functools.cache
def _modules(source):
    """Returns the names of the modules that Python source text uses."""
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
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            modules += _modules_in_string(node.value)
    return modules


def _modules_in_string(text):
    """Returns the modules that a string names, or its program imports."""
    if text.startswith((f"{PACKAGE}.", f"{TESTS}.")) and " " not in text:
        return [text]
    if f"import {PACKAGE}" in text or f"from {PACKAGE}" in text:
        try:
            return _modules(textwrap.dedent(text))
        except SyntaxError:  # Prose, or a part of an f-string.
            return []
    return []


def _library_of(module, libraries):
    """Returns the library that a module is in, or `None`."""
    package, *inside = module.split(".")
    if package == PACKAGE:
        name = inside[0] if inside else None
        return name if name in libraries else PACKAGE
    if package != TESTS:
        return None
    files = ("/".join([TESTS, *inside[:n]]) for n in range(len(inside), 0, -1))
    return next((name for name in files if name in libraries), None)


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
    rooms = find_libraries()
    libraries = rooms | find_test_libraries()
    rules = [
        _library(name, dependencies(files, libraries))
        for name, files in rooms.items()
    ]
    rules += [
        _test_library(name, files, dependencies(files, libraries))
        for name, files in find_test_libraries().items()
    ]
    rules += [
        _test(path, dependencies([path], libraries)) for path in find_tests()
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
    folder = ROOT / PACKAGE / name / "data"
    if folder.is_dir() and not (folder / "__init__.py").exists():
        data = _glob(f"{PACKAGE}/{name}/data/**")
    return _rule(
        "py_library",
        name=name,
        srcs=srcs,
        data=data,
        deps=_labels(imported - {name}),
    )


def _test_library(name, files, imported):
    data = None
    if name == _TEST_SETTINGS:
        data = ["pyproject.toml"]
        imported = imported | {_SOME_FILE}
    return _rule(
        "py_library",
        name=name,
        testonly=True,
        srcs=[path.relative_to(ROOT).as_posix() for path in files],
        data=data,
        deps=_labels(imported - {name}),
    )


def _test(path, imported):
    file = path.relative_to(ROOT).as_posix()
    source = path.read_text(encoding="utf-8")
    slow = "pytest.mark.slow" in source
    reads_repository = (
        "__file__" in source
        or "README.md" in source
        or "tests/structure/build_file" in imported
    )
    return _rule(
        "py_test",
        name=file.removesuffix(".py"),
        size="large" if slow else None,
        srcs=sorted([file, _TEST_MAIN]),
        args=[file],
        data=[":repository"] if reads_repository else None,
        main=_TEST_MAIN,
        tags=["slow"] if slow else None,
        deps=_labels({_TEST_SETTINGS, *imported}),
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
