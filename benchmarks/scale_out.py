"""Refinement by the workers of a cluster, beside the same in one process.

Both on this machine, whose cores the workers share: so this measures what the
cluster costs, not what it gains. LeNet-5 on images of MNIST's shape, with one
worker and with two. Each run compiles its programs, as users' do; the time of
a run of few steps is taken off.

  python benchmarks/scale_out.py
"""

import functools

import keras
import numpy as np
from _timing import side_by_side

import tfp_refine as tfr

_N, _MEMBERS, _FEW, _MANY = 2048, 4, 10, 60


def _model():
    model = tfr.models.LeNet5((28, 28, 1), 10, num_train_examples=_N)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    return model


def main():
    """Prints the ratios."""
    with tfr.distribute.LocalCluster(num_workers=2) as cluster:
        coordinator = tfr.distribute.connect(cluster.cluster, timeout=300.0)
        rng = np.random.default_rng(0)
        x = rng.normal(size=(_N, 28, 28, 1)).astype(np.float32)
        y = rng.integers(0, 10, _N)
        model = _model()

        def refine(steps, workers):
            tfr.refine(
                model,
                x,
                y,
                num_members=_MEMBERS,
                variance_ratios=(0.5,),
                steps=steps,
                num_eval_samples=1,
                # A worker that gets all members leaves the others idle.
                members_per_batch=_MEMBERS // max(workers, 1),
                coordinator=coordinator if workers else None,
                seed=0,
                verbose=0,
            )

        seconds = side_by_side(
            {
                (workers, steps): functools.partial(refine, steps, workers)
                for workers in (0, 1, 2)
                for steps in (_FEW, _MANY)
            },
            rounds=2,
        )
    step = {
        workers: (seconds[workers, _MANY] - seconds[workers, _FEW])
        / ((_MANY - _FEW) * _MEMBERS)
        for workers in (0, 1, 2)
    }
    print(f"one process: {step[0] * 1e3:.1f} ms for a step of a member")
    for workers in (1, 2):
        print(
            f"{workers} of 2 workers on this machine: "
            f"{step[workers] / step[0]:.2f} times as long; start-up "
            f"{seconds[workers, _FEW] - seconds[0, _FEW]:+.1f} s"
        )


if __name__ == "__main__":
    main()
