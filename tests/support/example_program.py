"""A small experiment, to see what the harness makes of its configuration.

python -m tests.support.example_program --help
"""

import dataclasses
import os
import runpy
import sys
import time

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import program


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(config.Config):
    """Fields that several experiments have."""

    learning_rate: float = config.field(
        1e-3, "Of Adam.", group="training", check=config.positive
    )
    train_steps: int | None = config.field(
        None, "Steps of training. Defaults to 30000, or to 500 epochs if that "
        "is less.",
        group="training", check=config.at_least(1), common=True,
    )  # fmt: skip
    progress: bool = config.field(
        True, "Show progress bars.", group="output", decides=False
    )
    output_dir: str | None = config.field(
        None, "Folder for results.", group="output", common=True, decides=False
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Training):
    """Configuration of the example."""

    learning_rate: float = config.override(1e-2)
    train_steps: int | None = config.override(100, "Steps.")
    dataset: str = config.field(
        "yacht", "Data set.", group="data",
        check=config.one_of("yacht", "boston"), common=True,
    )  # fmt: skip
    splits: int = config.field(
        5, "Number of splits.", group="data", check=config.at_least(1)
    )
    hidden: tuple[int, ...] = config.field(
        (50,), "Hidden units.", group="model",
        check=config.each(config.at_least(1)),
    )  # fmt: skip
    systems: tuple[str, ...] = config.field(
        ("vi", "refined(vi, num_members=5)"), "Systems to compare.",
        group="method", check=config.unique(config.not_empty()),
    )  # fmt: skip
    dropout: float = config.field(
        0.0, "Rate.", group="model", check=config.proportion(zero=True)
    )
    download: bool = config.field(False, "Download data.", group="data")
    action: str = config.field("print", "What run does.", group="evaluation")

    def check(self) -> None:
        super().check()
        if self.dataset == "boston" and self.splits > 20:
            raise ValueError(
                "--splits must be at most 20 with --dataset=boston. "
                f"Received: --splits={self.splits}"
            )


def run(settings: Config) -> None:
    """Does as it is told.

    Shows what experiments of several lines of text look like, which are filled
    to the width of the terminal.

    Args:
        settings: Configuration.
    """
    if settings.action == "print":
        sys.stdout.write(f"{settings}\n")
    elif settings.action == "fail":
        raise ValueError("`x` must be\n  finite. Received: x=nan")
    elif settings.action == "break":
        raise RuntimeError("a defect")
    elif settings.action == "progress":
        # Without its room, which imports TensorFlow.
        progress = runpy.run_path("tfp_refine/functional/progress.py")
        verbose = 1 if settings.progress else 2
        bar = progress["Progress"]("training", 40, verbose, interval=0)
        for step in range(41):
            bar.update(step)
    elif settings.action in ("sleep", "wrap"):
        sys.stdout.write(f"ready {os.environ.get('TF_CPP_MIN_LOG_LEVEL')}\n")
        sys.stdout.flush()
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            if settings.action == "wrap":
                raise RuntimeError("the library was interrupted") from None
            raise


def listed() -> str:
    """Returns what `--list` shows."""
    return "Data sets: yacht, boston"


if __name__ == "__main__":
    if "tensorflow" in sys.modules:
        sys.exit("The harness imported TensorFlow.")
    program.main(
        "example", Config, run, run.__doc__, listed,
        modules=("tests.support.noise",),
    )  # fmt: skip
