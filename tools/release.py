"""Checks that the commit HEAD can be released, and prints how to tag it.

  python -m tools.release [--tag] [--output_dir=dist]

1. The version is the same in the package, `CHANGELOG.md` and `CITATION.cff`,
   with one date, and no other commit has its tag.
2. A wheel and a source distribution are built from the files of HEAD.
3. The source distribution has all of these but settings of services, the wheel
   has the package alone, and `twine check` accepts both.
4. The wheel is installed in a fresh environment of each Python of
   `tools/environments.py` on this machine, and runs the quick start of the
   README in an empty folder.

`make release` runs it. It needs the network, for pip.
"""

import argparse
import pathlib
import re
import sys
import tarfile
import tempfile
import zipfile

from tools import environments

ROOT = environments.ROOT
PACKAGE = "tfp_refine"
# Not in the source distribution: settings of Git and of services.
_SETTINGS = r"\.(bazel|ci/|git|pre-commit)"


def stated_versions(read):
    """Returns `{file: version}`, and `{file: date}` of the releases.

    `read` returns the text of a file of the repository. A changelog whose
    newest version is not released has the date "not released".
    """
    code = re.search('__version__ = "(.+)"', read("tfp_refine/version.py"))
    newest = re.search(r"^## (\S+) \((.+)\)$", read("CHANGELOG.md"), re.M)
    citation = read("CITATION.cff")
    cited = re.search(r"^version: (\S+)$", citation, re.M)
    date = re.search(r"^date-released: (\S+)$", citation, re.M)
    versions = {
        "tfp_refine/version.py": code[1],
        "CHANGELOG.md": newest[1],
        "CITATION.cff": cited[1],
    }
    dates = {
        "CHANGELOG.md": newest[2],
        "CITATION.cff": date[1] if date else "not released",
    }
    return versions, dates


def version_errors(versions, dates):
    """Returns errors in the versions and dates of files, a list."""
    errors = []
    if len(set(versions.values())) > 1:
        errors.append(f"the versions differ: {versions}")
    for file, version in versions.items():
        if not re.fullmatch(r"\d+\.\d+\.\d+", version):
            errors.append(f"no version of a release in {file}: {version}")
    if len(set(dates.values())) > 1:
        errors.append(f"the dates differ: {dates}")
    for file, date in dates.items():
        if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
            errors.append(f"no date of a release in {file}: {date}")
    return errors


def content_errors(tracked, sdist, wheel):
    """Returns errors in the files of the distributions, a list.

    Args:
        tracked: Paths of the repository's files.
        sdist: Paths in the source distribution, without its folder.
        wheel: Paths in the wheel.
    """
    tracked = {name for name in tracked if not re.match(_SETTINGS, name)}
    inside = {name for name in tracked if name.startswith(f"{PACKAGE}/")}
    packed = {name for name in wheel if ".dist-info/" not in name}
    made = {name for name in sdist if ".egg-info/" in name}
    made |= {"PKG-INFO", "setup.cfg"}
    compared = {
        "missing in the source distribution": tracked - set(sdist),
        "not of the repository, in the source distribution": set(sdist)
        - tracked
        - made,
        "missing in the wheel": inside - packed,
        "not of the package, in the wheel": packed - inside,
    }
    return [
        f"{text}: {', '.join(sorted(names)[:9])}"
        for text, names in compared.items()
        if names
    ]


def quick_start(readme):
    """Returns the first block of Python of the README."""
    return re.search("^```python\n(.*?)^```$", readme, re.M | re.S)[1]


def git(*words):
    """Returns the lines that a command of Git writes."""
    return environments.run("git", *words, folder=ROOT).splitlines()


