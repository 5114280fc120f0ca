"""Predictions of draws, with their uncertainty."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tfp_refine import _validation
from tfp_refine.plotting import style

_CELL = 0.72  # Inches, the width of an image.
_SPREAD = 0.62  # Fraction of an image's width that the dots of an angle fill.


@style.styled
def predictive_bands(
    x: ArrayLike,
    predictors: style.Curves,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    truth: ArrayLike | None = None,
    num_scales: int = 3,
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots means with bands of some standard deviations, a panel each.

    As Louizos and Welling (2017), Fig. 6.

    Args:
        x: Points, increasing, `[G]`.
        predictors: Dict from name of a predictor to a dict with `"mean"` and
            `"scale"` (a standard deviation), each `[G]`.
        data: `(x, y)` of the training examples, each `[N]`, or `None`.
        truth: The true function at `x`, `[G]`, or `None`.
        num_scales: Half width of the band in standard deviations. Defaults to
            `3`; single standard deviations are drawn darker.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each predictor, `[predictors]`.

    Raises:
        ValueError: If there is no predictor.

    Example:

    ```python
    from tfp_refine import plotting

    x = np.linspace(-4.0, 4.0, 100)
    band = {"mean": x**3, "scale": 3.0 + np.abs(x)}
    axes = plotting.predictive_bands(x, {"VI": band}, truth=x**3)
    ```
    """
    keys = ("mean", "scale")
    style.check("predictors", predictors, "predictors", keys=keys)
    x = _validation.array("x", x, None)
    if data is not None:
        data = _validation.array("data", data, 2, None)
    if truth is not None:
        truth = _validation.array("truth", truth, len(x))
    _validation.positive_integer("num_scales", num_scales)
    blue, orange, *_ = style.COLORS
    fill: dict[str, Any] = {"color": blue, "alpha": 0.18, "linewidth": 0}
    panels = style.panels(ax, len(predictors), margin=1.0, sharey=True)
    style.label(panels, "input x", "output y")
    for axes, (name, predictor) in zip(panels, predictors.items(), strict=True):
        mean, scale = (np.asarray(predictor[k]) for k in keys)
        for width in range(num_scales, 0, -1):
            reach = width * scale
            axes.fill_between(x, mean - reach, mean + reach, **fill)
        axes.collections[-num_scales].set_label(
            f"mean ± 1 to {num_scales}\nstandard deviations"
        )
        axes.plot(x, mean, color=blue, label="mean")
        if truth is not None:
            axes.plot(x, truth, "--", color=orange, label="truth")
            # The bands of some predictors would leave nothing else to see.
            shown = np.append(truth, () if data is None else data[1])
            margin = 0.1 * np.ptp(shown) or 1.0
            axes.set_ylim(shown.min() - margin, shown.max() + margin)
        if data is not None:
            # Smaller dots, where there are so many that they would cover bands.
            size = np.clip(60.0 / np.sqrt(data.shape[1]), 2.0, 4.0)
            axes.plot(*data, "k.", ms=size, label="data")
        axes.set_title(name)
        axes.set_xlim(x[0], x[-1])
    style.legend_beside(panels)
    return panels


