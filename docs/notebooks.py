"""Executes the notebooks of the course in `colab/` and stores their outputs.

  python docs/notebooks.py [--names=quickstart,mnf]

`make notebooks` runs it for all. The sources are `colab/*.py`, the results
`colab/*.ipynb`. Each notebook takes about two minutes on one core. TensorFlow
has one thread, so that results do not depend on the number of cores.
"""

import argparse
import base64
import io
import os
import pathlib
import re
import tempfile

import jupytext
import nbclient
import nbformat
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "colab"
_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
_SETTINGS = {
    "PYTHONHASHSEED": "0",
    "PYTHONPATH": str(ROOT),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_NUM_INTEROP_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
}


def course():
    """Returns the names of the notebooks, in the order of `docs/index.md`."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    return re.findall(r"\(tutorials/(\w+)\.md\)", index)


def made(name):
    """Returns a notebook without outputs, made from its source."""
    notebook = jupytext.read(FOLDER / f"{name}.py")
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    for index, cell in enumerate(notebook.cells):
        cell.id = f"{name}-{index}"  # The same each time.
    return notebook


def smaller(png):
    """Returns a PNG with a palette of 256 colors, both in base64."""
    file = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.quantize(256, dither=Image.Dither.NONE).save(
        file, "PNG", optimize=True
    )
    return base64.b64encode(file.getvalue()).decode("ascii")


def executed(name):
    """Returns a notebook with its outputs, without stderr."""
    notebook = made(name)
    environment = {k: v for k, v in os.environ.items() if k != "MPLBACKEND"}
    with tempfile.TemporaryDirectory() as folder:
        nbclient.NotebookClient(
            notebook,
            timeout=1200,
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        ).execute(env=environment | _SETTINGS)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                o for o in cell.outputs if o.get("name") != "stderr"
            ]
            for data in (o.get("data", {}) for o in cell.outputs):
                if "image/png" in data:
                    data["image/png"] = smaller(data["image/png"])
    notebook.metadata.pop("language_info", None)
    return notebook


def main():
    """Executes the notebooks that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(course()))
    for name in parser.parse_args().names.split(","):
        nbformat.write(executed(name), FOLDER / f"{name}.ipynb")


if __name__ == "__main__":
    main()
