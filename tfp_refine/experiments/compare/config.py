"""Configuration of the comparison of all systems."""

import dataclasses

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(fields.Bench):
    """Configuration of the comparison of all systems."""

    systems: tuple[str, ...] = config.override(
        ("all",),
        "Systems to fit, see --list; they combine, as in refined(cm(iblm)). "
        "all: each system by itself.",
    )

    def before_data(self, kind):
        """Returns defaults; classifiers keep data to scale temperatures on."""
        fraction = 0.0 if kind == "regression" else 0.1
        return {
            **super().before_data(kind),
            "validation_fraction": fraction,
            "unseen": {
                "regression": (),
                "images": ("turned", "shuffled"),
            }.get(kind, ("shuffled",)),
            "rotations": (
                (15.0, 30.0, 45.0, 60.0, 75.0, 90.0) if kind == "images" else ()
            ),
        }
