r"""The large networks on images: learning, step time and memory.

Trains each network of the zoo without posteriors (MAP), with a mean-field
posterior of all weights (MF-VI) and the same with collapsed means (CM), and
refines the second for a few steps. Prints the negative log likelihood (nats) in
the first and the last quarter of training, that of test images and their
accuracy, CPU seconds of a step in the last quarter, and the memory by which
training makes the process grow.

  python benchmarks/networks.py
  python benchmarks/networks.py --published --networks WideResNet --steps=40
  python benchmarks/networks.py --dataset=mnist --data_dir=DIR

Sizes and data are for minutes on a CPU core: networks are narrow, unless
--published, and images are a subset, resized; the digits of scikit-learn by
default. The Transformer of texts always reads these digits, pixel by pixel.
"""

import argparse
import time

import _memory
import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine.datasets import batches

# Height of images, and arguments for minutes on a CPU core.
_NETWORKS = {
    "AlexNet": (32, {"widths": (24, 64, 96, 96, 64, 64, 64)}),
    "ResNet18": (16, {"filters": 16}),
    "ShuffleNet": (16, {"filters": (48, 96, 192)}),
    "WideResNet": (16, {"width": 1}),
    "VisionTransformer": (
        32, {"width": 48, "depth": 3, "num_heads": 3, "hidden_units": 96}
    ),
    "TextTransformer": (
        None, {"width": 32, "depth": 2, "num_heads": 2, "hidden_units": 64}
    ),
}  # fmt: skip
_POSTERIORS = {
    "MAP": None,
    "MF-VI": tfr.regularizers.GaussianKL("fan_in"),
    "CM": tfr.regularizers.CollapsedMeanKL(prior_scale="fan_in"),
}
# Draws of a prediction, and parts of a training.
_DRAWS, _PARTS = 5, 4


def _arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--networks", nargs="+", choices=_NETWORKS, default=[*_NETWORKS]
    )
    parser.add_argument(
        "--posteriors", nargs="+", choices=_POSTERIORS, default=[*_POSTERIORS]
    )
    parser.add_argument(
        "--published", action="store_true", help="widths of the papers"
    )
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data_dir")
    parser.add_argument("--train_images", type=int, default=2048)
    parser.add_argument("--test_images", type=int, default=500)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--refine_steps", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def _images(size, flags):
    """Returns images `[N, size, size, C]` and classes: training, then test."""
    raw = tfr.datasets.load_images(flags.dataset, flags.data_dir)
    shape = (size, size, raw.x_train.shape[-1])
    data = tfr.datasets.standardized_images(
        raw._replace(
            x_train=tfr.datasets.match_images(
                raw.x_train[: flags.train_images], shape
            ),
            y_train=raw.y_train[: flags.train_images],
            x_test=tfr.datasets.match_images(
                raw.x_test[: flags.test_images], shape
            ),
            y_test=raw.y_test[: flags.test_images],
        )
    )
    return data.x_train, data.y_train, data.x_test, data.y_test


def _tokens(flags):
    """Returns the digits, a token from 1 to 16 for each pixel, and classes."""
    data = tfr.datasets.load_images("digits")
    parts = []
    for x, y, count in (
        (data.x_train, data.y_train, flags.train_images),
        (data.x_test, data.y_test, flags.test_images),
    ):
        parts += [x[:count].reshape([-1, 64]) // 16 + 1, y[:count]]
    return parts


def _build(name, posterior, x, flags):
    regularizer = _POSTERIORS[posterior]
    arguments = {} if flags.published else dict(_NETWORKS[name][1])
    arguments["variational"] = "none"
    if regularizer is not None:
        arguments |= {
            "variational": "full",
            "kernel_regularizer": regularizer,
            "bias_regularizer": regularizer,
            "num_train_examples": len(x),
        }
    sizes = (17, 64) if x.ndim == 2 else (x.shape[1:],)
    model = getattr(tfr.models, name)(
        *sizes, num_classes=10, seed=flags.seed, **arguments
    )
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.9  # averages of 100 steps begin too late here
    model.compile(
        tfr.optimizers.Adam(flags.learning_rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[
            keras.metrics.SparseCategoricalCrossentropy(
                name="nll", from_logits=True
            )
        ],
        jit_compile=False,
    )
    return model


class _Clock(keras.callbacks.Callback):
    """Takes the CPU seconds of each epoch, and keeps the last."""

    def on_epoch_begin(self, epoch, logs=None):
        self._begin = time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds = time.process_time() - self._begin


def _run(name, posterior, flags):
    """Trains a network; returns its printed row."""
    size, _ = _NETWORKS[name]
    x, y, x_test, y_test = (
        _tokens(flags) if size is None else _images(size, flags)
    )
    model = _build(name, posterior, x, flags)
    data = batches.training_batches(x, y, flags.batch_size, flags.seed)
    next(iter(data))  # its memory is not that of training
    clock = _Clock()
    _memory.reset_peak()
    before = _memory.now()
    nll = model.fit(
        data,
        steps_per_epoch=flags.steps // _PARTS,
        epochs=_PARTS,
        callbacks=[clock],
        verbose=0,
        shuffle=False,
    ).history["nll"]
    growth = _memory.peak() - before
    draws = 1 if _POSTERIORS[posterior] is None else _DRAWS
    probs = tfr.posteriors.predict_proba(model, x_test, draws, seed=flags.seed)
    cells = [
        nll[0],
        nll[-1],
        tfr.metrics.negative_log_likelihood(y_test, probs),
        100.0 * np.mean(probs.argmax(-1) == y_test),
        1e3 * clock.seconds * _PARTS / flags.steps,
        growth,
    ]
    text = " ".join(f"{cell:9.3g}" for cell in cells)
    if posterior == "MF-VI":
        text += _refined(model, x, y, flags)
    return text


def _refined(model, x, y, flags):
    """Refines one member; returns the bound before and after, nats."""
    refined = tfr.refine(
        model, x, y, num_members=1, variance_ratios=(0.5, 0.5),
        steps=flags.refine_steps, batch_size=flags.batch_size,
        learning_rate=flags.learning_rate, num_eval_samples=1,
        max_eval_examples=flags.test_images, seed=flags.seed, verbose=0,
    )  # fmt: skip
    before, after = refined.elbo_init[0], refined.elbo_final[0]
    return f"   bound {before:.0f}, refined {after:.0f}"


def main():
    """Prints the table."""
    flags = _arguments()
    heads = ["NLL", "at end", "test NLL", "accuracy", "ms/step", "MiB"]
    print(" " * 24, *(f"{head:>9s}" for head in heads))
    for name in flags.networks:
        for posterior in flags.posteriors:
            (text,) = _memory.results(_run, [(name, posterior, flags)])
            print(f"{name:18s}{posterior:6s}", text, flush=True)


if __name__ == "__main__":
    main()