@style.styled
def prediction_intervals(
    predictors: style.Curves, *, ax: style.Ax = None
) -> np.ndarray:
    """Plots targets against predictions with intervals, a panel each.

    Targets outside of their intervals are marked, and counted in the title.

    Args:
        predictors: Dict from name of a predictor to a dict with `"target"`,
            `"mean"`, and the ends of the interval, `"low"` and `"high"`, each
            `[N]`.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of each predictor, `[predictors]`.

    Raises:
        ValueError: If there is no predictor.

    Example:

    ```python
    from tfp_refine import plotting

    rng = np.random.default_rng(0)
    mean, target = rng.normal(size=50), rng.normal(size=50)
    low, high = mean - 2.0, mean + 2.0
    curves = {"target": target, "mean": mean, "low": low, "high": high}
    axes = plotting.prediction_intervals({"VI": curves})
    ```
    """
    keys = ("target", "mean", "low", "high")
    style.check("predictors", predictors, "predictors", keys=keys)
    blue, orange, *_ = style.COLORS
    panels = style.panels(
        ax, len(predictors), margin=1.3, sharex=True, sharey=True
    )
    style.label(
        panels, "prediction (units of the target)", "target (its units)"
    )
    for axes, (name, predictor) in zip(panels, predictors.items(), strict=True):
        target, mean, low, high = (
            np.asarray(predictor[key], np.float64) for key in keys
        )
        axes.axline((target[0], target[0]), slope=1.0, **style.REFERENCE)
        outside = (target < low) | (target > high)
        for chosen, look in (
            (~outside, {"color": blue, "label": "in its interval"}),
            (outside, {"color": orange, "label": "outside", "marker": "D"}),
        ):
            axes.hlines(
                target[chosen],
                low[chosen],
                high[chosen],
                color=look["color"],
                alpha=0.35,
                linewidth=1.0,
            )
            axes.plot(
                mean[chosen],
                target[chosen],
                **{"linestyle": "", "marker": "o", "markersize": 3.0} | look,
            )
        axes.set_title(f"{name}\n{outside.sum()} of {len(target)} outside")
    style.legend_beside(panels)
    return panels


@style.styled
def rotated_digit(
    images: ArrayLike,
    angles: Sequence[float] | np.ndarray,
    predictors: Mapping[str, ArrayLike],
    class_names: Sequence[str] | None = None,
    min_prob: float = 0.1,
    *,
    ax: style.Ax = None,
) -> np.ndarray:
    """Plots class probabilities of draws at each angle of a rotated image.

    In the spirit of Louizos and Welling (2017), Fig. 1. The turned images
    stand above their angles. Each dot below is the probability that one draw
    of the weights gives to one class; a line joins their means. If the dots are
    close together, the draws agree; if they are apart, the model is uncertain.

    Args:
        images: The image at each angle, `[A, H, W]`, `[A, H, W, 1]` or
            `[A, H, W, 3]`; gray is drawn with its greatest value in black.
        angles: Degrees, `[A]`.
        predictors: Dict from name of a predictor to the class probabilities
            of its draws, `[S, A, C]`, or without draws, `[A, C]`. Each has a
            panel.
        class_names: `C` names; numbers by default.
        min_prob: Classes are shown whose mean probability reaches this at some
            angle in some panel, and always the most probable ones.
        ax: Axes to draw on. Defaults to a new figure's.

    Returns:
        axes: `matplotlib.axes.Axes` of the images and then of each predictor,
            `[1 + predictors]`.

    Raises:
        ValueError: If there are no predictors, or shapes do not fit.

    Example:

    ```python
    from tfp_refine import plotting

    angles = [0.0, 30.0, 60.0]
    digit = tfp_refine.datasets.load_images("digits").x_test[:1]
    images = [tfp_refine.datasets.rotate_images(digit, a)[0] for a in angles]
    probs = np.random.default_rng(0).dirichlet(np.ones(10), size=(20, 3))
    axes = plotting.rotated_digit(images, angles, {"VI": probs})
    ```
    """
    angles = _validation.array("angles", angles, None)
    images = _checked_images(images, angles)
    _validation.instance(
        "class_names",
        class_names,
        Sequence | None,
        "a sequence of names or None",
    )
    _validation.finite("min_prob", min_prob)
    _validation.instance("predictors", predictors, Mapping, "a dict")
    draws = _checked_draws(predictors, len(angles), class_names)
    classes = _classes_to_show(draws, min_prob)
    width = min(max(_CELL * len(angles), 4.0), style.PAGE - 1.5)
    # As high as an image is wide, so that the row of images is not narrowed:
    # each image has to stand above its angle.
    heights = [1.15 * width / len(angles)] + [1.9] * len(draws)
    panels = style.panels(
        ax,
        len(draws) + 1,
        1,
        width=width + 1.5,
        height=(sum(heights) + 0.9) / len(heights),
        sharex=True,
        height_ratios=heights,
    )
    _draw_images(panels[0], images)
    for axes, (name, probs) in zip(panels[1:], draws.items(), strict=True):
        _draw_probabilities(axes, probs, classes, class_names)
        axes.set_xticks(range(len(angles)), [f"{a:g}°" for a in angles])
        axes.set_title(name)
    x = "rotation (degrees); dots: single draws, lines: their means"
    style.label(panels[1:], x, "class probability")
    style.legend_beside(panels[1], title="class")
    return panels


