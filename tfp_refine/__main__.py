"""Prints versions, devices and further reading: `python -m tfp_refine`."""

import argparse
import importlib.metadata
import os
import platform

from tfp_refine import version
from tfp_refine.experiments.harness import noise

_PACKAGES = ("tensorflow", "tensorflow-probability", "keras", "numpy")
_NEXT = """
Compare methods on a data set, list methods and data sets, list experiments:
  python -m tfp_refine.experiments.compare --dataset=yacht
  python -m tfp_refine.experiments.compare --list
  python -m tfp_refine.experiments
Documentation and notebooks:
  https://github.com/tfp-refine/tfp_refine
"""


def main() -> None:
    """Prints versions, devices and further reading."""
    argparse.ArgumentParser(
        prog="python -m tfp_refine",
        description="Prints versions, devices and further reading.",
    ).parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with noise.dropped():
        import tensorflow as tf

        devices = tf.config.list_physical_devices()
    print(f"tfp_refine {version.__version__}")
    print(f"  Python {platform.python_version()} on {platform.platform()}")
    for name in _PACKAGES:
        print(f"  {name} {importlib.metadata.version(name)}")
    for device in devices:
        details = tf.config.experimental.get_device_details(device)
        name = details.get("device_name", f"{os.cpu_count()} cores")
        print(f"  {device.device_type}: {name}")
    print(_NEXT, end="")


if __name__ == "__main__":
    main()
