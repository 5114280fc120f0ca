"""Predictions of a function of one variable, and beyond its data."""

from typing import Any

import numpy as np

from tfp_refine import losses
from tfp_refine.experiments import bench
from tfp_refine.experiments.data import functions


def measure(subject: bench.Subject) -> tuple[dict, dict]:
    """Measures predictions of a function, within its data and at the ends.

    `"rmse_at_data"` is the distance of the mean from the function within the
    data; `"scale_at_data"` and `"scale_far"`, at both ends, are means of the
    predictive standard deviation. Details are for `plotting.predictive_bands`.
    """
    data = subject.data
    band, rmse = predict(subject.draws(data.grid_inputs), data)
    inside = np.abs(data.grid) <= data.reach
    return {
        "rmse_at_data": rmse,
        "scale_at_data": float(band["scale"][inside].mean()),
        "scale_far": float(band["scale"][[0, -1]].mean()),
    }, {"bands": {name: values.tolist() for name, values in band.items()}}


def predict(
    draws: np.ndarray, data: functions.FunctionData
) -> tuple[dict[str, np.ndarray], float]:
    """Summarizes means and raw scales on the grid, `[S, G, 2]`.

    Returns the `"mean"` and the `"scale"`, with that of the noise, each `[G]`,
    in original units, and `"rmse_at_data"` of `measure`.
    """
    loc, noise = (
        np.asarray(values, np.float64)[..., 0]
        for values in losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
    )
    mean = data.scaler.inverse(loc.mean(axis=0)[:, np.newaxis])[:, 0]
    variance = loc.var(axis=0) + np.square(noise).mean(axis=0)
    scale = data.scaler.scale[0] * np.sqrt(variance)
    inside = np.abs(data.grid) <= data.reach
    error = (mean - data.truth)[inside]
    return {"mean": mean, "scale": scale}, float(np.sqrt(np.mean(error**2)))


def figure(
    results: bench.Results, data: functions.FunctionData, detail: str = "bands"
) -> Any:
    """Draws predictions of the first repetition; `None` if there are none."""
    from tfp_refine import plotting

    bands = {
        results.titles[system]: of_seed[0][detail]
        for system, of_seed in results.details.items()
        if detail in of_seed.get(0, {})
    }
    if not bands:
        return None
    return plotting.predictive_bands(
        data.grid, bands, data=(data.x, data.y), truth=data.truth
    )


BANDS = bench.Measure("bands", measure, ("num_samples",))
