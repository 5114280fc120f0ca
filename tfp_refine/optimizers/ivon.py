"""The improved variational online Newton method, as a Keras optimizer."""

import threading
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from tfp_refine import _validation
from tfp_refine.functional import objective
from tfp_refine.functional import seeds
from tfp_refine.math import ivon
from tfp_refine.math import philox
from tfp_refine.optimizers import weight_draws

_DTYPES = ("float32", "float64")
# Key of N and the prior's scale in a saved state.
_TRAINED_WITH = "trained_with"
_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


@keras.saving.register_keras_serializable(package="tfp_refine")
class IVON(_validation.Shown, keras.optimizers.Optimizer):
    """Variational learning of any Keras model, at the cost of Adam.

    Trains a mean-field Gaussian posterior of all trainable weights, without
    variational layers: the improved variational online Newton method. Each
    weight has a mean, which is the variable itself, and the variance
    `1 / (N * (h + d))`, where `h` is a running mean of the Hessian of the loss
    and `d = 1 / (N * prior_scale**2)` the weight decay of the prior
    `N(0, prior_scale**2)`. `tfp_refine.posterior(model)` is the result.

    The loss must be a mean negative log likelihood over the batch, in nats.
    Other losses of Keras are refused, and means over outputs or positions,
    except of subclassed models, whose outputs Keras does not know: take a loss
    of `tfp_refine.losses`. So are regularizers, as the prior takes their place,
    and `loss_weights`.

    **Draws and means.** The variables hold the means, always: `evaluate`,
    `predict`, files, and validation and callbacks in the middle of `fit`
    (`ModelCheckpoint`, `EarlyStopping`) see these. Weights are drawn only where
    a `tf.GradientTape` watches a call of the model that was compiled with this
    optimizer, and keep their values until the next step. So the metrics of
    training are those of draws. Gradients of your own, such as saliency maps,
    are at the means inside `tfp_refine.layers.mean_weights()`.

    **Files.** Checkpoints hold the scales too. `load_model` brings them back;
    `load_weights` and `BackupAndRestore` only after
    `optimizer.build(model.trainable_variables)`, before which Keras leaves them
    out, with a warning. `EarlyStopping(restore_best_weights=True)` brings back
    the means alone.

    A training loop of your own works too: `model.compile(optimizer)`, then
    `optimizer.build(model.trainable_variables)`; call the model under a tape,
    and `optimizer.apply_gradients`. Gradients that are not at draws raise an
    error. A model without trainable weights raises one in
    `tfp_refine.posterior`: `fit` warns, and does not call its optimizer.

    **Several draws.** With `num_samples` above one, a step takes as many
    batches, each with a draw of its own. To draw `S` times for the examples of
    one batch, divide `batch_size` by `S`. Learning rate schedules and
    `iterations` count batches.

    Args:
        learning_rate: Float or Keras schedule, 0.1 to 0.2 for convolutional
            networks of the paper; better decayed to zero. With few examples,
            such as a thousand, these may end at the prior: try 0.02.
        num_train_examples: `N`, number of training examples.
        prior_scale: Standard deviation of the prior of each weight; `None`: no
            prior. Defaults to `1.0`.
        hessian_init: `h` at the start, positive. Smaller values start from a
            wider posterior. Steps are in proportion to it and to
            `learning_rate`: with a large one, such as `100`, that should be
            small, such as 0.003. Defaults to `0.5`.
        beta_1: Decay of the mean of the gradients, in [0, 1). Defaults to
            `0.9`.
        beta_2: Decay of the mean of the Hessians, in [0, 1). Defaults to
            `0.99999`; less for few steps, such as `0.9995`.
        num_samples: Draws, and batches, of a step. Defaults to `1`.
        clip_radius: Limit of `|m / (h + d)|`, where `m` is the gradient of mean
            and prior; 1e-3 for transformers. Defaults to `None`: no limit.
        seed: Integer that fixes the draws; a fresh one if `None`.
        name: Name of the optimizer.

    Raises:
        ValueError: If an argument is invalid; at the first step, if the model
            has regularizers or weights in half precision, or a loss of Keras
            that is no mean negative log likelihood; when a state is loaded that
            was saved with other variables, `num_train_examples` or
            `prior_scale`.

    Example:

    ```python
    loss = tfp_refine.losses.CategoricalNLL()
    model.compile(tfp_refine.optimizers.IVON(0.1, len(x)), loss)
    model.fit(x, y, epochs=50)
    posterior = tfp_refine.posterior(model)
    ```

    Reference:
        - [Shen et al., 2024](https://arxiv.org/abs/2402.17641)
    """

    def __init__(
        self,
        learning_rate: Any,
        num_train_examples: int,
        prior_scale: float | None = 1.0,
        hessian_init: float = 0.5,
        beta_1: float = 0.9,
        beta_2: float = 0.99999,
        num_samples: int = 1,
        clip_radius: float | None = None,
        seed: int | None = None,
        name: str = "ivon",
    ) -> None:
        super().__init__(learning_rate=learning_rate, name=name)
        self.num_train_examples = _validation.positive_integer(
            "num_train_examples", num_train_examples
        )
        self.prior_scale = prior_scale
        if prior_scale is not None:
            self.prior_scale = _validation.positive("prior_scale", prior_scale)
        self.hessian_init = _validation.positive("hessian_init", hessian_init)
        self.beta_1, self.beta_2 = beta_1, beta_2
        for key in ("beta_1", "beta_2"):
            if _validation.not_negative(key, getattr(self, key)):
                _validation.proportion(key, getattr(self, key), one=False)
        self.num_samples = _validation.positive_integer(
            "num_samples", num_samples
        )
        self.clip_radius = clip_radius
        if clip_radius is not None:
            self.clip_radius = _validation.positive("clip_radius", clip_radius)
        self.seed = seeds.check(seed)
        # Saved with the other variables: a resumed training draws alike.
        self._key = keras.Variable(
            seeds.key(self.seed),
            dtype="int64",
            trainable=False,
            name="key",
            aggregation="only_first_replica",
        )
        self._indices: dict[int, int] = {}
        # In the graph being traced, to use them again, by thread (as replicas
        # have their own) and variable; and the variables that were drawn.
        self._deviations: dict[tuple[int, int], tf.Tensor] = {}
        self._drawn: set[int] = set()
        self._is_new = True
        self._checked: Any = None

    @property
    def decay(self) -> float:
        """The weight decay `d`; zero without a prior."""
        if self.prior_scale is None:
            return 0.0
        return 1.0 / (self.num_train_examples * self.prior_scale**2)

    def build(self, variables: list[keras.Variable]) -> None:
        if self.built:
            return
        _check_variables(variables)
        super().build(variables)
        self._momentums, self._precisions = self.add_optimizer_variables(
            variables,
            ["momentum", "precision"],
            [
                keras.initializers.Zeros(),
                keras.initializers.Constant(self.hessian_init + self.decay),
            ],
        )
        if self.num_samples > 1:
            self._sums = self.add_optimizer_variables(
                variables, ["gradient_sum", "product_sum"]
            )
        for index, variable in enumerate(variables):
            self._indices[id(variable)] = index
        weight_draws.make_drawn(variables)

    def has_posterior_of(self, variable: keras.Variable) -> bool:
        """Returns whether this optimizer trains a variable.

        Args:
            variable: Variable of a model.
        """
        return id(variable) in self._indices

    def scale_of(self, variable: keras.Variable) -> np.ndarray:
        """Computes the posterior standard deviations of a variable.

        Args:
            variable: One of the trained variables.

        Returns:
            scale: Array of the variable's shape.
        """
        precision = self._precisions[self._indices[id(variable)]]
        return ivon.scale(
            tf.convert_to_tensor(precision), self.num_train_examples
        ).numpy()

    def check_loss(self, model: keras.Model) -> None:
        """Checks that the loss is a mean negative log likelihood.

        A model that is compiled without a loss passes.

        Args:
            model: Compiled `keras.Model`.

        Raises:
            ValueError: If the loss is a sum, or not a likelihood, or another
                term or factor is added to it.
        """
        if model.loss is None or model._compile_loss is self._checked:
            return
        for loss in keras.tree.flatten(model.loss):
            reduction = getattr(loss, "reduction", _MEANS[0])
            if reduction not in _MEANS:
                raise ValueError(
                    "IVON needs a loss that is a mean over the batch. "
                    f"Received: loss={loss!r} with reduction={reduction!r}"
                )
        objective.check_compiled_loss(model)
        for layer in model._flatten_layers():
            if getattr(layer, "activity_regularizer", None) is not None:
                raise ValueError(
                    "IVON needs a loss that is a log likelihood alone, without "
                    f"regularizers. Received: '{layer.path}' with "
                    f"activity_regularizer={layer.activity_regularizer!r}"
                )
        self._checked = model._compile_loss

    def draw(self, variable: keras.Variable) -> tf.Tensor:
        """Draws the weights of a variable, the same ones until the next step.

        Replicas draw independently. The gradient with respect to the variable
        is that with respect to the draw.

        Args:
            variable: One of the trained variables.

        Returns:
            draw: Tensor of the variable's shape.
        """
        index = self._indices[id(variable)]
        self._drawn.add(index)
        return weight_draws.raw(variable) + self._deviation(index)

    def apply(
        self,
        grads: list[tf.Tensor],
        trainable_variables: list[keras.Variable] | None = None,
    ) -> None:
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if not self.built:
                self.build(trainable_variables)
        # Keras builds optimizers in the first step, after its model was called:
        # these gradients are not at draws. TensorFlow traces such a step again;
        # without a graph, the first batch is left out.
        is_first, self._is_new = self._is_new and not self._drawn, False
        if not is_first:
            super().apply(grads, trainable_variables)

    def update_step(
        self,
        gradient: tuple[tf.Tensor, tf.Tensor],
        variable: tf.Variable | keras.Variable,
        learning_rate: float | tf.Tensor | keras.Variable,
    ) -> None:
        """Updates a variable.

        `gradient` is a pair: the gradient, and its product with the deviation
        of the draw from the mean.
        """
        index = self._get_variable_index(variable)
        dtype = tf.as_dtype(variable.dtype)
        count = self._iterations
        if self.num_samples > 1:
            count //= self.num_samples
            is_last = (self._iterations + 1) % self.num_samples == 0
            sums = [each[index] for each in self._sums]
            gradient = tuple(
                total + value
                for total, value in zip(sums, gradient, strict=True)
            )
            for total, value in zip(sums, gradient, strict=True):
                zeros = tf.zeros_like(value)
                self.assign(total, tf.where(is_last, zeros, value))
            gradient = tuple(value / self.num_samples for value in gradient)
        slots = [variable, self._momentums[index], self._precisions[index]]
        before = [tf.convert_to_tensor(slot) for slot in slots]
        loc, momentum, precision = before
        slope, product = gradient
        after = ivon.step(
            loc,
            momentum,
            precision,
            slope,
            product,
            ops.cast(count, dtype),
            ops.cast(learning_rate, dtype),
            self._settings(),
        )
        for slot, old, new in zip(slots, before, after, strict=True):
            if self.num_samples > 1:
                new = tf.where(is_last, new, old)
            self.assign(slot, new)

    def save_own_variables(self, store: Any) -> None:
        super().save_own_variables(store)
        if self.built:
            # Scales depend on them, too.
            store[_TRAINED_WITH] = np.array(self._trained_with(), np.float64)

    def load_own_variables(self, store: Any) -> None:
        state = {key: np.asarray(store[key]) for key in [*store.keys()]}
        trained_with = state.pop(_TRAINED_WITH, None)
        if self.built and trained_with is not None:
            self._check_state(state, trained_with)
        super().load_own_variables(state)

    def get_config(self) -> dict[str, Any]:
        return {
            "learning_rate": super().get_config()["learning_rate"],
            "num_train_examples": self.num_train_examples,
            "prior_scale": self.prior_scale,
            "hessian_init": self.hessian_init,
            "beta_1": self.beta_1,
            "beta_2": self.beta_2,
            "num_samples": self.num_samples,
            "clip_radius": self.clip_radius,
            "seed": self.seed,
            "name": self.name,
        }

    def _backend_update_step(
        self,
        grads: list[tf.Tensor],
        trainable_variables: list[keras.Variable],
        learning_rate: Any,
    ) -> None:
        """Adds the products of gradients and noise, before replicas meet."""
        missing = [
            variable.path
            for variable in trainable_variables
            if self._indices[id(variable)] not in self._drawn
        ]
        if missing:
            raise ValueError(
                "IVON needs gradients at draws of the weights, and these were "
                f"not drawn: {', '.join(missing)}. Compile the model that is "
                "called with this optimizer, build the optimizer first "
                "(`optimizer.build(model.trainable_variables)`), and call that "
                "model itself under the gradient tape, without "
                "rematerialization."
            )
        pairs = []
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            deviation = self._deviation(self._indices[id(variable)])
            # Of an embedding, the gradient is of slices.
            gradient = tf.cast(tf.convert_to_tensor(gradient), deviation.dtype)
            pairs.append((gradient, gradient * deviation))
        super()._backend_update_step(pairs, trainable_variables, learning_rate)
        self._drawn.clear()
        self._deviations.clear()

    def _deviation(self, index: int) -> tf.Tensor:
        """Draws the deviation of a variable from its mean, in this step.

        It is a function of the precision, of the key, and of the numbers of
        batch, replica and variable, made again where it is out of reach.
        """
        known = (threading.get_ident(), index)
        deviation = self._deviations.get(known)
        if _is_in_reach(deviation):
            return deviation
        replica = tf.distribute.get_replica_context()
        number = weight_draws.raw(self._iterations)
        number *= replica.num_replicas_in_sync
        number += tf.cast(replica.replica_id_in_sync_group, number.dtype)
        number = number * len(self._indices) + index
        precision = weight_draws.raw(self._precisions[index])
        deviation = philox.box_muller(
            precision.shape,
            tf.stack([weight_draws.raw(self._key), number]),
            precision.dtype,
        ) * ivon.scale(precision, self.num_train_examples)
        if not tf.executing_eagerly():
            self._deviations[known] = deviation
        return deviation

    def _trained_with(self) -> list[float]:
        scale = self.prior_scale
        return [self.num_train_examples, np.inf if scale is None else scale]

    def _check_state(
        self, state: dict[str, np.ndarray], trained_with: np.ndarray
    ) -> None:
        """Refuses the state of a training with other scales or variables."""
        wanted = [tuple(variable.shape) for variable in self.variables]
        found = [state[str(number)].shape for number in range(len(state))]
        expected = self._trained_with()
        if wanted != found or not np.array_equal(expected, trained_with):
            raise ValueError(
                "IVON can continue only the training that the state was saved "
                "in. Wanted: a state with "
                f"{_described(expected, wanted, found)}. Received: one with "
                f"{_described(trained_with, found, wanted)}"
            )

    def _settings(self) -> ivon.Settings:
        return ivon.Settings(
            self.num_train_examples,
            self.decay,
            self.hessian_init,
            self.beta_1,
            self.beta_2,
            self.clip_radius,
        )


