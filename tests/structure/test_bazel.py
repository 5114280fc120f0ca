"""`BUILD` in Bazel's eyes, as far as a machine has a Bazel."""

import ast
import re
import shutil
import subprocess

import pytest

from tests.structure import build_file

# Majors that WORKSPACE and third_party/bazel were tried with: 2.1.0 and 4.2.3,
# and Debian's build of the latter, which does not tell its version.
TRIED = ("2", "4", None)


def calls(path):
    """Returns `(function, arguments, keywords)` of the calls in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        (
            statement.value.func.id,
            [ast.literal_eval(value) for value in statement.value.args],
            {
                keyword.arg: ast.literal_eval(keyword.value)
                for keyword in statement.value.keywords
            },
        )
        for statement in tree.body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and statement.value.func.id in ("load", "local_repository")
    ]


def repositories():
    """Returns `{name: folder}` of targets that WORKSPACE finds here."""
    return {
        keywords["name"]: build_file.ROOT / keywords["path"]
        for _, _, keywords in calls(build_file.ROOT / "WORKSPACE")
    }


def defined(path):
    """Returns the names that a .bzl file defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        target.id
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
    }


def test_every_local_repository_exists():
    found = repositories()
    assert "rules_python" in found
    for folder in found.values():
        assert (folder / "WORKSPACE").is_file(), folder


def test_what_build_loads_exists():
    loads = [call for call in calls(build_file.ROOT / "BUILD")]
    assert loads
    for _, (label, *names), _ in loads:
        repository, package, file = re.fullmatch(
            "@(.+)//(.*):(.+)", label
        ).groups()
        folder = repositories()[repository] / package
        assert (folder / "BUILD").is_file()
        assert set(names) <= defined(folder / file)


def test_there_is_one_build_file():
    # A folder with its own would be left out of the patterns in the root's.
    assert [
        path.relative_to(build_file.ROOT).as_posix()
        for folder in (build_file.PACKAGE, "tests", "colab", "benchmarks")
        for name in ("BUILD", "BUILD.bazel")
        for path in (build_file.ROOT / folder).rglob(name)
    ] == []


@pytest.fixture(scope="module")
def bazel(tmp_path_factory):
    """Runs the `bazel` on PATH in a cache of its own."""
    program = shutil.which("bazel")
    if program is None:
        pytest.skip("There is no `bazel` on PATH.")
    version = subprocess.run(
        [program, "--version"], capture_output=True, text=True, check=True
    ).stdout
    major = re.match(r"bazel (\d+)\.", version)
    if (major and major[1]) not in TRIED:
        pytest.skip(f"WORKSPACE was not tried with {version.strip()}.")
    cache = tmp_path_factory.mktemp("bazel")

    def run(*words):
        done = subprocess.run(
            [program, f"--output_user_root={cache}", *words],
            cwd=build_file.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.splitlines()

    yield run
    run("shutdown")
    # Bazel takes away the right to write, without which nothing is deleted.
    subprocess.run(["chmod", "-R", "u+w", cache], check=True)
    shutil.rmtree(cache)


@pytest.mark.slow
def test_bazel_builds_every_target(bazel):
    bazel("build", "//...")


@pytest.mark.slow
def test_bazel_sees_every_rule_and_file(bazel):
    rules = bazel("query", "//...")
    text = (build_file.ROOT / "BUILD").read_text(encoding="utf-8")
    names = re.findall(r'^    name = "(.+)",$', text, re.MULTILINE)
    assert sorted(rules) == sorted(f"//:{name}" for name in names)
    files = bazel("query", 'labels(srcs, kind("py_.* rule", //...))')
    libraries = build_file.find_libraries() | build_file.find_test_libraries()
    assert sorted(files) == sorted(
        f"//:{path.relative_to(build_file.ROOT).as_posix()}"
        for path in [*sum(libraries.values(), []), *build_file.find_tests()]
    )
