"""The protocol of posteriors, written once for all families."""

import abc
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any
from typing import ClassVar
from typing import NamedTuple
from typing import Self

import keras
import numpy as np
import tensorflow as tf

from tfp_refine import _validation
from tfp_refine import functional
from tfp_refine.functional import copying
from tfp_refine.functional import output_layer
from tfp_refine.posteriors import posterior_file
from tfp_refine.posteriors import spread as spread_lib
from tfp_refine.posteriors import summary

# Numbers of weights, or of outputs, that are held at once: 64 MiB of float32.
MAX_NUMBERS = 2**24
# Draws computed at once where not all of them are kept.
_DRAWS_AT_ONCE = 32


class Draws(NamedTuple):
    """Some draws of the weights.

    Attributes:
        params: Different vectors, `[m, ...]`, m of them.
        members: The vector of each draw, int array, `[s]`.
        fixed: Values of the view's fixed weights, a list: those of all vectors,
            or `[m, ...]` where `stacked`.
        stacked: Whether each vector has fixed weights of its own.
    """

    params: Any
    members: np.ndarray
    fixed: list
    stacked: bool = False


class Posterior(_validation.Shown, abc.ABC):
    """Distribution of one vector of weights of a Keras model.

    All methods of this package return one; all are used alike. A posterior owns
    copies of all weights: it does not change with the model.

    Attributes:
        view: View of the model's weights as a vector, `[P]`.
        link: `Link` of the outputs to class probabilities, `Links` of several
            outputs, or `None` if the model is not known to be a classifier.
        history: Dict of arrays: how the posterior was computed.
        diagnostics: Dict of numbers: how far it can be trusted.

    Example:

    ```python
    for posterior in (
        tfp_refine.posterior(model),
        tfp_refine.ensembles.deep_ensemble(
            model, x_train, y_train, num_members=3, steps=1000
        ),
    ):
        draws = posterior.predict(x_test, num_samples=30)  # [30, N, ...]
    ```
    """

    # By name, for files.
    _families: ClassVar[dict[str, type]] = {}
    # Closed forms of `predict_proba` besides "mc".
    _methods: ClassVar[tuple[str, ...]] = ()
    _spread = 1.0

    def __init__(
        self,
        view: functional.WeightView,
        link: functional.links.Link | None = None,
        history: dict[str, np.ndarray] | None = None,
        diagnostics: dict[str, float] | None = None,
    ) -> None:
        self.view: Any = view
        self.link = link
        self.history = history if history is not None else {}
        self.diagnostics = diagnostics if diagnostics is not None else {}

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._families[cls.__name__] = cls

    @property
    def model(self) -> keras.Model:
        """The Keras model; only its architecture matters."""
        return self.view.model

    @property
    def spread(self) -> float:
        """Factor on the deviation of draws of outputs from their mean.

        A number in [0, 1], `1.0` unless `fit_spread` has found a smaller one.
        The mean is that of the draws of one call, so a single draw does not
        change, nor do draws of weights and integer outputs. Posteriors that
        are computed from this one have a spread of their own.
        """
        return self._spread

    @spread.setter
    def spread(self, value: float) -> None:
        self._spread = _validation.unit_interval("spread", value)

    def _shown_arguments(self):
        """Returns the arguments that `repr` shows, by name, without arrays."""
        shown = {"model": self.model.name, "num_weights": self.view.size}
        return shown if self.spread == 1.0 else shown | {"spread": self.spread}

    # Defined by families.

    @abc.abstractmethod
    def _draw(self, num_samples, seed, at_once) -> Iterator[Draws]:
        """Yields `Draws` in order, `num_samples` in all, `at_once` at most."""

    @abc.abstractmethod
    def _contents(self) -> tuple[dict, dict]:
        """Returns the contents of a file: dicts for JSON and of arrays."""

    @classmethod
    @abc.abstractmethod
    def _from_contents(cls, view, link, description, arrays) -> "Posterior":
        """Restores a posterior of a view from the result of `_contents`."""

    def _check_ready(self):
        """Raises a `ValueError` if there is no posterior yet."""
        return

    # The protocol.

    def predict(
        self,
        x: Any,
        num_samples: int = 100,
        *,
        seed: int | None = None,
        batch_size: int = 1024,
    ) -> Any:
        """Draws outputs of the model.

        Args:
            x: Inputs of any kind that `keras.Model.predict` takes: `[N, ...]`
                (or nested), or batches of them, such as a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or a generator.
            num_samples: `S`, number of draws, in all: draw `s` of an ensemble
                is of member `s % M`, unless members have weights.
            seed: Integer that fixes the draws; if `None`, a fresh one, which
                `keras.utils.set_random_seed` fixes.
            batch_size: Examples computed at a time: `S * batch_size` outputs
                are held besides the result.

        Returns:
            draws: Outputs of the model (means, logits, ...), `numpy` array
                `[S, N, ...]` (or nested).

        Raises:
            ValueError: If an argument is invalid.

        Warns:
            RuntimeWarning: If outputs are NaN or infinite, with the first
                draw and example where they are.
        """
        result = _Collector(x, sample_axis=num_samples)
        stream = self._stream(x, num_samples, seed, batch_size)
        for rows, outputs in _all_draws(stream, num_samples):
            result.add(rows, outputs)
        return result.value()

    def predict_proba(
        self,
        x: Any,
        num_samples: int = 100,
        *,
        method: str = "mc",
        seed: int | None = None,
        batch_size: int = 1024,
    ) -> np.ndarray:
        """Computes class probabilities, averaged over the posterior.

        Args:
            x: As for `predict`.
            num_samples: As for `predict`.
            method: `"mc"`: the average over draws. Laplace approximations have
                closed forms too: `"probit"`, `"mean_field"`; and
                `"linearized"`, draws of linearized outputs.
            seed: As for `predict`.
            batch_size: As for `predict`.

        Returns:
            probs: `numpy` array `[N, C]`; `C` is 2 for a single output that is
                the logit, or probability, of the second class. Of a model with
                several outputs a dict, by their names, of those that classify.

        Raises:
            ValueError: If an argument is invalid, the family does not have the
                method, or the model is not a classifier.
        """
        link = self._check_classifier()
        _validation.one_of("method", method, ("mc", *self._methods))
        if method != "mc":
            if self.spread != 1.0:
                raise ValueError(
                    "Only method='mc' has a spread other than 1. Received: "
                    f"method={method!r}, spread={self.spread}"
                )
            return self._predict_proba_by(
                method, x, num_samples, seed, batch_size
            )
        result = _Collector(x)
        total = None
        for rows, draws, outputs in self._stream(
            x, num_samples, seed, batch_size, _DRAWS_AT_ONCE
        ):
            part = keras.tree.map_structure(
                lambda probs: tf.reduce_sum(probs, axis=0),
                link.probabilities(outputs),
            )
            total = (
                part
                if draws.start == 0
                else keras.tree.map_structure(tf.add, total, part)
            )
            if draws.stop == num_samples:
                result.add(
                    rows,
                    keras.tree.map_structure(
                        lambda probs: (probs / num_samples).numpy(), total
                    ),
                )
        return result.value()

    def summarize(
        self,
        x: Any,
        num_samples: int = 100,
        *,
        quantiles: tuple[float, ...] = (0.025, 0.5, 0.975),
        seed: int | None = None,
        batch_size: int = 1024,
    ) -> summary.Summary:
        """Computes statistics of the predictive distribution.

        Memory: the result, and the draws of `batch_size` examples; without
        quantiles, and with the spread 1, a few of these draws, however many
        there are.

        Args:
            x: As for `predict`.
            num_samples: As for `predict`.
            quantiles: Probabilities in (0, 1), `Q` of them, perhaps none.
            seed: As for `predict`: statistics are those of the same draws.
            batch_size: As for `predict`.

        Returns:
            summary: `Summary` of the outputs; of a classifier also the
                predictive entropy and the mutual information.

        Raises:
            ValueError: If an argument is invalid.
        """
        quantiles = summary.check_quantiles(quantiles)
        result = _Collector(x)
        blocks = summary.blocks(
            self._stream(
                x,
                num_samples,
                seed,
                batch_size,
                None if quantiles else _DRAWS_AT_ONCE,
            ),
            num_samples,
            quantiles,
            self.link,
        )
        # Of outputs that are not finite the stream warns.
        with np.errstate(invalid="ignore"):
            for rows, block in blocks:
                result.add(rows, block)
        return summary.from_blocks(result.value(), quantiles)

    def fit_spread(
        self,
        x: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        class_weight: dict[int, float] | None = None,
        loss: Any = None,
        num_samples: int = 100,
        seed: int | None = None,
        batch_size: int = 1024,
    ) -> Self:
        """Chooses the `spread` under which held-out data are most likely.

        Errors of networks that were trained apart cancel in part: their mean is
        often more accurate than their disagreement suggests, and predictions
        are too wide. Draws `f_s` of the outputs (means and raw scales, logits,
        ...) become `mean + spread * (f_s - mean)`, a special case of
        member-by-member calibration. The log likelihood of their mixture is
        scored, plus `log(spread)`, a Beta(2, 1) prior that counts as one
        example, for spreads of 0.05, 0.1, ... 1.

        Args:
            x: Inputs, `[N, ...]` (or nested), or batches of `(x, y)` or `(x, y,
                sample_weight)`, such as a `tf.data.Dataset`, a
                `keras.utils.PyDataset` or a generator, which are read into
                memory. Not those that the posterior was computed from.
            y: Targets, `[N, ...]`; of several outputs a dict or list. `None`
                for batches.
            sample_weight: How often the prediction of each example counts,
                `[N]`. Those of positions, `[N, ...]`, or of single outputs are
                factors on their log likelihoods. `None` for batches.
            class_weight: Weights by class number, a dict, in place of
                `sample_weight`; 1 for those left out.
            loss: Negative log likelihood, as for `refine`. Defaults to the loss
                that the model was compiled with.
            num_samples: As for `predict`.
            seed: As for `predict`.
            batch_size: As for `predict`.

        Returns:
            self: This object, with its `spread`.

        Raises:
            ValueError: If an argument is invalid, the data do not fit the
                model, or the loss is no log likelihood of each example, or not
                finite.

        Example:

        ```python
        posterior = tfp_refine.ensembles.deep_ensemble(
            model, x_train, y_train, steps=1000
        )
        draws = posterior.fit_spread(x_validation, y_validation).predict(x_test)
        ```

        Reference:
            - [Van Schaeybroeck and Vannitsem, 2015](
                https://doi.org/10.1002/qj.2397)
        """
        num_samples = _validation.positive_integer("num_samples", num_samples)
        _validation.positive_integer("batch_size", batch_size)
        self._check_ready()
        seed = functional.seeds.check(seed)
        data, weights = functional.example_weights.apart(
            functional.data.examples(x, y, sample_weight, class_weight)[0]
        )
        first = next(iter(self._draw(num_samples, seed, 1)))
        number, fixed = first.members[0], list(first.fixed)
        if first.stacked:
            fixed = [value[number] for value in fixed]
        stream = self._stream_as_drawn(data[0], num_samples, seed, batch_size)
        self.spread = spread_lib.most_likely(
            self.view,
            (first.params[number], fixed),
            loss,
            data,
            weights,
            _all_draws(stream, num_samples),
        )
        return self

    def sample(
        self, num_samples: int, *, seed: int | None = None
    ) -> np.ndarray:
        """Draws weights.

        Args:
            num_samples: `S`, number of draws.
            seed: As for `predict`.

        Returns:
            weights: `numpy` array `[S, P]`, in the order of `view`.

        Raises:
            ValueError: If an argument is invalid.
        """
        _validation.positive_integer("num_samples", num_samples)
        self._check_ready()
        seed = functional.seeds.check(seed)
        return np.concatenate(
            [
                self._weights(draws, seed, done)
                for draws, done in _numbered(
                    self._draw(num_samples, seed, num_samples)
                )
            ]
        )

    def save(self, path: str | os.PathLike) -> None:
        """Saves the posterior and its model to one file.

        Training data are not saved. A model that Keras cannot save is left
        out: it must then be given to `load_posterior`.

        Args:
            path: File; its usual ending is `.posterior`.

        Raises:
            ValueError: If there is nothing to save yet, or the file cannot be
                written.
        """
        self._check_ready()
        posterior_file.write(path, self, *self._contents())

    def export(
        self,
        path: str | os.PathLike,
        num_samples: int = 100,
        *,
        seed: int | None = None,
        input_signature: Any = None,
    ) -> None:
        """Exports draws of the outputs as a SavedModel.

        It needs neither this package nor Keras: for
        `served = tf.saved_model.load(path)`, `served.serve(x)` are draws
        `[S, B, ...]` (or nested). Weights of Gaussian, flow and sample
        posteriors are drawn once, now; layers that draw do so in each call.

        Args:
            path: Folder.
            num_samples: `S`, as for `predict`.
            seed: Integer for the draws of `predict` (for one block of
                examples), the same in each call; fresh ones if `None`.
            input_signature: `tf.TensorSpec` of the inputs (or nested), for
                subclassed models.

        Raises:
            ValueError: If an argument is invalid, or the folder cannot be
                written.
        """
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise ValueError(
                f"`path` must be a folder. Received: path={path!r}"
            )
        num_samples = _validation.positive_integer("num_samples", num_samples)
        self._check_ready()
        if input_signature is None:
            specs = copying.find_input_specs(self.model)
        elif all(
            isinstance(leaf, tf.TensorSpec)
            for leaf in tf.nest.flatten(input_signature) or [None]
        ):
            specs = input_signature
        else:
            raise ValueError(
                "`input_signature` must be a tf.TensorSpec, or a structure of "
                f"them. Received: {input_signature=}"
            )
        if specs is None:
            raise ValueError(
                f"The model '{self.model.name}' is subclassed, and its inputs "
                "are unknown: give `input_signature`, a tf.TensorSpec."
            )
        fresh = seed is None
        seed = functional.seeds.check(seed)
        draws = _together([*self._draw(num_samples, seed, num_samples)])
        params, fixed = tf.nest.map_structure(
            lambda value: tf.Variable(value, trainable=False),
            (draws.params, list(draws.fixed)),
        )
        keys = functional.seeds.keys(seed, num_samples)
        members = tf.constant(draws.members, tf.int32)

        def serve(x):
            values = tf.nest.map_structure(tf.convert_to_tensor, fixed)
            shared = x if draws.stacked else self.view.shared(x, values)
            outputs = _outputs(
                self.view,
                shared,
                tf.nest.map_structure(tf.convert_to_tensor, params),
                values,
                members,
                functional.seeds.fresh_keys(num_samples) if fresh else keys,
                tf.constant(0, tf.int64),
                draws.stacked,
            )
            if self.spread == 1.0:
                return outputs
            return spread_lib.narrow(outputs, self.spread)

        archive = keras.export.ExportArchive()
        for layer in self.model._flatten_layers():
            # Tables are no variables. Layers inside a text layer are not built.
            if hasattr(layer, "adapt") and layer.built:
                archive.track(layer)
        archive.add_endpoint("serve", serve, input_signature=[specs])
        try:
            pathlib.Path(path).mkdir(parents=True, exist_ok=True)
            archive.write_out(str(path), verbose=False)
        except (OSError, tf.errors.OpError) as error:
            raise ValueError(
                "`path` must be a folder that can be written. "
                f"Received: path={str(path)!r} ({error})"
            ) from error

    # Shared by families.

    def _weights(self, draws, seed, first):
        """Returns the vectors of draws, `[s, P]`."""
        del seed, first
        return np.asarray(draws.params)[draws.members]

    def _predict_proba_by(self, method, x, num_samples, seed, batch_size):
        raise NotImplementedError(
            f"{type(self).__name__} must implement the method '{method}'"
        )

    def _check_classifier(self):
        self._check_ready()
        if self.link is None:
            raise ValueError(
                f"`predict_proba` needs a classifier. The model "
                f"'{self.model.name}' is not known to be one: compile it with "
                "a crossentropy, or use `predict` for a regression."
            )
        return self.link

    def _stream(self, x, num_samples, seed, batch_size, at_once=None):
        """Yields outputs, block by block of rows, and of draws inside.

        Each is a slice of the examples, a slice of the draws, and tensors `[s,
        B, ...]` (or nested). `at_once` draws are computed at a time; all that
        memory allows if `None`. With a spread, whose mean is that of all draws,
        these come together.
        """
        stream = self._stream_as_drawn(
            x, num_samples, seed, batch_size, at_once
        )
        if self.spread == 1.0:
            yield from stream
            return
        for rows, outputs in _all_draws(stream, num_samples):
            yield (
                rows,
                slice(0, num_samples),
                spread_lib.narrow(outputs, self.spread),
            )

    def _stream_as_drawn(self, x, num_samples, seed, batch_size, at_once=None):
        """Yields outputs as `_stream`, but for the spread."""
        _validation.positive_integer("num_samples", num_samples)
        _validation.positive_integer("batch_size", batch_size)
        self._check_ready()
        seed = functional.seeds.check(seed)
        at_once = min(num_samples, at_once or num_samples)
        keys = functional.seeds.keys(seed, num_samples)
        view, kept = self.view, None
        watch = _Watch(view.model)
        blocks = functional.data.blocks(x, batch_size)
        for number, (rows, block) in enumerate(blocks):
            block = functional.model_inputs.fit(view.model, block)
            shared = None
            for draws, first in kept or _numbered(
                self._draw(num_samples, seed, at_once)
            ):
                if shared is None:
                    shared = self._shared(block, draws)
                for begin in range(0, len(draws.members), at_once):
                    members = draws.members[begin : begin + at_once]
                    part = slice(first + begin, first + begin + len(members))
                    program = view.compiled(
                        f"draws {draws.stacked}",
                        functools.partial(
                            _outputs, view, stacked=draws.stacked
                        ),
                        shared,
                        (True, True, draws.stacked, True, True, False),
                    )
                    outputs = program(
                        shared,
                        draws.params,
                        list(draws.fixed),
                        tf.constant(members, tf.int32),
                        keys[part],
                        tf.constant(number, tf.int64),
                    )
                    if isinstance(view, output_layer.OutputLayerView):
                        _check_finite(outputs.numpy())
                    watch.look(block, rows, part, outputs)
                    yield rows, part, outputs
            # The same for each block: kept if there is a single part.
            if first == 0:
                kept = [(draws, first)]
        watch.report()

    def _shared(self, block, draws):
        """Computes the values that all draws share, for a block of inputs."""
        view = self.view
        if draws.stacked or not view.has_shared:
            return block
        shared = view.compiled("shared", view.shared, block, (True, False))(
            block, list(draws.fixed)
        )
        view.check_features(shared.numpy())
        return shared


