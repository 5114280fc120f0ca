"""Predictions of a function of one variable, and beyond its data."""

import numpy as np

from tfp_refine import losses
from tfp_refine.experiments import bench


def measure(subject):
    """Measures predictions of a function, within its data and at the ends.

    Args:
        subject: `bench.Subject` with `functions.FunctionData`.

    Returns:
        metrics: Dict of floats: `"rmse_at_data"`, the distance of the mean from
            the function within the data, and means of the predictive standard
            deviation, `"scale_at_data"` and `"scale_far"`, at both ends.
        details: Dict with the `"bands"` of `plotting.predictive_bands`.
    """
    data = subject.data
    band, rmse = predict(subject.draws(data.grid_inputs), data)
    inside = np.abs(data.grid) <= data.reach
    return {
        "rmse_at_data": rmse,
        "scale_at_data": float(band["scale"][inside].mean()),
        "scale_far": float(band["scale"][[0, -1]].mean()),
    }, {"bands": {name: values.tolist() for name, values in band.items()}}


def predict(draws, data):
    """Summarizes draws on the grid, in original units.

    Args:
        draws: Means and raw scales, `[S, G, 2]`.
        data: `functions.FunctionData`.

    Returns:
        band: Dict of the `"mean"` and the `"scale"`, a standard deviation with
            that of the noise, each `[G]`.
        rmse: Distance of the mean from the function within the data.
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


def figure(results, data, detail="bands"):
    """Draws the predictions of the first repetition.

    Args:
        results: `bench.Results`.
        data: `functions.FunctionData`.
        detail: Name of the details to draw.

    Returns:
        figure: `matplotlib.figure.Figure`, or `None` if there is nothing.
    """
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
