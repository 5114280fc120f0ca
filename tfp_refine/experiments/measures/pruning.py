"""Trained classifiers without the hidden units that they use least."""

import numpy as np

from tfp_refine import layers
from tfp_refine import metrics
from tfp_refine.experiments import bench
from tfp_refine.experiments.systems import registry

# Points of a scatter plot, and points of a curve.
_MAX_POINTS, _CURVE_POINTS = 4000, 20


def prune(subject: bench.Subject) -> tuple[dict, dict]:
    """Describes the posterior of each layer, and removes unit after unit.

    Hidden units of all layers with a posterior are removed together, the ones
    of the lowest signal-to-noise ratio first. The model is left as it was.

    Details are `"layers"` for `plotting.posterior_scatter`;
    `"prior_variances"`; `"curve"` for `plotting.pruning_curve`; `"units"`, each
    layer's KL divergences and signal-to-noise ratios; `"pruned"`, the number of
    units that it does not use; and, with a log-uniform prior, `"noise_ratios"`,
    the part of the weights that could be dropped.
    """
    model = subject.fitted.model
    variational = [
        layer
        for layer in model.layers
        if isinstance(layer, layers.VariationalLayer)
    ]
    hidden = [layer for layer in variational if layer is not model.layers[-1]]
    pruned = {layer.name: int(layer.pruned_units().sum()) for layer in hidden}
    found = {
        "layers": {layer.name: _describe(layer) for layer in variational},
        "prior_variances": {
            layer.name: _prior_variance(layer) for layer in variational
        },
        "curve": _curve(subject, hidden),
        # Where the prior says which weights are noise.
        "noise_ratios": {
            f"{layer.name}/{weight.name}": float(
                np.mean(weight.regularizer.pruned(weight.loc, weight.scale))
            )
            for layer in variational
            for weight in layer.variational_weights
            if hasattr(weight.regularizer, "pruned")
        },
        "pruned": pruned,
        "units": {
            layer.name: {
                "kl": layer.unit_kl().tolist(),
                "signal_to_noise": layer.unit_signal_to_noise().tolist(),
            }
            for layer in hidden
        },
    }
    return {"pruned_units": float(sum(pruned.values()))}, {"pruning": found}


def applies(subject: bench.Subject) -> bool:
    """Returns whether units can be removed from the model of a system.

    Their scales must be free, and their outputs must reach the next layer only.
    """
    network, config = subject.fit.network, subject.config
    return (
        config.pruning
        and registry.is_network(subject.expression)
        and (network.family, network.posterior) == ("vi", "mean_field")
        and config.model.startswith(("mlp", "lenet5"))
    )


def _describe(layer):
    """Returns means and scales, a random part of them if they are many."""
    points = {}
    for weight in layer.variational_weights:
        prefix = "" if weight.name == "kernel" else "bias_"
        size = int(np.prod(weight.loc.shape))
        shown = np.random.default_rng(0).choice(
            size, min(size, _MAX_POINTS), replace=False
        )
        for part in ("loc", "scale"):
            values = np.ravel(np.asarray(getattr(weight, part)))[shown]
            points[f"{prefix}{part}"] = values.tolist()
    for part in ("loc", "scale", "bias_loc", "bias_scale"):
        points.setdefault(part, [])
    return points


def _prior_variance(layer):
    """Returns the variance of the kernel's prior, given its mean, or `None`."""
    kernel = layer.variational_weights[0]
    scale = getattr(kernel.regularizer, "prior_scale", None)
    return None if scale is None else float(scale) ** 2


def _curve(subject, hidden):
    """Computes the test likelihood with fewer and fewer units."""
    ratios = [layer.unit_signal_to_noise() for layer in hidden]
    ends = np.cumsum([len(of_layer) for of_layer in ratios])
    rank = np.argsort(np.argsort(np.concatenate(ratios)))
    pruned = int(sum(layer.pruned_units().sum() for layer in hidden))
    points = np.linspace(0, len(rank) - 1, _CURVE_POINTS).astype(int)
    removed = np.unique([pruned, *points])
    model, (x, labels) = subject.fitted.model, subject.data.test
    before = model.get_weights()
    nll = []
    try:
        for count in removed:
            for layer, mask in zip(
                hidden, np.split(rank < count, ends[:-1]), strict=True
            ):
                layer.remove_units(mask)
            nll.append(
                metrics.negative_log_likelihood(
                    labels, subject.fitted.draws(x), from_logits=True
                )
            )
    finally:
        model.set_weights(before)
    return {"removed": removed.tolist(), "nll": nll, "pruned": pruned}


PRUNING = bench.Measure("pruning", prune, ("num_samples",), applies)
