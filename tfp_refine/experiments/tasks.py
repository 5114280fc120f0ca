"""Experiments of several tasks, each a bench run in a folder of its own."""

import dataclasses
import pathlib

from tfp_refine.experiments import report
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import figures
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.harness import page

# Fields of tasks on `functions.FunctionData`, whose other values are for other
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
    **dict.fromkeys(
        ("classes", "unseen", "rotations", "flipped_pixels", "corruptions"), ()
    ),
}


def configure(config, task, own, **changes):
    """Returns the configuration of a task.

    Args:
        config: Configuration of the experiment, with an `output_dir`.
        task: Name of the task, and of its folder.
        own: Names of the fields of other tasks alone: they get their defaults,
            so that they do not decide the results of this one.
        **changes: Fields that the task sets.

    Returns:
        config: Configuration of the same class.
    """
    specs = config_lib.specs(type(config))
    defaults = {name: specs[name].default for name in own}
    return dataclasses.replace(
        config,
        output_dir=str(pathlib.Path(config.output_dir) / task),
        **(defaults | changes),
    )


def run(experiment, config, benches, sections):
    """Runs what is missing of all tasks, and reports each.

    Args:
        experiment: Name of the experiment.
        config: Its configuration, with an `output_dir`.
        benches: Dict from the name of a task to a `bench.Bench`.
        sections: Dict from the name of a task to a function of `bench.Results`
            that returns a list of `page.Section`, which the report gets.

    Returns:
        results: Dict from the name of a task to `bench.Results`. The rows of
            all tasks are in the folder's own `results.json`, too.

    Raises:
        ValueError: If every system of a task failed.
    """
    results, rows, reasons = {}, [], {}

    def show(task, of_task):
        of_task.given = config
        parts = sections[task](of_task)
        report.show(of_task, parts)
        for section in parts:
            print(f"{section.title}\n")
            for part in section.parts:
                if not isinstance(part, page.Figure):
                    text = part if isinstance(part, str) else part.to_text()
                    print(text, flush=True)

    with folder_lib.Folder(config.output_dir, experiment, config, {}) as folder:
        for task, made in benches.items():
            results[task] = made.run(
                lambda of_task, task=task: show(task, of_task)
            )
            rows += results[task].rows.to_dict("records")
            reasons[task] = results[task].reasons
            folder.write_results(rows, extra={"reasons": reasons})
    return results


def figure(name, caption, draw):
    """Returns a list of a `page.Figure`, empty if none can be drawn.

    Args:
        name: Name of its file, without the ending.
        caption: Text below it.
        draw: Function that returns a `matplotlib.figure.Figure` or `None`.
    """
    drawn = draw() if figures.can_plot() else None
    return [] if drawn is None else [page.Figure(name, caption, drawn)]
