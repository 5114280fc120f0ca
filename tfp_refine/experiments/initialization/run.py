"""Runs the comparison of initializers."""

import math

# The function of the toy is known on [-10, 10], and shown beyond.
_REACH, _END, _NOISE = 10.0, 14.0, math.exp(-2.0)
# Fields of the toy alone.
_OF_TOY = ("toy_points", "toy_steps")


def run(config):
    """Runs missing parts, and reports each task.

    Args:
        config: `Config`.

    Returns:
        results: Dict from the name of a task to `bench.Results`.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.initialization import tables

    known = {
        "curves": tasks.of_bench(_curves, tables.curves),
        "toy": tasks.of_bench(_toy, tables.toy),
    }
    chosen = {task: known[task] for task in config.tasks}
    return tasks.run("initialization", config, chosen)


def _curves(config):
    from tfp_refine.experiments import standard
    from tfp_refine.experiments import tasks

    own = tasks.configure(config, "curves", _OF_TOY, test_curve=True)
    return standard.make("initialization", own, _measure("start", start))


def _toy(config):
    from tfp_refine.experiments import tasks

    return tasks.on_function(
        "initialization",
        config,
        "toy",
        function,
        config.toy_points,
        3,
        measures=[_measure("before", bands_before)],
        reach=_REACH,
        noise=_NOISE,
        end=_END,
        hidden=(20, 20, 20),
        activation="tanh",
        train_steps=config.toy_steps,
        batch_size=min(config.batch_size or 64, config.toy_points),
        seeds=1,
    )


def function(x):
    """Computes the function of Rossi et al., 2019."""
    import numpy as np

    return np.sin(x) + np.sin(x / 2) + np.sin(x / 3) - np.sin(x / 4)


def start(subject):
    """Measures a network before its training.

    Args:
        subject: `bench.Subject`.

    Returns:
        metrics: Dict of the `"initialization_seconds"` and of test metrics by
            `curve/0/METRIC`.
        details: Empty dict.
    """
    from tfp_refine.experiments.measures import fits
    from tfp_refine.experiments.systems import variational

    model, seconds = variational.initialized(subject.fit)
    found = fits.observe(subject.fit, model, {"step": 0})
    return {"initialization_seconds": seconds} | {
        f"curve/0/{name.removeprefix('test_')}": value
        for name, value in found.items()
        if name.startswith("test_")
    }, {}


def bands_before(subject):
    """Measures predictions of the toy's function before training.

    Args:
        subject: `bench.Subject`.

    Returns:
        metrics: Dict of the `"rmse_before"`.
        details: Dict of the `"bands_before"`.
    """
    from tfp_refine import posteriors
    from tfp_refine.experiments.measures import bands
    from tfp_refine.experiments.systems import variational

    model, _ = variational.initialized(subject.fit)
    draws = posteriors.predict(
        model,
        subject.data.grid_inputs,
        subject.config.num_samples if subject.fit.network.is_random else 1,
        seed=subject.fit.seed("predictions"),
    )
    band, rmse = bands.predict(draws, subject.data)
    details = {name: values.tolist() for name, values in band.items()}
    return {"rmse_before": rmse}, {"bands_before": details}


def _measure(name, compute):
    """Returns a measure of networks, not of systems that start from them."""
    from tfp_refine.experiments import bench
    from tfp_refine.experiments.systems import registry

    return bench.Measure(
        name,
        compute,
        ("num_samples",),
        lambda subject: registry.is_network(subject.expression),
    )