def load_posterior(
    path: str | os.PathLike,
    model: keras.Model | None = None,
    *,
    custom_objects: dict[str, Any] | None = None,
) -> Posterior:
    """Loads a posterior that `save` saved.

    Args:
        path: File.
        model: The model of the posterior, with the weights that it had; if
            `None`, the one in the file.
        custom_objects: Classes of yours that the model in the file needs and
            that are not registered with Keras, by name.

    Returns:
        posterior: `Posterior` of the family that was saved.

    Raises:
        ValueError: If the file cannot be read, or `model` differs from the one
            that was saved.

    Example:

    ```python
    tfp_refine.posterior(model).save("posterior.zip")
    loaded = tfp_refine.load_posterior("posterior.zip")
    draws = loaded.predict(x_test)
    ```
    """
    return posterior_file.read(path, model, Posterior._families, custom_objects)


class _Collector:
    """Puts blocks `[B, ...]`, or `[S, B, ...]` if `S` is given, together.

    Where the number of inputs is known, memory is taken once.
    """

    def __init__(self, x, sample_axis=None):
        self._count = None
        if not functional.sources.is_batched(x):
            leaves = keras.tree.flatten(x)
            shape = getattr(leaves[0], "shape", ()) if leaves else ()
            self._count = shape[0] if shape else None
        self._axis = 0 if sample_axis is None else 1
        self._result = None
        self._blocks = []

    def add(self, rows, block):
        block = keras.tree.map_structure(np.asarray, block)
        if self._count is None:
            self._blocks.append(block)
            return
        if rows == slice(0, self._count):
            self._result = block
            return
        if self._result is None:
            self._result = keras.tree.map_structure(self._empty, block)
        where = (slice(None),) * self._axis + (rows,)
        for target, leaf in zip(
            keras.tree.flatten(self._result),
            keras.tree.flatten(block),
            strict=True,
        ):
            target[where] = leaf

    def value(self):
        if self._count is not None:
            return self._result
        return keras.tree.map_structure(
            lambda *leaves: np.concatenate(leaves, self._axis), *self._blocks
        )

    def _empty(self, leaf):
        shape = list(leaf.shape)
        shape[self._axis] = self._count
        return np.empty(shape, leaf.dtype)


