"""Figures of the README and of the site.

  python docs/figures.py [--names=bands,steps] [--folder=docs/images]

`bands` takes about two minutes on one core, `steps` about one. Results are
fixed by seeds.
"""

import argparse
import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import matplotlib
import numpy as np
from matplotlib import pyplot

import tfp_refine as tfr
from tfp_refine.experiments.four_modes import target
from tfp_refine.plotting import style

FOLDER = pathlib.Path(__file__).resolve().parent / "images"
NOISE = 0.1  # Standard deviation of the observations.
_NUM_DRAWS = 2000


def observations():
    """Returns 40 noisy values of a curve, with a gap in the middle."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, -0.35, 20), rng.uniform(0.3, 1, 20)])
    y = np.sin(3 * x) + 0.3 * np.cos(9 * x) + NOISE * rng.normal(size=x.shape)
    return 3 * x[:, None].astype("float32"), y[:, None].astype("float32")


def trained(model, x, y, steps):
    """Trains a model on all observations in each step, and returns it."""
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, steps)
    model.compile(
        keras.optimizers.Adam(schedule),
        tfr.losses.GaussianNLL(scale=NOISE),
        jit_compile=False,
        steps_per_execution=100,
    )
    batches = tfr.datasets.training_batches(x, y, len(x), seed=1)
    model.fit(batches, steps_per_epoch=steps, shuffle=False, verbose=0)
    return model


def bands():
    """Draws a network, its mean-field posterior and the refined one."""
    keras.utils.set_random_seed(1)
    x, y = observations()
    grid = np.linspace(-4.5, 4.5, 181, dtype="float32")[:, None]
    network = keras.Sequential(
        [
            keras.Input((1,)),
            keras.layers.Dense(50, "tanh"),
            keras.layers.Dense(50, "tanh"),
            keras.layers.Dense(1),
        ]
    )
    trained(network, x, y, steps=2000)
    model = tfr.models.MLP((1,), hidden=(50, 50), activation="tanh", seed=1)
    tfr.layers.set_num_train_examples(model, len(x))
    trained(model, x, y, steps=6000)
    refined = tfr.refine(
        model,
        x,
        y,
        num_members=20,
        steps=300,
        batch_size=len(x),
        num_eval_samples=100,
        seed=1,
        verbose=0,
    )
    outputs = {
        "a trained network": network.predict(grid, verbose=0)[None],
        f"mean-field VI, ELBO {refined.elbo_init.mean():.0f} nats": tfr.predict(
            model, grid, num_samples=_NUM_DRAWS, seed=1
        ),
        f"refined, ELBO {refined.elbo_final.mean():.0f} nats": refined.predict(
            grid, num_samples=_NUM_DRAWS, seed=1
        ),
    }
    figure, panels = pyplot.subplots(
        *(1, len(outputs)), figsize=(8.4, 2.5), layout="constrained"
    )
    for axes, (name, draws) in zip(panels, outputs.items(), strict=True):
        low, mean, high = (
            np.mean(draws, axis=0) + width * np.std(draws, axis=0)
            for width in (-2, 0, 2)
        )
        axes.fill_between(
            *(grid[:, 0], low[:, 0], high[:, 0]),
            color="#9ecae1",
            linewidth=0,
            label="± 2 standard deviations",
        )
        axes.plot(grid, mean, color=style.COLORS[0], label="mean")
        axes.plot(x, y, "k.", ms=4, label="data")
        axes.set(title=name, xlim=(-4.5, 4.5), ylim=(-2.3, 1.9))
        axes.set(xticks=[], yticks=[])
    panels[0].legend(loc="lower left")
    return figure


def steps():
    """Draws how a posterior with four modes is refined."""
    refined = tfr.refine(
        target.mean_field_model(),
        *target.data(),
        num_members=200,
        variance_ratios=(0.8,),
        steps=400,
        learning_rate=0.1,
        learning_rate_decay="linear",
        num_eval_samples=1000,
        seed=0,
        verbose=0,
    )
    loc, scale = np.ravel(refined.loc), np.ravel(refined.scale)
    exact, grid = target.posterior(), target.GRID
    mean_field = target.mixture([target.BEST_LOC], [target.BEST_SCALE])
    mixture = target.mixture(loc, scale)
    curves = {
        "1. fit one Gaussian": [mean_field],
        "2. refine it around random values": [
            target.mixture([loc[i]], [scale[i]]) / 3 for i in range(8)
        ],
        "3. average the members": [mixture],
    }
    notes = [
        f"ELBO {target.bound(mean_field):.2f} nats",
        "8 of 200 members,\na third of their height",
        f"ELBO {target.bound(mixture):.2f} nats\n"
        f"log evidence {target.log_evidence():.2f}",
    ]
    figure, panels = pyplot.subplots(
        *(1, 3), figsize=(8.4, 2.5), layout="constrained"
    )
    for axes, (name, lines), note in zip(
        panels, curves.items(), notes, strict=True
    ):
        axes.fill_between(grid, exact, color="0.82", label="exact posterior")
        for line in lines:
            axes.plot(grid, line, color=style.COLORS[0])
        axes.set(title=name, xlim=(-3, 3), ylim=(0, 1.45 * exact.max()))
        axes.set(yticks=[], xlabel="value of the weight")
        axes.text(0.03, 0.97, note, transform=axes.transAxes, va="top")
    panels[0].legend(loc="upper right", bbox_to_anchor=(1.0, 0.88))
    return figure


FIGURES = {"bands": bands, "steps": steps}


def main():
    """Draws the figures that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(FIGURES))
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER)
    arguments = parser.parse_args()
    matplotlib.use("Agg")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names.split(","):
        figure = style.styled(FIGURES[name])()
        style.save(
            figure, arguments.folder / f"{name}.png", dpi=160, close=True
        )


if __name__ == "__main__":
    main()
