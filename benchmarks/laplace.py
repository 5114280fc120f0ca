"""Cost of Laplace's approximation and of its refinement.

An epoch of refinement of LeNet-5's last layer (28x28x1), over one of training
the network: synthetic data, batch 128. Then peak memory and times of a last
layer of 1000 classes and 512 features, with a Kronecker-factored Hessian, each
in a process of its own (Linux): synthetic data, 20000 examples to fit and 1000
to predict.

  python benchmarks/laplace.py
"""

import time

import _memory
import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine.laplace import refinement

_CLASSES, _FEATURES, _FIT, _PREDICT = 1000, 512, 20000, 1000
_IMAGES, _BATCH = 12800, 128
# Space, flows, draws in a step: the defaults of both spaces.
_REFINEMENTS = (
    ("whitened", 1, 16),
    ("whitened", 5, 16),
    ("whitened", 30, 16),
    ("paper", 1, 1),
    ("paper", 5, 1),
    ("paper", 30, 1),
)


def _refinement():
    """Prints the time of an epoch of refinement over one of training."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(_IMAGES, 28, 28, 1)).astype(np.float32)
    y = rng.integers(0, 10, _IMAGES)
    model = tfr.models.LeNet5(
        x.shape[1:],
        10,
        conv_layer=keras.layers.Conv2D,
        dense_layer=keras.layers.Dense,
    )
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=_IMAGES // _BATCH,
        jit_compile=False,
    )

    def seconds(function, **options):
        begin = time.perf_counter()
        function(verbose=0, **options)
        return time.perf_counter() - begin

    def train(**options):
        model.fit(x, y, batch_size=_BATCH, **options)

    train(verbose=0)
    training = seconds(train, epochs=3) / 3
    print(f"training: {training:.2f} s an epoch of {_IMAGES} images")
    laplace = tfr.laplace.LastLayerLaplace(model, "classification")
    first, again = (seconds(laplace.fit, x=x, y=y) for _ in range(2))
    print(
        f"  fit: {again:.2f} s, ratio {again / training:.2f}; "
        f"{first - again:.1f} s to compile"
    )
    for space, length, draws in _REFINEMENTS:

        def refine(space=space, length=length, draws=draws, **options):
            refinement.refine(
                laplace,
                flow=refinement.Flow("radial", length, space),
                num_samples=draws,
                batch_size=_BATCH,
                **options,
            )

        once = seconds(refine, epochs=1)
        epoch = (seconds(refine, epochs=11) - once) / 10
        print(
            f"  {space}, {length} flows, {draws} draws: {epoch:.3f} s an "
            f"epoch, ratio {epoch / training:.3f}; {once - epoch:.1f} s to "
            "compile",
            flush=True,
        )


def _many_classes(predictive):
    """Fits, and predicts, with thousands of outputs; prints times."""
    rng = np.random.default_rng(0)
    model = keras.Sequential(
        [keras.Input((_FEATURES,)), keras.layers.Dense(_CLASSES)]
    )
    x = rng.normal(size=(_FIT + _PREDICT, _FEATURES)).astype(np.float32)
    y = rng.integers(0, _CLASSES, _FIT)
    laplace = tfr.laplace.LastLayerLaplace(model, "classification", "kron")
    begin = time.perf_counter()
    laplace.fit(x[:_FIT], y, verbose=0)
    fitted = time.perf_counter()
    laplace.optimize_prior_precision()
    tuned = time.perf_counter()
    laplace.predict_proba(x[_FIT:], 20, method=predictive, seed=0)
    print(
        f"  {predictive}: fit {fitted - begin:.1f} s, prior "
        f"{tuned - fitted:.1f} s, predict {time.perf_counter() - tuned:.1f} s",
        flush=True,
    )


def main():
    """Prints the tables."""
    _refinement()
    print(f"{_CLASSES} classes, {_FEATURES} features, {_FIT} examples")
    cases = [("probit",), ("mc",), ("mean_field",)]
    for (name,), peak in zip(
        cases, _memory.peaks(_many_classes, cases), strict=True
    ):
        print(f"  {name}: peak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
