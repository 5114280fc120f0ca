"""Refinement of all members at once, beside one `fit` after another.

The UCI network (13-50-1, local reparameterization) refined by our compiled
programs, against the paper's public code: one `model.fit` for each
member and auxiliary variable. Four ways to feed `fit`: as a user would, with
the input pipeline's tuner off (its pauses dwarf steps this short), with the
tuner off and all steps in one long epoch, and that with
`steps_per_execution=100`. The last is the strictest.

Then LeNet-5 (batch 256) and the hybrid ResNet-20 (batch 64) on images of
CIFAR's shape: one member's step, without tracing and evaluation, beside a
training step of `fit`, with the mappings "map" (one member on each core) and
"vmap" in turn: on a CPU, `mapping="auto"` rests on these figures.

Last the part of a refinement that evaluations of the bound take, but for their
compilation: of that of the UCI network, also with 4000 examples, and of LeNet-5
(16x16x1, 3000 images, two auxiliary variables).

  python benchmarks/refinement.py
"""

import functools
import time
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from _timing import side_by_side

import tfp_refine as tfr
from tfp_refine.datasets import batches
from tfp_refine.functional import executor
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import objective as objective_lib
from tfp_refine.refinement import settings as settings_lib
from tfp_refine.refinement import state as state_lib

_N, _MEMBERS, _RATIOS, _STEPS, _BATCH = 455, 10, (0.7,) * 5, 200, 256
_TRAIN_STEPS = 2000

_IMAGES, _IMAGE_MEMBERS, _IMAGE_STEPS = 512, 4, 5
_CLASSIFIERS = {
    "LeNet-5": (tfr.models.LeNet5, 256),
    "ResNet-20": (tfr.models.ResNet20, 64),
}
_MAPPINGS = ("map", "vmap")


def _model(num_examples=_N):
    model = tfr.models.MLP(
        (13,),
        noise_scale=1.0,
        kernel_regularizer="empirical_bayes_kl",
        bias_regularizer="empirical_bayes_kl",
        num_train_examples=num_examples,
    )
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=tfr.losses.HeteroscedasticGaussianNLL(),
        jit_compile=False,
    )
    return model


def _numbers(count):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 13)).astype(np.float32)
    y = np.sin(x[:, :1]) + 0.1 * rng.normal(size=(count, 1))
    return x, y.astype(np.float32)


