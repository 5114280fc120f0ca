"""The hybrid ResNet-20 on images of CIFAR's shape, trained and refined."""

import keras
import numpy as np
import pytest

from tfp_refine import datasets
from tfp_refine import models
from tfp_refine import refinement

_BATCH, _STEPS = 64, 300


@pytest.fixture(scope="module")
def images():
    """Digits as CIFAR would have them, `[N, 32, 32, 3]`."""
    raw = datasets.load_images("digits")
    raw = raw._replace(
        x_train=datasets.match_images(raw.x_train, (32, 32, 3)),
        x_test=datasets.match_images(raw.x_test, (32, 32, 3)),
    )
    return datasets.standardized_images(raw)


@pytest.mark.slow
@pytest.mark.parametrize("batch_norm", [False, True])
def test_it_trains_and_refines(images, batch_norm):
    x, y = images.x_train, images.y_train
    model = models.ResNet20(
        x.shape[1:],
        batch_norm=batch_norm,
        kernel_regularizer="empirical_bayes_kl",
        num_train_examples=len(x),
        seed=0,
    )
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    history = model.fit(
        datasets.training_batches(x, y, _BATCH, seed=0),
        steps_per_epoch=_STEPS // 5,
        epochs=5,
        shuffle=False,
        verbose=0,
    ).history
    assert np.all(np.isfinite(history["loss"]))
    assert np.all(np.diff(history["loss"]) < 0.0)
    assert history["accuracy"][-1] > 0.9
    statistics = [np.array(v) for v in model.non_trainable_weights]
    assert bool(statistics) == batch_norm
    ensemble = refinement.refine(
        model, x, y, num_members=2, variance_ratios=(0.5,) * 10, steps=30,
        batch_size=_BATCH, num_eval_samples=1, max_eval_examples=256, seed=0,
        verbose=0,
    )  # fmt: skip
    for name, values in ensemble.history.items():
        assert np.all(np.isfinite(values)), name
    assert np.all(ensemble.elbo_final > ensemble.elbo_init)
    for before, after in zip(
        statistics, ensemble.member(1).non_trainable_weights, strict=True
    ):
        np.testing.assert_array_equal(before, after)
    logits = ensemble.predict(images.x_test, seed=0)
    assert np.all(np.isfinite(logits))
    assert np.mean(np.argmax(logits.mean(0), axis=-1) == images.y_test) > 0.85
