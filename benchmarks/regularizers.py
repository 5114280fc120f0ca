"""Training steps with other priors and posteriors, beside the usual ones.

An MLP 784-400-400-10 (batch 128) with local reparameterization, or with weights
drawn for the batch where the prior needs that; one `fit` of some steps each.

  python benchmarks/regularizers.py
"""

import functools

import keras
import numpy as np
from _timing import side_by_side

import tfp_refine as tfr
from tfp_refine.datasets import batches

_N, _BATCH, _STEPS = 2048, 128, 40

_LOCAL = tfr.layers.DenseLocalReparameterization
_WEIGHTS = tfr.layers.DenseReparameterization
# The baseline of each: `_LOCAL` or `_WEIGHTS`, both with GaussianKL.
_CASES = {
    "GaussianKL, LRT": (_LOCAL, {}),
    "CollapsedMeanKL": (_LOCAL, {"kernel_regularizer": "collapsed_mean_kl"}),
    "CollapsedMeanKL, learned": (
        _LOCAL,
        {
            "kernel_regularizer": tfr.regularizers.CollapsedMeanKL(
                learn="gradient"
            )
        },
    ),
    "CollapsedVarianceKL": (
        _LOCAL,
        {"kernel_regularizer": "collapsed_variance_kl"},
    ),
    "CollapsedMeanVarianceKL": (
        _LOCAL,
        {"kernel_regularizer": "collapsed_mean_variance_kl"},
    ),
    "LogUniformKL": (_LOCAL, {"kernel_regularizer": "log_uniform_kl"}),
    "FixedVariancePosterior": (_LOCAL, {"kernel_posterior": "fixed_variance"}),
    "KTiedPosterior, rank 2": (_LOCAL, {"kernel_posterior": "k_tied"}),
    "LowRankPosterior, rank 5": (_LOCAL, {"kernel_posterior": "low_rank"}),
    "GaussianKL, weights": (_WEIGHTS, {}),
    "ScaleMixtureKL": (_WEIGHTS, {"kernel_regularizer": "scale_mixture_kl"}),
}
_BASES = {_LOCAL: "GaussianKL, LRT", _WEIGHTS: "GaussianKL, weights"}


def _model(layer, arguments):
    model = tfr.models.MLP(
        (784,), 10, hidden=(400, 400), layer=layer, num_train_examples=_N,
        seed=0, **arguments,
    )  # fmt: skip
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
        steps_per_execution=_STEPS,
    )
    return model


def main():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_N, 784)).astype(np.float32)
    y = rng.integers(0, 10, size=_N)
    dataset = batches.training_batches(x, y, _BATCH, seed=0)
    functions = {
        name: functools.partial(
            _model(layer, arguments).fit,
            dataset,
            steps_per_epoch=_STEPS,
            verbose=0,
            shuffle=False,
        )
        for name, (layer, arguments) in _CASES.items()
    }
    seconds = side_by_side(functions)
    for name, (layer, _) in _CASES.items():
        base = _BASES[layer]
        print(f"{name:26s}{seconds[name] / _STEPS * 1e3:8.2f} ms a step, "
              f"{seconds[name] / seconds[base]:.2f} of {base}")  # fmt: skip


if __name__ == "__main__":
    main()
