"""The package as its users have it: a wheel, outside the repository."""

import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from tests.support import markdown_code

pytestmark = pytest.mark.slow
ROOT = markdown_code.ROOT


def run(*command, folder):
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"),
        *("--wheel-dir", folder, ROOT),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("tfp_refine-*.whl")
    return path


def environment(wheel, folder):
    """Makes an environment with the wheel alone, and returns its Python."""
    done = run(
        sys.executable, "-m", "venv", "--without-pip", "venv", folder=folder
    )
    assert done.returncode == 0, done.stderr
    path = folder / "venv" / "bin" / "python"
    done = run(
        *(sys.executable, "-m", "pip", "--python", path, "install"),
        *("--quiet", "--no-deps", "--no-index", wheel),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    (packages,) = (folder / "venv" / "lib").glob("*/site-packages")
    return path, packages


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Python with the wheel, and all other packages of this environment."""
    folder = tmp_path_factory.mktemp("with_extras")
    path, packages = environment(wheel, folder)
    # Not so its editable installation of the repository.
    others = sysconfig.get_path("purelib")
    (packages / "others.pth").write_text(f"{others}\n")
    done = run(
        path, "-c", "import tfp_refine; print(tfp_refine.__file__)",
        folder=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert pathlib.Path(done.stdout.strip()).is_relative_to(packages)
    return path


def test_the_wheel_has_the_package_and_its_data_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {
        "tfp_refine"
    }
    ours = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tfp_refine").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    assert set(ours) <= set(names)


def test_links_of_the_description_are_absolute(wheel):
    with zipfile.ZipFile(wheel) as file:
        (name,) = (n for n in file.namelist() if n.endswith("/METADATA"))
        metadata = file.read(name).decode("utf-8")
    links = re.findall(r"\]\(([^)]*)\)", metadata)
    assert len(links) > 15
    assert [link for link in links if not link.startswith("https://")] == []
    assert "](https://raw.githubusercontent.com/" in metadata


def test_the_quick_start_runs_and_its_model_loads_in_another_process(
    python, tmp_path
):
    quick_start = markdown_code.python_blocks(ROOT / "README.md")[0]
    data = (
        "import numpy as np\n"
        "x_test = np.random.default_rng(0).normal(size=(5, 64))\n"
    )
    save = (
        "refined.save('refined.posterior')\n"
        "model.save('model.keras')\n"
        "model.save_weights('model.weights.h5')\n"
        "with tfr.layers.mean_weights():\n"
        "    np.save('expected.npy', model(x_test))\n"
        "np.save('refined.npy', refined.predict(x_test, seed=1))\n"
    )
    done = run(
        python,
        "-c",
        data + markdown_code.shortened(quick_start) + save,
        folder=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    load = (
        "import keras\n"
        "import tfp_refine as tfr\n"
        "model = keras.models.load_model('model.keras')\n"
        "with tfr.layers.mean_weights():\n"
        "    outputs = np.array(model(x_test))\n"
        "np.testing.assert_array_equal(outputs, np.load('expected.npy'))\n"
        "ensemble = tfr.load_posterior('refined.posterior')\n"
        "draws = ensemble.predict(x_test, seed=1)\n"
        "np.testing.assert_array_equal(draws, np.load('refined.npy'))\n"
        "assert len(tfr.datasets.load_uci('yacht').features) == 308\n"
    )
    done = run(python, "-c", data + load, folder=tmp_path)
    assert done.returncode == 0, done.stderr


def test_scripts_run_from_the_wheel(python, tmp_path):
    done = run(
        *(python, "-m", "tfp_refine.experiments.uci", "--help"),
        folder=tmp_path,
    )
    assert "--num_members" in done.stdout


def test_without_the_extra_its_name_is_told(wheel, tmp_path):
    path, _ = environment(wheel, tmp_path)
    done = run(path, "-c", "import tfp_refine", folder=tmp_path)
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last == (
        "ImportError: tfp_refine needs tensorflow, keras, "
        "tensorflow_probability, tf_keras, which its extra `tf` installs: "
        "pip install 'tfp_refine[tf]'"
    )


def test_without_matplotlib_plots_name_their_extra(python, tmp_path):
    # A finder that finds all but matplotlib.
    program = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: (\n"
        "    None if name == 'matplotlib' else find(name, *rest))\n"
        "import tfp_refine.plotting\n"
    )
    done = run(python, "-c", program, folder=tmp_path)
    assert done.returncode != 0
    assert "ImportError: Plots need matplotlib" in done.stderr
    assert "pip install 'tfp_refine[plot]'" in done.stderr
