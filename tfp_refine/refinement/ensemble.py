"""The refined posterior: an ensemble of Gaussian posteriors."""

import functools
import hashlib
import json
import pathlib
import tempfile
import zipfile

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import functional
from tfp_refine.functional import array_file
from tfp_refine.math import gaussian
from tfp_refine.refinement import sampling_forward

_MODEL, _MEMBERS, _DESCRIPTION = "model.keras", "members.npz", "ensemble.json"
_FORMAT = 2


class RefinedEnsemble:
    """Mixture of refined posteriors of one model, with equal weights.

    It owns copies of all weights: what becomes of the model that it was refined
    from does not touch it. Made by `refine` and `RefinementCallback`, or loaded
    from a folder; not usually constructed.

    Args:
        model: `keras.Model` that was refined.
        params: Members' means and untransformed scales, `[M, 2, W]`, or
            `[M, 2, W + D]` with deterministic weights of their own.
        prior_loc: Means of their conditional priors, `[M, W]`.
        prior_scale: Standard deviations of these, `[M, W]`.
        refined_deterministic: Whether members have deterministic weights of
            their own.
        others: Values of the model's weights that are not in `params`.
        input_specs: Shape and dtype of an input example (or nested).
        history: Dict of arrays, see the attribute.

    Attributes:
        history: Dict of arrays, a row for each of the `M` members.
            `members [M]`: indices among those that were computed.
            `elbo_init [M]`, `elbo_final [M]`: bounds before and after, all
            examples, fresh draws. The staircase, a column for each of the `K`
            auxiliary variables: `elbo_conditioned [M, K]` and
            `elbo_aux [M, K]`, bounds before and after its optimization;
            `cost [M, K]`, the running `sum_k log q(a_k) - log p(a_k)`;
            `kept [M, K]`, whether the optimization was kept: with
            `keep_better`, whether it raised the bound.
            `trace_step [T]`, `trace_elbo [M, T]`: bounds estimated from
            minibatches on the way. Bounds and costs are in nats, for the whole
            training set.
    """

    def __init__(
        self,
        model,
        *,
        params,
        prior_loc,
        prior_scale,
        refined_deterministic,
        others,
        input_specs,
        history,
    ):
        self.history = history
        self._model = model
        self._params = params
        self._prior = (prior_loc, prior_scale)
        self._refined_deterministic = refined_deterministic
        self._others = others
        self._input_specs = input_specs
        self._forward = sampling_forward.sampling_forward(
            model, functional.WeightLayout(model, refined_deterministic)
        )
        self._predictor = functional.Predictor(
            self._forward,
            functools.partial(functional.arrays.check_fits, model),
        )

    @property
    def num_members(self):
        """`M`, the number of members."""
        return len(self._params)

    @property
    def posterior(self):
        """Members' posteriors, a `Gaussian` of `loc` and `scale [M, W]`.

        The last axis holds all variational weights, in the order of
        `functional.WeightLayout`.
        """
        loc, raw = np.moveaxis(
            self._params[..., : self._prior[0].shape[-1]], 1, 0
        )
        return gaussian.Gaussian(loc, np.logaddexp(0.0, raw))

    @property
    def prior(self):
        """Members' conditional priors `p(w | a_1:K)`, likewise."""
        return gaussian.Gaussian(*self._prior)

    @property
    def elbo_init(self):
        """Bound of the mean-field posterior, nats, `[M]`.

        The members' values are independent estimates of the same number.
        """
        return self.history["elbo_init"]

    @property
    def elbo_aux(self):
        """Bound of each member, nats, `[M]`.

        Their mean estimates the refined posterior's bound, a lower bound on
        the evidence; its standard error is their standard deviation divided
        by `sqrt(M)`.
        """
        return self.history["elbo_final"]

    def predict(self, x, num_samples=1, seed=None, batch_size=1024):
        """Draws outputs of the model under every member.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            num_samples: Draws from each member. Defaults to `1`.
            seed: Integer that fixes the draws; fresh ones if `None`.
            batch_size: Examples computed at a time.

        Returns:
            draws: `numpy` array `[num_samples * M, N, ...]` (or nested); draw
                `s` is of member `s % M`.

        Raises:
            ValueError: If an argument is invalid.
        """
        if isinstance(num_samples, int | np.integer):
            num_samples = num_samples * self.num_members
        return self.predictive_draws(x, num_samples, seed, batch_size)

    def predictive_draws(self, x, num_samples, seed=None, batch_size=1024):
        """Draws outputs: `num_samples` of all members together.

        Args:
            x: Inputs, `[N, ...]` (or nested).
            num_samples: `S`, number of draws; draw `s` is of member `s % M`.
            seed: Integer that fixes the draws; fresh ones if `None`.
            batch_size: Examples computed at a time.

        Returns:
            draws: `numpy` array `[S, N, ...]` (or nested).

        Raises:
            ValueError: If an argument is invalid.
        """
        return self._predictor(
            x, self._params, self._others, num_samples, seed, batch_size
        )

    def export(self, path, num_samples=None, seed=None):
        """Exports the ensemble as a SavedModel that draws outputs.

        It needs neither this package nor Keras: for
        `served = tf.saved_model.load(path)`, `served.serve(x)` are draws
        `[S, B, ...]`, those of `predictive_draws` (for one block of examples).

        Args:
            path: Folder.
            num_samples: `S`, the number of draws, of all members together; one
                of each member if `None`.
            seed: Integer for the same draws in each call; fresh ones in each
                if `None`.

        Raises:
            ValueError: If an argument is invalid, or the folder cannot be
                written.
        """
        functional.saved_model.export(
            path,
            self._forward,
            functional.saved_model.input_specs(self._model)
            or _tensor_specs(self._input_specs),
            self._params,
            self._others,
            self.num_members if num_samples is None else num_samples,
            seed,
        )

    def member(self, index):
        """Returns one member as an ordinary Keras model of its own.

        Args:
            index: From 0 to `num_members - 1`.

        Returns:
            model: Built `keras.Model`, compiled if the refined model was (and,
                of a loaded ensemble, if its loss is registered with Keras).

        Raises:
            IndexError: If there is no such member.
        """
        if not 0 <= index < self.num_members:
            raise IndexError(
                f"`index` must be in [0, {self.num_members}). "
                f"Received: index={index}"
            )
        model = self._clone()
        layout = functional.WeightLayout(model, self._refined_deterministic)
        layout.assign(self._params[index])
        forward = sampling_forward.sampling_forward(model, layout)
        for variable, value in zip(
            forward.other_variables, self._others, strict=True
        ):
            variable.assign(value)
        return model

    def save(self, path):
        """Saves the ensemble to a folder, for `load`.

        Args:
            path: Folder; created if it does not exist.

        Raises:
            ValueError: If the folder cannot be written.
        """
        path = pathlib.Path(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            self.member(0).save(path / _MODEL)
            array_file.write(
                path / _MEMBERS,
                {
                    "params": self._params,
                    "prior_loc": self._prior[0],
                    "prior_scale": self._prior[1],
                    **{f"history_{k}": v for k, v in self.history.items()},
                },
            )
            (path / _DESCRIPTION).write_text(
                json.dumps(
                    {
                        "format": _FORMAT,
                        "input_specs": self._input_specs,
                        "refined_deterministic": self._refined_deterministic,
                        "digests": _digests(path),
                    }
                )
            )
        except OSError as error:
            raise ValueError(
                "`path` must be a folder that can be written. "
                f"Received: path={str(path)!r} ({error})"
            ) from error

    @classmethod
    def load(cls, path, custom_objects=None):
        """Loads what `save` saved.

        Args:
            path: Folder.
            custom_objects: Classes of yours that the model needs and that are
                not registered with Keras, by name.

        Returns:
            ensemble: `RefinedEnsemble`.

        Raises:
            ValueError: If the folder does not hold a readable ensemble.
        """
        path = pathlib.Path(path)
        missing = [
            name
            for name in (_MODEL, _MEMBERS, _DESCRIPTION)
            if not (path / name).is_file()
        ]
        if missing:
            raise ValueError(
                f"'{path}' is not the folder of an ensemble: it lacks "
                f"{', '.join(missing)}."
            )
        try:
            description = json.loads((path / _DESCRIPTION).read_text())
            arrays = array_file.read(path / _MEMBERS)
            _check_contents(description, arrays)
            _check_digests(description, path)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"The ensemble in '{path}' cannot be read: {error}"
            ) from error
        model = _load_model(path / _MODEL, custom_objects)
        refined_deterministic = description.get("refined_deterministic", False)
        layout = functional.WeightLayout(model, refined_deterministic)
        expected = tuple(layout.params().shape)
        if arrays["params"].shape[1:] != expected:
            raise ValueError(
                f"The members in '{path}' are of another model: it has "
                f"{expected[-1]} refined weights, they have "
                f"{arrays['params'].shape[-1]}."
            )
        forward = sampling_forward.sampling_forward(model, layout)
        return cls(
            model,
            params=arrays["params"],
            prior_loc=arrays["prior_loc"],
            prior_scale=arrays["prior_scale"],
            refined_deterministic=refined_deterministic,
            others=[np.asarray(value) for value in forward.other_values()],
            input_specs=description["input_specs"],
            history={
                name.removeprefix("history_"): value
                for name, value in arrays.items()
                if name.startswith("history_")
            },
        )

    def _clone(self):
        """Builds a model of the same configuration, with weights of its own."""
        model = self._model
        classes = {type(v).__name__: type(v) for v in model._flatten_layers()}
        try:
            with keras.saving.CustomObjectScope(classes):
                clone = type(model).from_config(model.get_config())
        except (NotImplementedError, TypeError, ValueError) as error:
            raise ValueError(
                f"The model '{model.name}' cannot be copied: it, and every "
                "layer of it, must implement `get_config` and `from_config` "
                f"({error})"
            ) from error
        if not clone.built or len(clone.weights) != len(model.weights):
            clone(_zeros(self._input_specs))
        if _is_more_than_its_config(model):
            clone = _copy_through_file(model, classes)
        if model.compiled:
            optimizer = type(model.optimizer).from_config(
                model.optimizer.get_config()
            )
            optimizer.build(clone.trainable_variables)
            clone.compile(optimizer=optimizer, loss=model.loss)
        return clone