def check_versions():
    """Returns the version; exits if it cannot be released."""

    def read(name):
        return (ROOT / name).read_text(encoding="utf-8")

    versions, dates = stated_versions(read)
    errors = version_errors(versions, dates)
    if changed := git("status", "--porcelain"):
        errors.append(f"changes are not committed: {changed}")
    version = versions["tfp_refine/version.py"]
    tag = f"v{version}"
    head = git("rev-parse", "HEAD")
    if git("tag", "--list", tag) and git("rev-list", "-n", "1", tag) != head:
        errors.append(f"{tag} is the tag of another commit")
    if errors:
        sys.exit("\n".join(errors))
    return version


def build(folder, output_dir):
    """Builds HEAD, and returns the paths of wheel and source distribution."""
    source = folder / "source"
    source.mkdir()
    archive = folder / "source.tar"
    git("archive", f"--output={archive}", "HEAD")
    with tarfile.open(archive) as file:
        file.extractall(source, filter="data")
    python = environments.make(
        sys.executable, folder / "tools", "build", "twine"
    )
    for old in output_dir.glob(f"{PACKAGE}-*"):
        old.unlink()
    environments.run(
        *(python, "-m", "build", "--outdir", output_dir, source), folder=folder
    )
    (wheel,) = output_dir.glob("*.whl")
    (sdist,) = output_dir.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        in_wheel = [name for name in file.namelist() if name[-1] != "/"]
    with tarfile.open(sdist) as file:
        members = [m.name for m in file.getmembers() if m.isfile()]
    in_sdist = [name.partition("/")[2] for name in members]
    if errors := content_errors(git("ls-files"), in_sdist, in_wheel):
        sys.exit("\n".join(errors))
    environments.run(
        *(python, "-m", "twine", "check", "--strict", wheel, sdist),
        folder=folder,
    )
    return wheel, sdist


def try_wheel(wheel, version, python, folder):
    """Runs the quick start from the wheel; returns its results."""
    path = environments.make(python, folder / "venv", f"{wheel}[tf]")
    empty = folder / "empty"
    empty.mkdir()
    found = environments.run(path, "-m", PACKAGE, folder=empty)
    if f"{PACKAGE} {version}\n" not in found:
        sys.exit(f"the version of the wheel is not {version}:\n{found}")
    code = quick_start((ROOT / "README.md").read_text(encoding="utf-8"))
    written = environments.run(path, "-W", "ignore", "-c", code, folder=empty)
    before, after = map(float, written.split()[-2:])
    if not after < before:
        sys.exit(f"refinement did not lower the test NLL:\n{written}")
    packages = re.findall("^  ((?:tensorflow|keras) .+)$", found, re.M)
    return f"{', '.join(packages)}; test NLL {before:.3f} -> {after:.3f}"


def tag_head(version):
    """Tags HEAD with a version, unless it has this tag."""
    tag = f"v{version}"
    if tag not in git("tag", "--points-at", "HEAD"):
        git("tag", "--annotate", tag, f"--message={tag}")


def main():
    """Checks a release; see the docstring of the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--tag", action="store_true", help="tag HEAD if all checks pass"
    )
    parser.add_argument(
        "--output_dir", type=pathlib.Path, default=ROOT / "dist"
    )
    flags = parser.parse_args()
    version = check_versions()
    if flags.tag:
        git("var", "GIT_COMMITTER_IDENT")  # Fails now, rather than at the end.
    print(f"version {version}: the same everywhere")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        wheel, sdist = build(folder, flags.output_dir.resolve())
        print(f"built and checked {wheel.name}, {sdist.name}")
        found = environments.find_pythons()
        for python in environments.PYTHONS:
            if python not in found:
                print(f"Python {python}: not on this machine")
                continue
            here = folder / python
            here.mkdir()
            result = try_wheel(wheel, version, found[python], here)
            print(f"Python {python}: {result}", flush=True)
    if flags.tag:
        tag_head(version)
        print(f"tagged v{version}; publish it: git push origin v{version}")
    else:
        print("ready; tag it: python -m tools.release --tag")
    print(f"then upload: twine upload {wheel} {sdist}")


if __name__ == "__main__":
    main()