def _all_draws(stream, num_samples):
    """Yields slices of the examples, and all draws for them, arrays."""
    parts = []
    for rows, draws, outputs in stream:
        parts.append(keras.tree.map_structure(np.asarray, outputs))
        if draws.stop == num_samples:
            if len(parts) > 1:
                parts = [
                    keras.tree.map_structure(
                        lambda *leaves: np.concatenate(leaves), *parts
                    )
                ]
            yield rows, parts[0]
            parts = []


class _Watch:
    """Warns of outputs that are not finite, and says where they come from."""

    def __init__(self, model):
        self._model = model
        self._bad = self._count = 0
        self._first = None

    def look(self, x, rows, draws, outputs):
        """Looks at outputs `[s, B, ...]` (or nested) of some draws and rows."""
        for leaf in keras.tree.flatten(outputs):
            self._count += int(tf.size(leaf))
            # The sum of finite numbers overflows rarely: then all are seen.
            # NumPy does not know bfloat16.
            if not leaf.dtype.is_floating or tf.math.is_finite(
                tf.reduce_sum(leaf)
            ):
                continue
            where = tf.where(~tf.math.is_finite(leaf)).numpy()
            self._bad += len(where)
            if self._first is None and len(where):
                draw, row = where[0][:2]
                self._first = (
                    draws.start + draw,
                    rows.start + row,
                    _largest(functional.data.take(x, slice(row, row + 1))),
                )

    def report(self):
        """Warns if there were any."""
        if not self._bad:
            return
        draw, row, largest = self._first
        _validation.warn(
            f"{self._bad} of {self._count} outputs of the model "
            f"'{self._model.name}' are NaN or infinite, first in draw {draw} "
            f"of example {row}, whose largest input is {largest:g}. Weights "
            "may have diverged, or inputs may be too large: normalize them.",
            RuntimeWarning,
        )


