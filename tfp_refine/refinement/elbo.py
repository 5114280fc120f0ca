"""The variational bound of a model, on all of its training data."""

import numpy as np

from tfp_refine import stateless
from tfp_refine.refinement import engine as engine_lib
from tfp_refine.refinement import progress as progress_lib
from tfp_refine.refinement import sampling_forward
from tfp_refine.refinement import settings as settings_lib


def elbo(model, x, y=None, *, loss=None, num_samples=10, seed=None):
    """Estimates the evidence lower bound (ELBO) of a model.

    `E_q[log p(y | x, w)] - KL(q || p)`, summed over the training set; the KL
    divergence is exact and the expectation an average over draws.

    Args:
        model: Built `keras.Model` with variational layers.
        x: Training inputs, as for `refine`.
        y: Training targets, as for `refine`.
        loss: Negative log likelihood, as for `refine`.
        num_samples: Weight draws. Defaults to `10`.
        seed: Integer that fixes the draws; fresh ones if `None`.

    Returns:
        elbo: Nats, for the whole training set, a float.

    Raises:
        ValueError: As for `refine`.
    """
    seed = stateless.seeds.check(seed)
    settings = settings_lib.check(
        num_members=1,
        members=None,
        variance_ratios=(0.5,),
        learning_rate=1.0,
        learning_rate_decay="constant",
        keep_better=True,
        seed=seed,
        steps=1,
        batch_size=1,
        num_eval_samples=num_samples,
        max_eval_examples=1,
    )
    layout = stateless.WeightLayout(model)
    loss = stateless.example_loss.resolve(model, loss)
    x, y, num_examples = stateless.arrays.examples(x, y)
    stateless.arrays.check_fits(model, x)
    forward = sampling_forward.sampling_forward(model, layout)
    engine = engine_lib.Engine(
        forward, forward.other_values(), loss, x, y, num_examples, settings
    )
    progress = progress_lib.Progress.begin(
        layout.params(), layout.prior(), settings
    )
    log_likelihood, kl = engine.evaluate(
        progress.state, [stateless.seeds.key(seed)], np.arange(num_examples)
    )
    return float(log_likelihood[0] - kl[0])
