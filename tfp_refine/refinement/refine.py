"""Refinement of a mean-field posterior, as one function."""

from tfp_refine.refinement import plan as plan_lib


def refine(
    model,
    x,
    y=None,
    *,
    num_members=10,
    variance_ratios=(0.7,) * 5,
    steps=200,
    batch_size=256,
    learning_rate=1e-3,
    learning_rate_decay="constant",
    loss=None,
    keep_better=True,
    num_eval_samples=10,
    max_eval_examples=2048,
    refine_deterministic=False,
    members=None,
    mapping="auto",
    members_per_batch=None,
    coordinator=None,
    checkpoint_dir=None,
    seed=None,
    verbose=1,
):
    """Refines a model's mean-field posterior into an ensemble.

    For each member, auxiliary variables are drawn one after another; each takes
    a part of the prior's variance, and the posterior, conditioned on its value,
    is optimized locally. A mixture of the members is a better posterior than
    the mean field that they start from, and so is its bound.

    The model is not changed. Its deterministic weights and its noise scale stay
    as they are unless `refine_deterministic`, its BatchNorm statistics in any
    case, and the prior is the one that stands when refinement begins. Memory:
    the data, `M * 2 * W` parameters six times over, and the activations of as
    many members as are computed at a time: `members_per_batch` of them, or, if
    mapped, at most one for each core.

    Args:
        model: Trained `keras.Model`, functional or subclassed, with variational
            layers. Its posterior must be mean-field and its prior Gaussian,
            as that of `CollapsedMeanKL` is with the means integrated out.
        x: Training inputs, `[N, ...]` (or nested), or a finite, batched
            `tf.data.Dataset` of `(x, y)`, which is read into memory.
        y: Training targets, `[N, ...]`; `None` for a dataset.
        num_members: `M`, ensemble members.
        variance_ratios: For each auxiliary variable the part of the remaining
            prior variance that it takes, each in (0, 1). The default leaves
            0.24% of the variance. Fractions of the original variance, as the
            paper prints them: `math.variance_schedule.ratios_from_fractions`.
        steps: Adam steps for each auxiliary variable and member.
        batch_size: Examples in a step.
        learning_rate: Adam's before the first auxiliary variable; from there
            in proportion to the conditional prior's standard deviation.
        learning_rate_decay: Within each auxiliary variable: `"constant"` (the
            paper), `"linear"` or `"cosine"` to zero.
        loss: Negative log likelihood: Keras loss, its name, or a callable
            `(y_true, y_pred) -> [B]`, nats. Defaults to the loss that the model
            was compiled with.
        keep_better: Whether an optimization that lowered the bound is undone.
        num_eval_samples: Weight draws in each evaluation of the bound.
        max_eval_examples: Training examples in the evaluations on the way; the
            first and the last evaluation use all of them.
        refine_deterministic: Whether trainable weights without a posterior are
            optimized along, each member's for itself, with their Keras
            regularizers in the loss. The members' bounds then are no longer
            bounds of one model. Defaults to `False`.
        members: Indices of the members to compute, for work on several
            machines; all if `None`. A member's result depends on `seed` and
            its index alone.
        mapping: How members are computed together: `"mapped"`, each on a core
            of its own; `"vectorized"`, each operation for all at once, with
            rounding that depends on `members_per_batch`; or
            `"auto"`: the faster of the two, mapped without an accelerator, and
            by a short trial with one.
        members_per_batch: Members that are computed at a time, which bounds
            memory; all of them if `None`, or with a `coordinator` an equal
            part for each worker.
        coordinator: `tf.distribute.coordinator.ClusterCoordinator`, such as
            `distribute.connect` returns, whose workers compute the members,
            each on all its cores; or `None`: in this process. Each worker
            keeps the data in memory. The result does not depend on which
            worker computes what, nor on workers that die.
        checkpoint_dir: Folder to save progress in, and to continue from: what
            was finished of each member, every ten seconds or so, less often
            if saving takes long.
        seed: Integer that fixes the result; a fresh one if `None`.
        verbose: 0 is silent, 1 a progress bar, 2 a line at the end.

    Returns:
        ensemble: `RefinedEnsemble`.

    Raises:
        ValueError: If an argument is invalid, the data does not fit the model,
            the checkpoint is of another refinement, or the model has no bound
            that refinement could raise: layers with `sample=False`, frozen
            variational weights, constrained weights among those to refine,
            masked outputs, a loss with several values for an example.
        FloatingPointError: If all members diverged.

    Example:

    ```python
    model.fit(x_train, y_train, epochs=1000)
    ensemble = tfp_refine.refine(model, x_train, y_train, seed=1)
    draws = ensemble.predict(x_test)
    ```

    Reference:
        - [Havasi et al., 2021](https://doi.org/10.3390/e23111475)
    """
    options = locals()  # before any other name is bound
    verbose = options.pop("verbose")
    return plan_lib.Plan(**options).run(verbose)
