"""What predictors do as inputs are perturbed more and more."""

from tfp_refine.plotting import grid


def attack_curves(curves, x_label="strength of the perturbation"):
    """Plots accuracy and mean entropy against the strength of an attack.

    A predictor that knows what it does not know becomes unsure as it becomes
    wrong.

    Args:
        curves: Dict from name of a predictor to a dict with `"epsilon"`,
            `"accuracy"` and `"entropy"` (nats), each `[E]`.
        x_label: What `"epsilon"` is.

    Returns:
        figure: `matplotlib.figure.Figure`.

    Raises:
        ValueError: If there is no curve.

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961),
          figures 4 and 5
    """
    if not curves:
        raise ValueError("`curves` must not be empty. Received: {}")
    figure, panels = grid.row_of_panels(2)
    for axes, key, label in zip(
        panels,
        ("accuracy", "entropy"),
        ("accuracy", "mean predictive entropy (nats)"),
        strict=True,
    ):
        for name, curve in curves.items():
            axes.plot(curve["epsilon"], curve[key], marker="o", label=name)
        axes.set_xlabel(x_label)
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0.0)
    panels[0].legend()
    return figure
