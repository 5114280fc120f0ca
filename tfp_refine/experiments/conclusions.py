"""Sentences on the gain of each refinement over its start."""

import dataclasses
import typing
from collections.abc import Iterator

from tfp_refine.experiments import bench
from tfp_refine.experiments.systems import registry

if typing.TYPE_CHECKING:
    import pandas as pd

_REFINEMENTS = ("refined", "refined_ensemble", "flows")
# Standard errors from which on a mean difference is called one.
_CLEAR = 2.0


def sentences(results: bench.Results) -> list[str]:
    """Compares refinements with their starts, by paired differences in NLL.

    Where there is a start that was trained for as long, also with that. A
    difference of less than two standard errors is said to be unclear.

    Args:
        results: `bench.Results` of two seeds or more; of one there is none.

    Returns:
        sentences: List of strings, in the order of the systems.
    """
    of_nll = results.rows[results.rows["metric"] == "nll"]
    values = of_nll.pivot(index="seed", columns="system", values="value")
    found = []
    for name, other in _pairs(results):
        if name not in values or other not in values:
            continue
        difference = (values[name] - values[other]).dropna()
        if len(difference) > 1:
            titles = results.titles[name], results.titles[other]
            found.append(_sentence(*titles, difference))
    return found


def _pairs(results) -> Iterator[tuple[str, str]]:
    """Yields names of refinements and of the systems to compare them with."""
    config_class = type(results.config)
    for name in results.titles:
        expression = registry.parse(name, config_class)
        if expression.name not in _REFINEMENTS:
            continue
        start = expression.argument
        yield name, registry.short(start)
        if expression.name == "refined":
            longer = dataclasses.replace(expression, name="longer")
            yield name, registry.short(longer)


def _sentence(title: str, other: str, difference: "pd.Series") -> str:
    mean, error = difference.mean(), difference.sem()
    won = f"lower on {(difference < 0).sum()} of {len(difference)} seeds"
    if not abs(mean) >= _CLEAR * error:  # NaN too
        return (
            f"{title} and {other} do not differ clearly in test NLL: "
            f"{mean:+.4f} (standard error {error:.4f}), {won}."
        )
    word = "lower" if mean < 0 else "higher"
    return (
        f"{title} has a {word} test NLL than {other}, by {abs(mean):.4f} "
        f"(standard error {error:.4f}), {won}."
    )
