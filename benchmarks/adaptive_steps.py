"""Refinement in equal steps, beside steps that adapt to their gain.

Networks with one hidden layer of 50 units and a noise for each input are
trained on splits of energy and yacht and refined (10 members, five auxiliary
variables) in equal steps, and in `AdaptiveSteps` of the same budget and of half
of it. The rate falls to zero in equal steps, and is constant in those that
adapt, and in equal ones for comparison. Prints the steps of a member, and means
of bound and test negative log likelihood in nats and original units; with
differences to equal steps, paired over the splits, with standard errors.

  python benchmarks/adaptive_steps.py [--splits=5]
"""

import argparse

import keras
import numpy as np

import tfp_refine as tfr

_BUDGET, _TRAIN_STEPS, _BATCH = 1000, 5000, 256
_ADAPTIVE = tfr.refinement.AdaptiveSteps
_SETTINGS = {
    "equal": {"steps": _BUDGET // 5},
    "equal, half": {"steps": _BUDGET // 10},
    "equal, constant": {
        "steps": _BUDGET // 5,
        "learning_rate_decay": "constant",
    },
    "adaptive": {"steps": _ADAPTIVE(_BUDGET)},
    "adaptive, half": {"steps": _ADAPTIVE(_BUDGET // 2)},
}


def _trained(data, seed):
    keras.utils.set_random_seed(seed)
    model = tfr.models.MLP(
        data.x_train.shape[1:], 2, num_train_examples=len(data.x_train)
    )
    rate = keras.optimizers.schedules.CosineDecay(1e-2, _TRAIN_STEPS)
    model.compile(
        tfr.optimizers.Adam(rate),
        tfr.losses.HeteroscedasticGaussianNLL(),
        steps_per_execution=100,
    )
    model.fit(
        tfr.datasets.training_batches(
            data.x_train, data.y_train, _BATCH, seed=seed
        ),
        steps_per_epoch=_TRAIN_STEPS,
        shuffle=False,
        verbose=0,
    )
    return model


def _measured(model, data, settings, seed):
    """Refines a model; returns its steps, bound and test NLL."""
    refined = tfr.refine(
        model, data.x_train, data.y_train, seed=seed, verbose=0, **settings
    )
    draws = refined.predict(data.x_test, num_samples=100, seed=seed)
    loc, scale = model.loss.loc_and_scale(draws)
    log_likelihood = -tfr.metrics.gaussian_negative_log_likelihood(
        data.y_test, np.asarray(loc), np.asarray(scale)
    )
    # Of the targets in their own units.
    change = data.y_scaler.inverse_log_likelihood(0.0)
    return (
        np.sum(refined.history["steps"]),
        refined.elbo_final.mean() + len(data.x_train) * change,
        -data.y_scaler.inverse_log_likelihood(log_likelihood),
    )


def _of_set(name, num_splits):
    """Returns measurements, a dict of arrays `[splits, 3]`."""
    found = {label: [] for label in _SETTINGS}
    for split in range(num_splits):
        data = tfr.datasets.train_test_split(tfr.datasets.load_uci(name), split)
        model = _trained(data, split)
        for label, settings in _SETTINGS.items():
            found[label].append(_measured(model, data, settings, split))
    return {label: np.array(values) for label, values in found.items()}


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    num_splits = parser.parse_args().splits
    print("set     steps              taken     ELBO    NLL      differences")
    for name in ("energy", "yacht"):
        found = _of_set(name, num_splits)
        for label, values in found.items():
            steps, bound, nll = values.mean(axis=0)
            gains = values - found["equal"]
            error = gains.std(axis=0, ddof=1) / np.sqrt(num_splits)
            _, *means = gains.mean(axis=0)
            print(f"{name:<7} {label:<16} {steps:7.0f} {bound:8.1f}", end="")
            print(f" {nll:6.3f}  {means[0]:+7.1f} ± {error[1]:.1f}", end="")
            print(f"  {means[1]:+.3f} ± {error[2]:.3f}")


if __name__ == "__main__":
    main()