def _regression():
    x, y = _numbers(_N)
    options = tf.data.Options()
    options.autotune.enabled = False
    per_epoch = -(-_N // _BATCH)
    short = tf.data.Dataset.from_tensor_slices((x, y)).batch(_BATCH)
    long_epoch = batches.training_batches(x, y, _BATCH, seed=0)
    naive, untuned, longest, trained = (_model() for _ in range(4))
    trained.compile(
        optimizer=trained.optimizer,
        loss=trained.loss,
        jit_compile=False,
        steps_per_execution=100,
    )
    refined = _model()
    quiet = {"verbose": 0, "shuffle": False}
    epochs = _STEPS // per_epoch
    seconds = side_by_side(
        {
            "refine": lambda: tfr.refine(
                refined, x, y, num_members=_MEMBERS, variance_ratios=_RATIOS,
                steps=_STEPS, batch_size=_BATCH, seed=0, verbose=0,
            ),
            "longer refine": lambda: tfr.refine(
                refined, x, y, num_members=_MEMBERS, variance_ratios=_RATIOS,
                steps=6 * _STEPS, batch_size=_BATCH, seed=0, verbose=0,
            ),
            "fit": lambda: naive.fit(
                x, y, batch_size=_BATCH, epochs=epochs, verbose=0
            ),
            "fit, tuner off": lambda: untuned.fit(
                short.with_options(options), epochs=epochs, **quiet
            ),
            "fit, one epoch": lambda: longest.fit(
                long_epoch, steps_per_epoch=_STEPS, **quiet
            ),
            "train": lambda: trained.fit(
                long_epoch, steps_per_epoch=_TRAIN_STEPS, **quiet
            ),
        },
        rounds=3,
    )  # fmt: skip
    seconds["fit, 100 steps an execution"] = (
        seconds["train"] / _TRAIN_STEPS * _STEPS
    )
    jobs = _MEMBERS * len(_RATIOS)
    member_steps = jobs * _STEPS
    # The difference of two runs is steps alone, without tracing.
    steps_only = (seconds["longer refine"] - seconds["refine"]) / 5
    print(f"{jobs} jobs of {_STEPS} steps; seconds, and times our own:")
    print(f"  refine, everything          {seconds['refine']:8.2f} s")
    per_step = steps_only / member_steps * 1e3
    print(f"  refine, its steps alone     {steps_only:8.2f} s", end="")
    print(f"   {per_step:.3f} ms per member and step")
    for name in seconds:
        if not name.startswith("fit"):
            continue
        total = seconds[name] * jobs
        print(f"  {name:28s}{total:8.2f} s{total / seconds['refine']:8.1f}x"
              f" everything{total / steps_only:8.1f}x steps")  # fmt: skip
    training = seconds["train"] / _TRAIN_STEPS * 30000
    print(f"30000 steps of mean-field training: {training:.1f} s; refinement "
          f"costs {seconds['refine'] / training:.2f} of it")  # fmt: skip


def _classifier(make, shape=(32, 32, 3), num_examples=_IMAGES):
    model = make(shape, 10, num_train_examples=num_examples, seed=0)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    return model


def _member_steps(make, batch_size):
    """Returns the seconds of a training step and of a member's step."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_IMAGES, 32, 32, 3)).astype(np.float32)
    y = rng.integers(0, 10, size=_IMAGES)
    trained = _classifier(make)
    dataset = batches.training_batches(x, y, batch_size, seed=0)
    refined = _classifier(make)
    objective = objective_lib.RefinementObjective(refined, x, y, None, False)
    settings = settings_lib.Settings(
        num_members=_IMAGE_MEMBERS, variance_ratios=(0.7,),
        steps=_IMAGE_STEPS, batch_size=batch_size, learning_rate=1e-3,
        learning_rate_decay="constant", keep_better=True, num_eval_samples=1,
        max_eval_examples=64, refine_deterministic=False, seed=0,
    )  # fmt: skip
    start = state_lib.RefinementState.begin(objective.starts, settings)

    def refine(engine):
        results = engine.run(
            start.members, start.moments, settings.members, 1e-3, 0,
            _IMAGE_STEPS,
        )  # fmt: skip
        return [result.state.params.numpy() for result in results]

    functions = {
        "train": lambda: trained.fit(
            dataset, steps_per_epoch=_IMAGE_STEPS, verbose=0, shuffle=False
        )
    }
    for mapping in _MAPPINGS:
        engine = engine_lib.Engine(
            objective,
            settings,
            _IMAGE_MEMBERS,
            mapping == "vmap",
            executor.LocalExecutor((objective.fixed, objective.data)),
        )
        functions[mapping] = functools.partial(refine, engine)
    seconds = side_by_side(functions, rounds=3)
    return {
        name: value / _IMAGE_STEPS / (1 if name == "train" else _IMAGE_MEMBERS)
        for name, value in seconds.items()
    }


def _classification():
    for name, (make, batch_size) in _CLASSIFIERS.items():
        steps = _member_steps(make, batch_size)
        print(f"{name}, batch {batch_size}: a training step takes "
              f"{steps['train'] * 1e3:.1f} ms")  # fmt: skip
        for mapping in _MAPPINGS:
            print(f"  a member's step, {mapping:4s}"
                  f" {steps[mapping] * 1e3:8.1f} ms, "
                  f"{steps[mapping] / steps['train']:.2f} of it")  # fmt: skip


def _evaluated(model, x, y, num_members, ratios):
    """Returns the part of the time of a refinement that evaluations take."""
    seconds, evaluate = [], engine_lib.Engine.evaluate

    def timed(*arguments):
        begin = time.perf_counter()
        result = evaluate(*arguments)
        seconds.append(time.perf_counter() - begin)
        return result

    with mock.patch.object(engine_lib.Engine, "evaluate", timed):
        begin = time.perf_counter()
        tfr.refine(
            model, x, y, num_members=num_members, variance_ratios=ratios,
            steps=_STEPS, batch_size=_BATCH, seed=0, verbose=0,
        )  # fmt: skip
        total = time.perf_counter() - begin
    # But for its compilation, the first takes as long as the longest.
    return (sum(seconds[1:]) + max(seconds[1:])) / total


def _evaluations():
    for count in (_N, 4000):
        part = _evaluated(_model(count), *_numbers(count), _MEMBERS, _RATIOS)
        print(f"evaluations with {count} examples: {part:.3f} of a refinement")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 16, 16, 1)).astype(np.float32)
    y = rng.integers(0, 10, size=len(x))
    model = _classifier(tfr.models.LeNet5, x.shape[1:], len(x))
    part = _evaluated(model, x, y, _IMAGE_MEMBERS, _RATIOS[:2])
    print(f"evaluations of LeNet-5: {part:.3f} of a refinement")


def main():
    _regression()
    _classification()
    _evaluations()


if __name__ == "__main__":
    main()
