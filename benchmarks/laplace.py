"""What Laplace's approximation costs with many classes.

Peak memory and times of a last layer of 1000 classes and 512 features, with a
Kronecker-factored Hessian, in a process of its own (Linux): synthetic data,
20000 examples to fit and 1000 to predict.

  python benchmarks/laplace.py
"""

import time

import _memory
import keras
import numpy as np

import tfp_refine as tfr

_CLASSES, _FEATURES, _FIT, _PREDICT = 1000, 512, 20000, 1000


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
    laplace.predict(x[_FIT:], predictive, 20, seed=0, average=True)
    print(
        f"  {predictive}: fit {fitted - begin:.1f} s, prior "
        f"{tuned - fitted:.1f} s, predict {time.perf_counter() - tuned:.1f} s",
        flush=True,
    )


def main():
    """Prints the table."""
    print(f"{_CLASSES} classes, {_FEATURES} features, {_FIT} examples")
    cases = [("probit",), ("mc",), ("mean_field",)]
    for (name,), peak in zip(
        cases, _memory.peaks(_many_classes, cases), strict=True
    ):
        print(f"  {name}: peak memory {peak:.0f} MiB")


if __name__ == "__main__":
    main()
