"""What the README says is true: its Python runs, its names exist."""

import pathlib
import re
import warnings

import numpy as np

_README = (pathlib.Path(__file__).parents[1] / "README.md").read_text()


def test_python_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 13)).astype("float32")
    y = (x[:, :1] + 0.1 * rng.normal(size=(60, 1))).astype("float32")
    names = {"x_train": x, "y_train": y, "x_test": x[:10], "y_test": y[:10]}
    blocks = re.findall(r"```python\n(.*?)```", _README, re.DOTALL)
    assert len(blocks) >= 2
    for block in blocks:
        # Quick enough for a test: less training, the same calls.
        block = re.sub(r"(epochs|steps|num_members)=\d+", r"\1=2", block)
        block = re.sub(r'("num_(warmup|samples)"): \d+', r"\1: 4", block)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The chains have not mixed")
            exec(block, names)


def test_names_in_tables_exist():
    import tfp_refine as tfr

    for path in re.findall(r"`tfr\.([A-Za-z0-9_.]+)", _README):
        target = tfr
        for part in path.split("."):
            target = getattr(target, part)


def test_commands_of_the_readme_exist():
    makefile = (pathlib.Path(__file__).parents[1] / "Makefile").read_text()
    for target in re.findall(r"^make ([a-z-]+)", _README, re.MULTILINE):
        assert f"\n{target}:" in makefile
