"""Runs the uncertainty experiment."""

import dataclasses

# The cubic is known on [-4, 4], and shown to where the paper's figure ends.
_POINTS, _REACH, _END, _NOISE = 20, 4.0, 6.0, 3.0
# More draws, which cost nothing there: bands are smoother.
_DRAWS_FACTOR = 10
# Draws of a prediction of random labels, and points of the curve.
_LABEL_DRAWS, _LABEL_POINTS = 20, 40
# Fields of these tasks alone.
_OF_LABELS = (
    "random_label_examples",
    "random_label_log_var_init",
    "random_label_steps",
)
_OF_CUBIC = ("cubic_steps", "cubic_units")
_OF_IMAGES = ("classes", "unseen")


def run(config):
    """Runs missing parts, and reports each task.

    Args:
        config: `Config`.

    Returns:
        results: Dict from "images" (the tasks unseen and attack),
            "random_labels" and "cubic" to `bench.Results`.

    Raises:
        ValueError: If fields do not fit the data, or each other.
    """
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.uncertainty import tables

    known = {
        "images": tasks.of_bench(_images, tables.images),
        "random_labels": tasks.of_bench(_random_labels, tables.random_labels),
        "cubic": tasks.of_bench(_cubic, tables.cubic),
    }
    names = [
        "images" if task in ("unseen", "attack") else task
        for task in config.tasks
    ]
    return tasks.run("uncertainty", config, {n: known[n] for n in names})


def _images(config):
    from tfp_refine import datasets
    from tfp_refine.experiments import bench
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.data import load
    from tfp_refine.experiments.measures import attack
    from tfp_refine.experiments.measures import fits
    from tfp_refine.experiments.measures import predictions

    changes = {}
    is_default = config.unseen is None and not config.classes
    if is_default and load.kind_of(config) == "images":
        raw = datasets.load_images(
            config.dataset, config.data_dir, config.download
        )
        changes["classes"] = tuple(range(raw.num_classes // 2))
    measures = [predictions.TEST, fits.BOUND, fits.COSTS]
    if "unseen" in config.tasks:
        measures.append(predictions.UNSEEN)
    if "attack" in config.tasks:
        measures.append(attack.ATTACK)
    made = bench.Bench(
        "uncertainty",
        tasks.configure(config, "images", (*_OF_LABELS, *_OF_CUBIC), **changes),
        measures,
        fits.observe,
        kinds=("images",),
    )
    if "attack" in config.tasks and made.data.pixels is None:
        raise ValueError(
            "--tasks=attack needs a --dataset of uint8 pixels, whose range is "
            f"known. Received: --dataset={config.dataset}"
        )
    return made


def _random_labels(config):
    from tfp_refine.experiments import bench
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.data import load
    from tfp_refine.experiments.measures import fits
    from tfp_refine.experiments.measures import labels
    from tfp_refine.experiments.measures import predictions

    def load_data(changed, number=0):
        own = dataclasses.replace(
            changed, dataset=config.dataset, kind=config.kind
        )
        return labels.randomize(
            load.load(own), config.random_label_examples, [own.seed, 1, number]
        )

    return bench.Bench(
        "uncertainty",
        tasks.configure(
            config,
            "random_labels",
            (*_OF_CUBIC, *_OF_IMAGES),
            dataset=f"{config.dataset}, random labels",
            kind="images",
            train_steps=config.random_label_steps,
            epochs=None,
            validation_fraction=0.0,
            early_stopping_patience=None,
            segments=min(_LABEL_POINTS, config.random_label_steps),
            log_var_init=config.random_label_log_var_init,
            num_samples=_LABEL_DRAWS,
            test_curve=False,
        ),
        (predictions.TEST, labels.MEMORY, fits.BOUND, fits.COSTS),
        labels.observe,
        load_data=load_data,
    )


def _cubic(config):
    from tfp_refine.experiments import tasks
    from tfp_refine.experiments.data import functions

    (scale,) = functions.scale_of(_cube, _REACH, _NOISE)
    return tasks.on_function(
        "uncertainty",
        config,
        "cubic",
        _cube,
        _POINTS,
        2,
        own=_OF_LABELS,
        reach=_REACH,
        noise=_NOISE,
        end=_END,
        hidden=(config.cubic_units,),
        train_steps=config.cubic_steps,
        batch_size=_POINTS,
        likelihood="homoscedastic",
        noise_scale=float(_NOISE / scale),
        learn_noise=False,
        max_std=None,  # far away nothing should bound it
        num_samples=_DRAWS_FACTOR * config.num_samples,
    )


def _cube(x):
    return x**3