def _is_more_than_its_config(model):
    """Tells whether only a file keeps all: shared priors, preprocessing."""
    return any(
        getattr(weight.regularizer, "shared", False)
        for weight in functional.variational_weights(model)
    ) or any(hasattr(layer, "adapt") for layer in model._flatten_layers())


def _copy_through_file(model, custom_objects):
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / _MODEL
        model.save(path)
        return keras.models.load_model(path, custom_objects, compile=False)


def _check_contents(description, arrays):
    """Checks that the files of an ensemble hold what `save` puts there."""
    if not isinstance(description, dict) or "input_specs" not in description:
        raise ValueError(f"{_DESCRIPTION} does not describe an ensemble.")
    if description.get("format") != _FORMAT:
        raise ValueError(
            f"its format is {description.get('format')!r}, where this version "
            f"reads {_FORMAT}."
        )
    shapes = {
        name: arrays[name].shape if name in arrays else None
        for name in ("params", "prior_loc", "prior_scale")
    }
    prior = shapes["prior_loc"]
    if (
        None in shapes.values()
        or prior != shapes["prior_scale"]
        or len(prior) != 2
        or shapes["params"][:1] != prior[:1]
    ):
        raise ValueError(
            f"{_MEMBERS} does not hold members. Received: shapes {shapes}"
        )


