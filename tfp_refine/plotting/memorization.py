"""Accuracy on labels that were drawn at random, during training."""

from tfp_refine.plotting import grid


def memorization(curves, chance):
    """Plots accuracies on random labels: on training and on test images.

    Nothing is to be learned: a training accuracy above chance is memory.

    Args:
        curves: Dict from name of a predictor to a dict with `"step"`,
            `"train_accuracy"` and `"test_accuracy"`, each `[T]`.
        chance: Accuracy of a guess.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    References:
        - [Zhang et al., 2017](https://arxiv.org/abs/1611.03530)
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961),
          appendix A
    """
    if not curves:
        raise ValueError("`curves` must not be empty. Received: {}")
    figure, panels = grid.row_of_panels(2, sharey=True)
    for axes, key, title in zip(
        panels,
        ("train_accuracy", "test_accuracy"),
        ("training set", "test set"),
        strict=True,
    ):
        for name, curve in curves.items():
            axes.plot(curve["step"], curve[key], label=name)
        axes.axhline(chance, color="0.5", linestyle=":", label="chance")
        axes.set_title(title, loc="left", fontsize="medium")
        axes.set_xlabel("training step")
        axes.set_ylim(0.0, 1.03)
    panels[0].set_ylabel("accuracy on random labels")
    panels[0].legend()
    return figure
