"""Inputs that are not of a data set, which systems should notice."""

from collections.abc import Callable

import numpy as np

from tfp_refine.experiments.harness import fields


def load(
    config: fields.Bench,
    x_test: np.ndarray,
    turned: Callable[[], np.ndarray] | None = None,
    load_other: Callable[[str], np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Loads the inputs of --unseen, `[N, ...]`, by their names.

    Test inputs are "shuffled"; `turned` makes the inputs of that name, and
    `load_other` those of another data set, where they have a meaning.

    Raises:
        ValueError: If a name is invalid.
    """
    made = {} if turned is None else {"turned": turned}
    made["shuffled"] = lambda: shuffled(x_test, config.seed)
    found = {}
    for name in config.unseen:
        if name in made:
            found[name] = made[name]()
        elif load_other is not None and name != config.dataset:
            found[name] = load_other(name)
        else:
            others = "" if load_other is None else ", or other data sets"
            raise ValueError(
                f"--unseen must name some of {', '.join(made)}{others}. "
                f"Received: --unseen={','.join(config.unseen)} for "
                f"--dataset={config.dataset}"
            )
    return found


def shuffled(x: np.ndarray, seed: int) -> np.ndarray:
    """Takes each number of an example from another example."""
    rng = np.random.default_rng([seed, 5])
    columns = x.reshape(len(x), -1)
    return rng.permuted(columns, axis=0).reshape(x.shape)
