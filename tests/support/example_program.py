"""A small experiment, to see how the harness reads its configuration.

python -m tests.support.example_program --help
"""

import dataclasses
import os
import runpy
import sys
import time
import types
from typing import Annotated
from typing import Literal

from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import program


@dataclasses.dataclass(frozen=True, kw_only=True)
class Training(config.Config):
    """Fields that several experiments have.

    Training:
        learning_rate: Of Adam.
        train_steps (common): Steps of training. Defaults to 30000, or to 500
            epochs if that is less.

    Output:
        progress: Show progress bars.
        output_dir (common): Folder for results.
    """

    learning_rate: Annotated[float, config.positive] = 1e-3
    train_steps: Annotated[int, config.at_least(1)] | None = None
    progress: bool = True
    output_dir: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Config(Training):
    """Configuration of the example.

    Data:
        dataset (common): Data set.
        splits: Number of splits.
        download (neutral): Download data.

    Model:
        hidden: Hidden units.
        dropout: Rate.

    Training:
        train_steps: Steps.

    Method:
        systems: Systems to compare.

    Evaluation:
        action: Action of run.

    Raises:
        ValueError: If it is wrong.
    """

    learning_rate = 1e-2
    train_steps = 100
    dataset: Literal["yacht", "boston"] = "yacht"
    splits: Annotated[int, config.at_least(1)] = 5
    hidden: tuple[Annotated[int, config.at_least(1)], ...] = (50,)
    systems: Annotated[tuple[str, ...], config.not_empty, config.unique] = (
        "vi",
        "refined(vi, num_members=5)",
    )
    dropout: Annotated[float, config.proportion(zero=True)] = 0.0
    download: bool = False
    action: str = "print"

    def check(self) -> None:
        super().check()
        if self.dataset == "boston" and self.splits > 20:
            raise ValueError(
                "--splits must be at most 20 with --dataset=boston. "
                f"Received: --splits={self.splits}"
            )


def run(settings: Config) -> None:
    """Does as it is told.

    Shows the look of experiments of several lines of text, which are filled
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
    """Returns the text of `--list`."""
    return "Data sets: yacht, boston"


if __name__ == "__main__":
    if "tensorflow" in sys.modules:
        sys.exit("The harness imported TensorFlow.")
    program.main(
        types.SimpleNamespace(
            __name__="example", __doc__=run.__doc__, Config=Config, run=run
        ),
        listed,
        modules=("tests.support.noise",),
    )
