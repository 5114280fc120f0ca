"""What draws say of one image while it turns."""

from typing import Any

import matplotlib.figure
import numpy as np
from matplotlib import figure as figure_lib

_CELL = 0.72  # Inches, the width of an image.
_SPREAD = 0.62  # Of an image's width, what the dots of an angle fill.


def rotated_digit(
    images: Any,
    angles: Any,
    predictors: Any,
    class_names: Any = None,
    min_prob: Any = 0.1,
) -> matplotlib.figure.Figure:
    """Plots class probabilities of draws at each angle of a rotated image.

    In the spirit of Louizos and Welling (2017), Fig. 1. The turned images
    stand above their angles. Each dot below is the probability that one draw
    of the weights gives to one class; a line joins their means. Dots together:
    draws agree. Dots apart: the model knows that it does not know.

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

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there are no predictors, or shapes do not fit.
    """
    images = _checked_images(images, angles)
    draws = _checked_draws(predictors, len(angles), class_names)
    classes = _classes_to_show(draws, min_prob)
    num_panels = len(draws)
    width = max(_CELL * len(angles), 4.0)
    # As high as an image is wide, so that the row of images is not narrowed:
    # each image has to stand above its angle.
    heights = [1.15 * width / len(angles)] + [1.9] * num_panels
    figure = figure_lib.Figure(
        figsize=(width + 1.5, sum(heights) + 0.9), layout="constrained"
    )
    top, *panels = figure.subplots(
        num_panels + 1, sharex=True, height_ratios=heights
    )
    _draw_images(top, images)
    for axes, (name, probs) in zip(panels, draws.items(), strict=True):
        _draw_probabilities(axes, probs, classes, class_names)
        axes.set_title(name, loc="left", fontsize="medium")
        axes.set_ylabel("probability")
    panels[-1].set_xticks(range(len(angles)), [f"{a:g}°" for a in angles])
    panels[-1].set_xlabel("rotation (dots: single draws, lines: their means)")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        title="class",
        loc="outside right center",
    )
    return figure


def _draw_images(axes, images):
    cmap = "gray_r" if images.ndim == 3 else None
    for position, image in enumerate(images):
        extent = (position - 0.48, position + 0.48, 0.0, 0.96)
        axes.imshow(image, extent=extent, cmap=cmap, vmin=0, vmax=images.max())
    axes.set_xlim(-0.6, len(images) - 0.4)
    axes.set_ylim(0.0, 0.96)
    axes.set_anchor("S")
    axes.axis("off")


def _draw_probabilities(axes, probs, classes, class_names):
    num_draws, num_angles, _ = probs.shape
    positions = np.arange(num_angles)
    lane = _SPREAD / len(classes)
    # Draws side by side within the lane of their class.
    within = (np.arange(num_draws) + 0.5) / num_draws - 0.5
    for index, label in enumerate(classes):
        # The color of a class is the same in all figures.
        color = f"C{label % 10}"
        center = positions + (index + 0.5) * lane - _SPREAD / 2
        axes.plot(
            (center + 0.8 * lane * within[:, None]).ravel(),
            probs[:, :, label].ravel(),
            linestyle="",
            marker="o",
            markersize=3.0,
            markeredgewidth=0,
            alpha=0.45,
            color=color,
        )
        axes.plot(
            center,
            probs[:, :, label].mean(axis=0),
            color=color,
            linewidth=1.4,
            label=str(label if class_names is None else class_names[label]),
        )
    for edge in positions[1:] - 0.5:
        axes.axvline(edge, color="0.92", linewidth=0.8, zorder=0)
    axes.set_ylim(-0.03, 1.03)


def _classes_to_show(draws, min_prob):
    means = np.stack([probs.mean(axis=0) for probs in draws.values()])
    shown = np.max(means, axis=(0, 1)) >= min_prob  # [C]
    shown[np.argmax(means, axis=-1)] = True
    return np.flatnonzero(shown)


def _checked_images(images, angles):
    images = np.asarray(images)
    if images.ndim == 4 and images.shape[-1] == 1:
        images = images[..., 0]
    is_color = images.ndim == 4 and images.shape[-1] == 3
    if not (images.ndim == 3 or is_color) or len(images) != len(angles):
        raise ValueError(
            "`images` must have shape [A, H, W], [A, H, W, 1] or [A, H, W, 3] "
            f"with A={len(angles)}, as `angles`. "
            f"Received: shape {images.shape}"
        )
    return images


def _checked_draws(predictors, num_angles, class_names):
    draws = {}
    for name, value in predictors.items():
        probs = np.asarray(value)
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
