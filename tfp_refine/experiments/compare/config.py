"""Configuration of the comparison of all systems."""

import dataclasses

from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the comparison of all systems.

    Method:
        systems: Systems to fit, see --list; they combine, as in
            refined(cm(iblm)). all: each system by itself.
    """

    systems = ("all",)
    unseen = None
    rotations = None

    def before_data(self, kind):
        """Returns defaults; classifiers keep data to scale temperatures on."""
        angles = fields.ANGLES if kind == "images" else ()
        return fields.of_classifiers(kind) | {"rotations": angles}
