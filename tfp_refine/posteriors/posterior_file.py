"""One file format for all posteriors."""

import numpy as np

from tfp_refine import _validation
from tfp_refine.functional import copying
from tfp_refine.functional import data
from tfp_refine.functional import files
from tfp_refine.functional import gaussian_view
from tfp_refine.functional import last_layer_view
from tfp_refine.functional import layer_calls
from tfp_refine.functional import links
from tfp_refine.functional import mean_field_view
from tfp_refine.functional import weight_view

_HISTORY = "history/"
_LAST_LAYER_VIEWS = {
    view.__name__: view
    for view in (last_layer_view.LastLayerView, last_layer_view.AllLayersView)
}


def write(path, posterior, description, arrays):
    """Writes a posterior, and the contents of its family, to a file."""
    view, link = posterior.view, posterior.link
    about = {
        "view": _describe(view),
        "model": view.digest(),
        "link": links.describe(link),
        "diagnostics": posterior.diagnostics,
        "spread": posterior.spread,
        "family": description,
    }
    history = {_HISTORY + k: v for k, v in posterior.history.items()}
    try:
        files.write(
            path,
            type(posterior).__name__,
            about,
            {**arrays, **history},
            _to_bytes(posterior.model),
        )
    except (OSError, TypeError) as error:
        raise ValueError(
            "`path` must be a file that can be written. "
            f"Received: path={str(path)!r} ({error})"
        ) from error


def read(path, model, families, custom_objects):
    """Reads a file of `write`.

    `model` is that in the file if `None`; `families` are classes by name.
    """
    path = _validation.path("path", path)
    manifest, arrays, contents = files.read(path)
    about, kind = manifest["description"], manifest["kind"]
    if kind not in families or "view" not in about:
        raise ValueError(
            f"'{path}' does not hold a posterior. It holds: {kind!r}"
        )
    given = model is not None
    if given:
        data.check_model(model)
    elif contents is None:
        raise ValueError(
            f"'{path}' does not hold its model, which Keras could not save: "
            "give `model`."
        )
    with files.reading(path):
        if not given:
            model = copying.from_bytes(contents, custom_objects)
        view = _view(about["view"], model, path)
        if view.digest() != about["model"]:
            raise ValueError(
                f"`model` must have the architecture of the model that the "
                f"posterior in '{path}' belongs to. Received: '{model.name}', "
                "which differs in layers or in shapes of weights."
            )
        if given:
            saved = files.unpack(arrays)[view.num_factors :]
            _check_weights(view, saved, path)
        link = links.restore(about["link"])
        posterior = families[kind]._from_contents(
            view, link, about["family"], arrays
        )
        posterior.history = files.below(arrays, _HISTORY)
        posterior.diagnostics = about["diagnostics"]
        posterior.spread = about["spread"]
    return posterior


def same_view(view, model):
    """Returns a view of another model with the same architecture."""
    data.check_model(model)
    return _view(_describe(view), model, None)


def _to_bytes(model):
    """Returns the contents of a `.keras` file; `None` if Keras cannot save."""
    try:
        return copying.to_bytes(model)
    except (NotImplementedError, TypeError, ValueError):
        return None


def _check_weights(view, saved, path):
    """Refuses a model whose weights outside the posterior have changed."""
    if not saved:  # members have their own
        return
    for variable, now, then in zip(
        view.fixed_variables, view.fixed(), saved, strict=True
    ):
        if not np.array_equal(now, then):
            raise ValueError(
                "`model` must have the weights that it had when the posterior "
                f"in '{path}' was computed: it has been trained since, or is "
                f"another model. '{variable.path}' differs in "
                f"'{view.model.name}'."
            )


def _describe(view):
    about = {"select": view.select, "sample": view.sample}
    if isinstance(view, mean_field_view.MeanFieldView):
        about["deterministic"] = view.has_deterministic
    if isinstance(view, gaussian_view.GaussianView):
        about["weights"] = _describe(view.weights)
        about["num_factors"] = view.num_factors
    if hasattr(view, "layer"):
        about["layers"] = type(view).__name__
        about["layer"] = layer_calls.layers_with_weights(view.model).index(
            view.layer
        )
        about["activation"] = view.activation
    return about


def _view(about, model, path):
    if about["select"] == "gaussian":
        weights = _view(about["weights"], model, path)
        return gaussian_view.GaussianView(weights, about["num_factors"])
    if about["select"] == "mean_field":
        return mean_field_view.MeanFieldView(model, about["deterministic"])
    if "layer" not in about:
        return weight_view.WeightView(
            model, about["select"], sample=about["sample"]
        )
    layers = layer_calls.layers_with_weights(model)
    if about["layer"] >= len(layers):
        raise ValueError(
            f"`model` must be the one that the posterior in '{path}' belongs "
            f"to. Received: '{model.name}', which has only {len(layers)} "
            "layers with weights."
        )
    view = _LAST_LAYER_VIEWS[about["layers"]](model, layers[about["layer"]])
    view.activation = about["activation"]
    return view