def _draw_images(axes, images):
    """Draws images side by side, at the positions of their angles."""
    cmap = "gray_r" if images.ndim == 3 else None
    for position, image in enumerate(images):
        extent = (position - 0.48, position + 0.48, 0.0, 0.96)
        axes.imshow(image, extent=extent, cmap=cmap, vmin=0, vmax=images.max())
    axes.set_xlim(-0.6, len(images) - 0.4)
    axes.set_ylim(0.0, 0.96)
    axes.set_anchor("S")
    axes.axis("off")


def _draw_probabilities(axes, probs, classes, class_names):
    """Draws a dot for each draw, angle and class, and lines of means."""
    num_draws, num_angles, _ = probs.shape
    positions = np.arange(num_angles)
    lane = _SPREAD / len(classes)
    # Draws side by side within the lane of their class.
    within = (np.arange(num_draws) + 0.5) / num_draws - 0.5
    for index, label in enumerate(classes):
        look = style.series(index)
        center = positions + (index + 0.5) * lane - _SPREAD / 2
        axes.plot(
            (center + 0.8 * lane * within[:, None]).ravel(),
            probs[:, :, label].ravel(),
            look["marker"],
            **{"ms": 3.0, "mew": 0, "alpha": 0.45, "color": look["color"]},
        )
        name = str(label if class_names is None else class_names[label])
        axes.plot(center, probs[:, :, label].mean(axis=0), **look, label=name)
    for edge in positions[1:] - 0.5:
        axes.axvline(edge, color="0.92", linewidth=0.8, zorder=0)
    axes.set_ylim(-0.03, 1.03)


def _classes_to_show(draws, min_prob):
    """Returns the classes that are probable somewhere."""
    means = np.stack([probs.mean(axis=0) for probs in draws.values()])
    shown = np.max(means, axis=(0, 1)) >= min_prob  # [C]
    shown[np.argmax(means, axis=-1)] = True
    return np.flatnonzero(shown)


def _checked_images(images, angles):
    """Returns images `[A, H, W]` or `[A, H, W, 3]`."""
    _validation.array("images", images)
    images = np.asarray(images)
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    is_color = images.ndim == 4 and images.shape[-1] == 3
    if (
        not (images.ndim == 3 or is_color)
        or len(images) != len(angles)
        or not images.size
    ):
        raise ValueError(
            "`images` must have shape [A, H, W], [A, H, W, 1] or [A, H, W, 3] "
            f"with A={len(angles)}, as `angles`. "
            f"Received: shape {images.shape}"
        )
    return images


def _checked_draws(predictors, num_angles, class_names):
    """Returns the class probabilities of draws, `[S, A, C]` each."""
    draws = {}
    for name, value in predictors.items():
        probs = _validation.array(f"predictors[{name!r}]", value)
        draws[name] = probs[None] if probs.ndim == 2 else probs
    shapes = {name: probs.shape for name, probs in draws.items()}
    num_classes = {shape[-1] for shape in shapes.values() if shape}
    if class_names is not None:
        num_classes.add(len(class_names))
    if (
        not draws
        or len(num_classes) != 1
        or any(len(s) != 3 or s[1] != num_angles for s in shapes.values())
    ):
        raise ValueError(
            "`predictors` must hold arrays of shape [S, A, C] or [A, C] with "
            f"A={num_angles}, as `angles`, and one C, as `class_names`. "
            f"Received: shapes {shapes}"
        )
    return draws
