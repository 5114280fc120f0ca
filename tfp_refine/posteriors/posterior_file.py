"""Files of posteriors, for the model that they are of."""

import json
import pathlib

import numpy as np

from tfp_refine.functional import array_file
from tfp_refine.posteriors import all_layers
from tfp_refine.posteriors import calls
from tfp_refine.posteriors import last_layer
from tfp_refine.posteriors import likelihoods

_FORMAT = 1
_DESCRIPTION = "description"
_NETWORKS = {"last": last_layer.LastLayer, "all": all_layers.AllLayers}


def write(path, posterior, kind, description, arrays):
    """Writes a posterior to a file.

    Args:
        path: File; one that is there is replaced.
        posterior: `WeightPosterior`.
        kind: Name of what is written.
        description: Dict that JSON can hold.
        arrays: Dict of arrays.

    Raises:
        ValueError: If it cannot be written.
    """
    network, likelihood = posterior.network, posterior.likelihood
    (layers,) = (n for n, c in _NETWORKS.items() if isinstance(network, c))
    about = {
        "format": _FORMAT,
        "kind": kind,
        "model": network.digest(),
        "layers": layers,
        "layer": calls.layers_with_weights(network.model).index(network.layer),
        "likelihood": likelihood.kind,
        "noise_scale": getattr(likelihood, "noise_scale", 1.0),
        "activation": posterior.activation,
        **description,
    }
    array_file.save(path, {_DESCRIPTION: np.array(json.dumps(about)), **arrays})


def read(path, kind, model):
    """Reads what `write` wrote.

    Args:
        path: File.
        kind: Name of what must be in it.
        model: `keras.Model` that the posterior is of.

    Returns:
        network: `LastLayer` or `AllLayers`.
        likelihood: Likelihood of targets given its outputs.
        description: Dict.
        arrays: Dict of arrays.

    Raises:
        ValueError: If the file holds something else, or the posterior of
            another model, or of other weights of it.
    """
    calls.check_model(model)
    arrays = array_file.read(pathlib.Path(path))
    try:
        description = json.loads(str(arrays.pop(_DESCRIPTION)))
        if not isinstance(description, dict):
            raise KeyError(_DESCRIPTION)
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"'{path}' is no file of a posterior.") from error
    if description.get("format") != _FORMAT:
        raise ValueError(
            f"The posterior in '{path}' has the format "
            f"{description.get('format')!r}, where {_FORMAT} is read."
        )
    if description.get("kind") != kind:
        raise ValueError(
            f"'{path}' must hold a {kind}. It holds a "
            f"{description.get('kind')}."
        )
    layers = calls.layers_with_weights(model)
    if description["layer"] >= len(layers):
        raise ValueError(
            f"The posterior in '{path}' is of another model than "
            f"'{model.name}', which has only {len(layers)} layers with weights."
        )
    network = _NETWORKS[description["layers"]](
        model, layers[description["layer"]]
    )
    if network.digest() != description["model"]:
        raise ValueError(
            f"The posterior in '{path}' is of another model than "
            f"'{model.name}', or of other weights of it: if it was trained on, "
            "the posterior must be fitted again."
        )
    likelihood = likelihoods.of_kind(
        description["likelihood"],
        network.num_outputs,
        description["noise_scale"],
    )
    return network, likelihood, description, arrays