def _largest(x):
    """Returns the largest magnitude of an input."""
    return max(
        (
            float(np.max(np.abs(leaf), initial=0.0))
            for leaf in keras.tree.flatten(x)
            if leaf.dtype != tf.string
        ),
        default=0.0,
    )


def _outputs(view, shared, params, fixed, members, keys, index, stacked):
    """Computes outputs of draws in a trace, `[s, B, ...]`."""

    def one(member, key):
        if not stacked:
            return view.draws(shared, params[member], fixed, key, index)
        # Nothing is shared: this is the inputs.
        own = [value[member] for value in fixed]
        return view.call(shared, params[member], own, key, index)

    def mapped(members, keys):
        # Traced once, for its structure and for the loop.
        traced = tf.function(one, autograph=False).get_concrete_function(
            *(tf.TensorSpec([], v.dtype) for v in (members, keys))
        )
        return tf.map_fn(
            lambda pair: traced(*pair),
            (members, keys),
            fn_output_signature=keras.tree.map_structure(
                lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype),
                traced.structured_outputs,
            ),
            parallel_iterations=os.cpu_count(),
        )

    if not isinstance(view, functional.LastLayerView) and view.is_random:
        return mapped(members, keys)
    # Vectors alone decide: each is computed once, however often drawn.
    number = tf.shape(params)[0]
    if isinstance(view, functional.LastLayerView):
        outputs = view.draws(shared, params, fixed, 0, 0)
    else:
        outputs = mapped(tf.range(number), tf.zeros([number], tf.int64))
    return keras.tree.map_structure(
        lambda leaf: tf.gather(leaf, members), outputs
    )