def _described(
    trained_with: Any, shapes: list[tuple], others: list[tuple]
) -> str:
    """Describes a state, with the shapes in which it differs from another."""
    num_train_examples, prior_scale = trained_with
    text = (
        f"num_train_examples={num_train_examples:.0f}, prior_scale="
        f"{prior_scale if np.isfinite(prior_scale) else None} and "
        f"{len(shapes)} arrays"
    )
    if len(shapes) == len(others):
        pairs = zip(shapes, others, strict=True)
        text += "".join(f", {one}" for one, other in pairs if one != other)
    return text


def _check_variables(variables: list[keras.Variable]) -> None:
    if not variables:
        raise ValueError(
            "IVON needs trainable weights. Received: a model without them."
        )
    for variable in variables:
        if variable.dtype not in _DTYPES:
            raise ValueError(
                "IVON needs weights in single or double precision; use a "
                "policy such as 'mixed_bfloat16'. Received: "
                f"'{variable.path}' in {variable.dtype}"
            )
        if variable.regularizer is not None:
            raise ValueError(
                "IVON trains a posterior with the prior N(0, prior_scale**2), "
                "and a regularizer would be a second one: train without it. "
                f"Received: '{variable.path}' with "
                f"{variable.regularizer!r}"
            )


def _is_in_reach(tensor: tf.Tensor | None) -> bool:
    """Returns whether a tensor can be used in the graph being traced."""
    if tensor is None or tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    while graph is not None and graph is not tensor.graph:
        graph = getattr(graph, "outer_graph", None)
    return graph is not None
