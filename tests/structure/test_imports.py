import ast
import graphlib
import sys

import pytest

from tests.structure import build_file
from tests.structure import levels
from tests.structure import pytest_main

REWRITE = f"BUILD is out of date. Rewrite it: {build_file.COMMAND}"


def read(node):
    """Returns a literal's value; for a `glob`, the files that it finds."""
    if isinstance(node, ast.Call) and node.func.id == "glob":
        (patterns,) = (ast.literal_eval(argument) for argument in node.args)
        return posix(
            sorted(
                path
                for pattern in patterns
                for path in build_file.ROOT.glob(pattern)
            )
        )
    return ast.literal_eval(node)


def rules(kind):
    """Returns `{name: attributes}` of the rules of one kind in `BUILD`."""
    text = (build_file.ROOT / "BUILD").read_text(encoding="utf-8")
    calls = [
        {keyword.arg: read(keyword.value) for keyword in call.value.keywords}
        for call in ast.parse(text).body
        if call.value.func.id == kind
    ]
    names = [attributes["name"] for attributes in calls]
    assert len(names) == len(set(names)), "BUILD uses a name twice."
    return dict(zip(names, calls, strict=True))


def dependencies(attributes):
    labels = attributes.get("deps", [])
    assert all(label.startswith(":") for label in labels)
    assert len(labels) == len(set(labels))
    return {label.removeprefix(":") for label in labels}


def posix(paths):
    return [path.relative_to(build_file.ROOT).as_posix() for path in paths]


@pytest.fixture(scope="module")
def files():
    return build_file.find_libraries()


@pytest.fixture(scope="module")
def test_files():
    """The libraries that only tests use."""
    return build_file.find_test_libraries()


@pytest.fixture(scope="module")
def imports(files):
    """The libraries that each library imports, itself left out."""
    return {
        name: build_file.dependencies(paths, files) - {name}
        for name, paths in files.items()
    }


def test_build_file_is_what_the_tree_gives():
    written = (build_file.ROOT / "BUILD").read_text(encoding="utf-8")
    assert written == build_file.build_text(), REWRITE


def test_every_library_has_one_rule_with_its_files_and_imports(
    files, test_files, imports
):
    libraries = rules("py_library")
    assert {
        name: attributes["srcs"] for name, attributes in libraries.items()
    } == {name: posix(paths) for name, paths in (files | test_files).items()}, (
        REWRITE
    )
    assert {name: dependencies(libraries[name]) for name in files} == imports


def test_a_library_for_tests_has_what_it_imports(files, test_files):
    libraries = rules("py_library")
    expected = {
        name: build_file.dependencies(paths, files | test_files) - {name}
        for name, paths in test_files.items()
    }
    # Without a file of the package, Bazel's tests find one that is installed.
    expected["test_settings"].add("version")
    assert {
        name: dependencies(libraries[name]) for name in test_files
    } == expected, REWRITE
    assert all(libraries[name]["testonly"] for name in test_files)


def test_no_python_file_is_left_out_or_in_two_libraries(files, test_files):
    sources = [
        path for paths in (files | test_files).values() for path in paths
    ] + build_file.find_tests()
    tree = [
        path
        for folder in (build_file.PACKAGE, build_file.TESTS)
        for path in (build_file.ROOT / folder).rglob("*.py")
    ]
    assert sorted(sources) == sorted(tree)


def test_every_test_file_has_one_rule_that_runs_it(files, test_files):
    tests = rules("py_test")
    assert set(tests) == {
        path.removesuffix(".py") for path in posix(build_file.find_tests())
    }, REWRITE
    for name, attributes in tests.items():
        path = f"{name}.py"
        source = (build_file.ROOT / path).read_text(encoding="utf-8")
        assert attributes["srcs"] == sorted([path, attributes["main"]])
        assert attributes["args"] == [path]
        assert dependencies(attributes) == {
            "test_settings",
            *build_file.imported_libraries(source, files | test_files),
        }, REWRITE


def test_imports_have_no_cycle(imports):
    graphlib.TopologicalSorter(imports).prepare()


def test_imports_point_down(imports):
    may_import = levels.MAY_IMPORT
    assert set(imports) <= set(may_import), "Give the new room its level."
    upward = {
        name: sorted(imported - may_import[name])
        for name, imported in imports.items()
        if imported - may_import[name]
    }
    assert not upward, f"Rooms import others that they must not: {upward}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import tfp_refine", {"tfp_refine"}),
        ("import tfp_refine as tfr", {"tfp_refine"}),
        ("import tfp_refine.math.gaussian", {"math"}),
        ("from tfp_refine import math, layers", {"math", "layers"}),
        ("from tfp_refine import refine", {"tfp_refine"}),
        ("from tfp_refine.math import gaussian as g", {"math"}),
        ("from tfp_refine.math.gaussian import kl", {"math"}),
        ("from tfp_refine.math.sub.gaussian import kl", {"math"}),
        ("def f():\n    from tfp_refine import math", {"math"}),
        ("try:\n    import tfp_refine.math\nfinally:\n    pass", {"math"}),
        ("import math\nimport tfp_refine_extras.math", set()),
        ("from tests.support import cases", {"tests/support/cases"}),
        ("from tests.support.cases import f", {"tests/support/cases"}),
        ("from tests.math.sub import cases", {"tests/math/sub/cases"}),
        ("from tests.math.sub.cases import f", {"tests/math/sub/cases"}),
        ("from tests.structure import other", set()),
    ],
)
def test_imports_are_found_wherever_they_stand(source, expected):
    libraries = {
        "math", "layers", "tests/support/cases", "tests/math/sub/cases"
    }  # fmt: skip
    assert build_file.imported_libraries(source, libraries) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("run('-m', 'tfp_refine.math.sub.__main__')", {"math"}),
        ("run('-m', 'tfp_refine.math')", {"math"}),
        ("run('-m', f'tfp_refine.math.{name}')", {"math"}),
        ("run('-m', 'tests.support.cases')", {"tests/support/cases"}),
        ("code = 'from tfp_refine import math'", {"math"}),
        ("code = ' import tfp_refine.math\\n f()'", {"math"}),
        ("'Shows why import tfp_refine.math is slow.'", set()),
        ("path = 'tfp_refine/math'", set()),
    ],
)
def test_what_strings_have_run_counts_as_imported(source, expected):
    libraries = {"math", "layers", "tests/support/cases"}
    assert build_file.imported_libraries(source, libraries) == expected


def test_a_relative_import_is_refused():
    with pytest.raises(ValueError, match="must be absolute.*line 2"):
        build_file.imported_libraries("\nfrom . import math", {"math"})


def test_bazel_tests_do_not_find_an_editable_install(monkeypatch):
    ours, other = (
        type("Finder", (), {"__module__": f"__editable___{name}_0_1_finder"})
        for name in ("tfp_refine", "tensorflow_probability")
    )
    finders = [*sys.meta_path, ours, other]
    monkeypatch.setattr(sys, "meta_path", list(finders))
    pytest_main.hide_editable_install()
    assert ours not in sys.meta_path
    assert other in sys.meta_path
    assert sys.meta_path[0] is finders[0]
