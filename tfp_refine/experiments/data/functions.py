"""Noisy values of functions of one variable."""

import dataclasses
from collections.abc import Callable

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments.data import dataset

_NUM_TEST, _NUM_GRID = 200, 281


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionData(dataset.Dataset):
    """A regression on a function of one variable.

    Attributes:
        x: Training inputs in original units, `[N]`.
        y: Their targets, `[N]`.
        reach: Inputs are in [-reach, reach].
        grid: Inputs in original units that go beyond, `[G]`.
        grid_inputs: The same as inputs of a system, `[G, 1]`.
        truth: Values of the function there, `[G]`.
    """

    x: np.ndarray
    y: np.ndarray
    reach: float
    grid: np.ndarray
    grid_inputs: np.ndarray
    truth: np.ndarray


def load(
    function: Callable[[np.ndarray], np.ndarray],
    num_points: int,
    seed: int | list[int],
    *,
    reach: float,
    noise: float,
    end: float,
) -> FunctionData:
    """Draws `y = f(x) + e`, `e ~ N(0, noise**2)`, x in [-reach, reach].

    Inputs and targets are scaled by their true moments, so that the noise is
    the same part of a target in each draw of the data. The grid ends at `end`.
    """
    rng = np.random.default_rng(seed)
    inputs = datasets.Standardizer(np.zeros(1), np.full(1, reach / 3**0.5))
    values = function(np.linspace(-reach, reach, 10001))
    targets = datasets.Standardizer(
        np.atleast_1d(values.mean()), scale_of(function, reach, noise)
    )

    def draw(size):
        x = rng.uniform(-reach, reach, size)
        return x, function(x) + noise * rng.normal(size=size)

    def scaled(*pair):
        return tuple(
            scaler.transform(v[:, np.newaxis]).astype(np.float32)
            for scaler, v in zip((inputs, targets), pair, strict=True)
        )

    x, y = draw(num_points)
    train, test = scaled(x, y), scaled(*draw(_NUM_TEST))
    grid = np.linspace(-end, end, _NUM_GRID)
    return FunctionData(
        train=train,
        validation=tuple(part[:0] for part in train),
        test=test,
        scaler=targets,
        x=x,
        y=y,
        reach=reach,
        grid=grid,
        grid_inputs=scaled(grid, grid)[0],
        truth=function(grid),
    )


def scale_of(function, reach, noise):
    """Returns the standard deviation of targets as `load` draws them, `[1]`."""
    values = function(np.linspace(-reach, reach, 10001))
    return np.atleast_1d(np.hypot(values.std(), noise))