def _digests(path):
    """Returns what tells the files of an ensemble from any others."""
    return {
        name: hashlib.sha256((path / name).read_bytes()).hexdigest()[:16]
        for name in (_MODEL, _MEMBERS)
    }


def _check_digests(description, path):
    """Checks that the files of a folder were saved together."""
    for name, digest in _digests(path).items():
        if description.get("digests", {}).get(name) != digest:
            raise ValueError(
                f"{name} is not the file that was saved with {_DESCRIPTION}: "
                "it is of another ensemble, or damaged."
            )


def _load_model(path, custom_objects):
    """Loads a model, uncompiled if its loss cannot be found again."""
    for compiled in (True, False):
        try:
            return keras.models.load_model(
                path, custom_objects=custom_objects, compile=compiled
            )
        except (
            OSError,
            KeyError,
            TypeError,
            ValueError,
            zipfile.BadZipFile,
        ) as error:
            failure = error
    raise ValueError(
        f"The model '{path}' cannot be loaded. Classes of yours must be "
        "registered with Keras, or given as `custom_objects`."
    ) from failure


def input_spec(tensor):
    """Describes an input example, in a way that JSON can hold."""
    return {"shape": list(tensor.shape[1:]), "dtype": tensor.dtype.name}


def _zeros(specs):
    return _inputs(
        lambda shape, dtype: keras.ops.zeros((1, *shape), dtype=dtype), specs
    )


def _tensor_specs(specs):
    return _inputs(
        lambda shape, dtype: tf.TensorSpec((None, *shape), dtype), specs
    )


def _inputs(make, specs):
    """Makes something of each input's shape and dtype, nested as they are."""
    if isinstance(specs, dict) and set(specs) == {"shape", "dtype"}:
        return make(specs["shape"], specs["dtype"])
    if isinstance(specs, dict):
        return {name: _inputs(make, spec) for name, spec in specs.items()}
    return [_inputs(make, spec) for spec in specs]