def _check_finite(predictions):
    bad = np.count_nonzero(~np.isfinite(predictions))
    if bad:
        raise ValueError(
            f"Predictions must be finite. Received: {bad} of "
            f"{predictions.size} numbers are NaN or infinite. The prior's "
            "precision may be too small, or features too large: normalize them."
        )


def normal_draws(num_samples, size, seed, at_once):
    """Yields standard normal draws `[s, size]`, no more than memory allows."""
    rng = np.random.default_rng(seed)
    at_once = min(at_once, max(1, MAX_NUMBERS // size))
    for begin in range(0, num_samples, at_once):
        count = min(at_once, num_samples - begin)
        yield tf.constant(rng.standard_normal((count, size)))


def _together(parts):
    """Puts parts of draws together."""
    if len(parts) == 1:
        return parts[0]
    begins = np.cumsum([0, *(len(part.params) for part in parts)])
    fixed = parts[0].fixed
    if parts[0].stacked:
        fixed = [
            np.concatenate(values)
            for values in zip(*(part.fixed for part in parts), strict=True)
        ]
    return parts[0]._replace(
        params=np.concatenate([part.params for part in parts]),
        members=np.concatenate(
            [
                np.asarray(part.members) + begin
                for part, begin in zip(parts, begins[:-1], strict=True)
            ]
        ),
        fixed=fixed,
    )


def _numbered(parts):
    """Yields parts of draws, with the number of their first."""
    first = 0
    for draws in parts:
        yield draws, first
        first += len(draws.members)
