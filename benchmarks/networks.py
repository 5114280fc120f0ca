r"""The large networks on images: what they learn, step time and memory.

Trains each network of the zoo without posteriors (MAP), with a mean-field
posterior of all weights (MF-VI) and the same with collapsed means (CM), and
refines the second for a few steps. Prints the negative log likelihood (nats) in
the first and the last quarter of training, that of test images and their
accuracy, CPU seconds of a step in the last quarter, and the memory by which
training makes the process grow.

  python benchmarks/networks.py
  python benchmarks/networks.py --dataset=mnist --data_dir=DIR

Sizes and data are for minutes on a CPU core: networks are narrow, and images
are a subset, padded to 32x32; the digits of scikit-learn by default.
"""

import argparse
import time

import _memory
import keras
import numpy as np

import tfp_refine as tfr
from tfp_refine.datasets import batches

_SIZE = 32
_NETWORKS = {
    "AlexNet": {"widths": (24, 64, 96, 96, 64, 64, 64)},
    "ResNet18": {"filters": 8},
    "ShuffleNet": {"filters": (48, 96, 192)},
    "WideResNet": {"width": 1},
    "VisionTransformer": {
        "width": 48, "depth": 3, "num_heads": 3, "hidden_units": 96
    },
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


def _images(flags):
    """Returns training and test images `[N, 32, 32, C]`, and their classes."""
    raw = tfr.datasets.load_images(flags.dataset, flags.data_dir)
    data = tfr.datasets.standardized_images(raw)
    parts = []
    for x, y, count in (
        (data.x_train, data.y_train, flags.train_images),
        (data.x_test, data.y_test, flags.test_images),
    ):
        times = _SIZE // x.shape[1]
        x = x[:count].repeat(times, axis=1).repeat(times, axis=2)
        rest = _SIZE - x.shape[1]
        pads = [(rest // 2, rest - rest // 2)] * 2
        parts += [np.pad(x, [(0, 0), *pads, (0, 0)], "edge"), y[:count]]
    return parts


def _build(name, posterior, shape, num_examples, flags):
    regularizer = _POSTERIORS[posterior]
    arguments = {"variational": "none"}
    if regularizer is not None:
        arguments = {
            "variational": "full",
            "kernel_regularizer": regularizer,
            "bias_regularizer": regularizer,
            "num_train_examples": num_examples,
        }
    model = getattr(tfr.models, name)(
        shape, 10, seed=flags.seed, **_NETWORKS[name], **arguments
    )
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


def _run(name, posterior, flags):
    """Trains a network; returns what is printed of it."""
    x, y, x_test, y_test = _images(flags)
    model = _build(name, posterior, x.shape[1:], len(x), flags)
    quarter = flags.steps // _PARTS
    model.make_train_function()
    before, nll = _memory.now(), []
    for part in range(_PARTS):
        begin = time.process_time()
        history = model.fit(
            batches.training_batches(
                x, y, flags.batch_size, flags.seed, first_step=part * quarter
            ),
            steps_per_epoch=quarter,
            verbose=0,
            shuffle=False,
        ).history
        seconds = (time.process_time() - begin) / quarter
        nll.append(history["nll"][0])
    growth = _memory.peak() - before
    draws = 1 if _POSTERIORS[posterior] is None else _DRAWS
    probs = tfr.posteriors.predict_proba(model, x_test, draws, seed=flags.seed)
    cells = [
        nll[0],
        nll[-1],
        tfr.metrics.negative_log_likelihood(y_test, probs),
        100.0 * np.mean(probs.argmax(-1) == y_test),
        1e3 * seconds,
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
