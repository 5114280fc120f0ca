"""Experiments of several tasks, each a bench run in a folder of its own."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfp_refine.experiments import bench
from tfp_refine.experiments import report
from tfp_refine.experiments.data import functions
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.harness import page
from tfp_refine.experiments.measures import bands
from tfp_refine.experiments.measures import fits
from tfp_refine.experiments.measures import predictions

# Function of results and of the first repetition's data.
Sections = Callable[[bench.Results, Any], list[page.Section]]
Results = bench.Results | folder_lib.Results
# Function of a configuration that checks the needs of a task, and returns a
# function that runs it.
Task = Callable[[Any], Callable[[], Results]]

# Fields of tasks on functions of one variable, whose other values are for other
# data.
OF_FUNCTIONS = {
    "kind": "regression",
    "model": "mlp",
    "variational": None,
    "batch_norm": False,
    "epochs": None,
    "early_stopping_patience": None,
    "augment": "none",
    "split_kind": "random",
    "scaling": "standardized",
    "test_curve": False,
    **dict.fromkeys(
        ("classes", "unseen", "rotations", "flipped_pixels", "corruptions"), ()
    ),
}


def configure(
    config: fields.Bench, task: str, own: Iterable[str], **changes: Any
) -> fields.Bench:
    """Returns the configuration of a task.

    Args:
        config: Configuration of the experiment, with an `output_dir`.
        task: Name of the task, and of its folder.
        own: Names of the fields of other tasks alone: they get their defaults,
            so that they do not decide the results of this one.
        **changes: Fields that the task sets.
    """
    specs = config_lib.specs(type(config))
    defaults = {name: specs[name].default for name in own}
    return dataclasses.replace(
        config,
        output_dir=str(pathlib.Path(config.output_dir) / task),
        **(defaults | changes),
    )


def on_function(
    experiment: str,
    config: fields.Bench,
    task: str,
    function: Callable[[np.ndarray], np.ndarray],
    num_points: int,
    stream: int,
    *,
    own: Iterable[str] = (),
    measures: Iterable[bench.Measure] = (),
    reach: float,
    noise: float,
    end: float,
    **changes: Any,
) -> bench.Bench:
    """Returns the bench of a regression on a function of one variable.

    Arguments are as for `functions.load` and `configure`; `stream` is the
    number of the random stream of the data, and the task names the data set.
    """

    def load(config, number=0):
        seed = [config.seed, stream, number]
        return functions.load(
            function, num_points, seed, reach=reach, noise=noise, end=end
        )

    changes = {**OF_FUNCTIONS, "dataset": task, **changes}
    return bench.Bench(
        experiment,
        configure(config, task, own, **changes),
        (predictions.TEST, bands.BANDS, fits.BOUND, fits.COSTS, *measures),
        fits.observe,
        load_data=load,
    )


def of_bench(make: Callable[[Any], bench.Bench], sections: Sections) -> Task:
    """Returns a task that runs a bench, and reports it with more sections."""

    def prepare(config):
        made = make(config)

        def show(results):
            results.given = config
            report.show(results, sections(results, made.data))

        return functools.partial(made.run, show)

    return prepare


def run(
    experiment: str, config: fields.Bench, tasks: Mapping[str, Task]
) -> dict[str, Results]:
    """Runs the missing parts of all tasks, after the checks of all.

    Args:
        experiment: Name of the experiment.
        config: Its configuration; its `output_dir` is filled for the tasks.
        tasks: The tasks, by name.

    Returns:
        results: Those of each task. The rows of all tasks are in the folder's
            own `results.json`, too.

    Raises:
        ValueError: If every system of a task failed.
    """
    path = f"results/{experiment}/{config.dataset}"
    config = config.with_defaults({"output_dir": path})
    prepared = {task: prepare(config) for task, prepare in tasks.items()}
    results, rows, reasons = {}, [], {}
    with folder_lib.Folder(config.output_dir, experiment, config, {}) as folder:
        for task, run_task in prepared.items():
            results[task] = run_task()
            rows += results[task].rows.to_dict("records")
            reasons[task] = results[task].reasons
            folder.write_results(rows, extra={"reasons": reasons})
    return results
