"""The version of `tfp_refine`, and the versions that it is tested with."""

__version__ = "0.1.0"

# Oldest and newest minor versions, which `python -m tools.versions` tests. The
# oldest are the floors in setup.py; the tests did not pass with older ones.
TESTED = {
    "tensorflow": ("2.21", "2.21"),
    "keras": ("3.15", "3.15"),
    "tensorflow-probability": ("0.25", "0.25"),
}
