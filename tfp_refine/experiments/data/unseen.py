"""Inputs that are not of a data set, which systems should notice."""

import numpy as np

TURNED, SHUFFLED = "turned", "shuffled"


def load(config, x_test, turned=None, load_other=None):
    """Loads the inputs of --unseen.

    Args:
        config: `fields.Bench`.
        x_test: Test inputs, `[N, ...]`, which are "shuffled".
        turned: Function that returns those that are "turned", or `None` if
            that has no meaning.
        load_other: Function of the name of a data set that returns inputs, or
            `None` if no other set has such inputs.

    Returns:
        unseen: Dict from name to inputs, `[N, ...]`.

    Raises:
        ValueError: If a name is invalid.
    """
    made = {} if turned is None else {TURNED: turned}
    made[SHUFFLED] = lambda: shuffled(x_test, config.seed)
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


def shuffled(x, seed):
    """Takes each number of an example from another example."""
    rng = np.random.default_rng([seed, 5])
    columns = x.reshape(len(x), -1)
    return rng.permuted(columns, axis=0).reshape(x.shape)
