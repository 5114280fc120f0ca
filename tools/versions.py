"""Runs quick tests with the oldest and the newest versions of requirements.

  python -m tools.versions [--ends=oldest,newest] [--python=3.11] [--tests=...]

The oldest versions are the floors that `setup.py` declares for the extra `tf`,
with the newest version of everything else that they can be installed with. The
newest are those that pip chooses. Each end has a fresh environment.

`make versions` runs it. It needs the network, for pip.
"""

import argparse
import pathlib
import re
import sys
import tempfile

from tools import environments

ROOT = environments.ROOT
ENDS = ("oldest", "newest")
# Layers and their fits, each method's posterior, files and conversions.
TESTS = (
    "tests/layers/test_convolutions.py",
    "tests/layers/test_dense_flipout.py",
    "tests/layers/test_fit_modes.py",
    "tests/layers/test_sampled_layers.py",
    "tests/initializers/test_iblm_classification.py",
    "tests/losses/test_heteroscedastic_gaussian_nll.py",
    "tests/optimizers/test_ivon.py",
    "tests/posteriors/test_contract.py",
    "tests/posteriors/test_export.py",
    "tests/refinement/test_refine.py",
    "tests/integration/test_main.py",
    "tests/integration/test_round_trips.py",
)
_LISTED = ("tensorflow", "keras", "tensorflow-probability", "tf_keras", "numpy")


def floors(setup):
    """Returns pins of the floors of the extra `tf`, from setup.py's text."""
    (block,) = re.findall(r"^TF = \[\n(.*?)^\]", setup, re.M | re.S)
    found = re.findall(r'"([\w-]+)>=([\d.]+)', block)
    return [f"{name}=={version}.*" for name, version in found]


def try_end(end, python, tests, folder):
    """Runs the tests in a fresh environment; returns their last line."""
    packages = ["-e", f"{ROOT}[tf,plot]", "pytest", "hypothesis"]
    if end == "oldest":
        packages += floors((ROOT / "setup.py").read_text(encoding="utf-8"))
    path = environments.make(python, folder / end, *packages)
    frozen = environments.run(
        *(path, "-m", "pip", "list", "--format=freeze"), folder=folder
    )
    names = "|".join(_LISTED)
    versions = re.findall(rf"^(?:{names})==.+$", frozen, re.M)
    print(f"{end}: {', '.join(versions)}", flush=True)
    # Other versions may warn of other things.
    written = environments.run(
        *(path, "-m", "pytest", "-q", "-m", "not slow"),
        *("-p", "no:cacheprovider", "-o", "filterwarnings=default"),
        *("--disable-warnings", *tests),
        folder=ROOT,
    )
    return written.strip().splitlines()[-1]


def main():
    """Tries versions; see the docstring of the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--ends", default=",".join(ENDS))
    parser.add_argument("--python", default=environments.PYTHONS[0])
    parser.add_argument("--tests", default=",".join(TESTS))
    flags = parser.parse_args()
    pythons = environments.find_pythons()
    if flags.python not in pythons:
        sys.exit(f"Python {flags.python} is not on this machine: {pythons}")
    with tempfile.TemporaryDirectory() as name:
        for end in flags.ends.split(","):
            result = try_end(
                end,
                pythons[flags.python],
                flags.tests.split(","),
                pathlib.Path(name),
            )
            print(f"{end}: {result}", flush=True)


if __name__ == "__main__":
    main()
