"""Tests of mixtures of a system that is fitted from several starts."""

import dataclasses
import re

import numpy as np
import pytest

from tfp_refine import datasets
from tfp_refine.experiments import compare
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

CONFIG = compare.Config(
    hidden=(4,), train_steps=5, likelihood="heteroscedastic", num_samples=6,
    num_members=2, num_starts=3, refine_steps=2, num_eval_samples=2, seed=3,
    progress=False,
)  # fmt: skip


def _repetition(folder=None, **options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2)).astype(np.float32)
    y = x[:, :1].copy()
    data = dataset.Dataset(
        train=(x, y),
        validation=(x[:0], y[:0]),
        test=(x, y),
        scaler=datasets.Standardizer.fit(y),
    )
    config = dataclasses.replace(CONFIG, **options)
    found = config.after_data("regression", (2,), len(x))
    return repetition.Repetition(config.with_defaults(found), data, 1, folder)


def _parse(text):
    return registry.parse(text, fields.Bench)


def test_draws_are_those_of_fits_from_seeds_of_their_own(tmp_path):
    with folder_lib.Folder(tmp_path, "systems", CONFIG, {}) as folder:
        of = _repetition(folder, num_starts=2)
        x = of.data.test[0]
        several, _ = of.fitted(_parse("multi_start(vi)"))
        alone, _ = of.fitted(_parse("vi"))
        draws = several.draws(x)
        assert draws.shape == (6, 12, 2)
        np.testing.assert_array_equal(draws[:3], alone.draws(x)[:3])
        again, _ = of.restarted(1, 2).fitted(_parse("vi"))
        np.testing.assert_array_equal(draws[3:], again.draws(x))
        different = again.model.get_weights()[0]
        assert np.all(different != alone.model.get_weights()[0])
        assert several.num_steps == 2 * alone.num_steps == 10
        assert several.num_numbers == 2 * alone.num_numbers


def test_starts_share_no_seed_with_each_other_and_other_repetitions():
    of, streams = _repetition(), ("weights", "training", "predictions")
    starts = [of, *(of.restarted(number, 3) for number in range(1, 3))]
    starts.append(repetition.Repetition(of.config, of.data, 2))
    starts.append(starts[1].held_out())
    seeds = [[start.seed(stream) for stream in streams] for start in starts]
    assert len(np.unique(seeds[:4])) == 12
    assert seeds[4] == seeds[1]
    assert of.restarted(0, 3).seed("weights") == of.seed("weights")


@pytest.mark.parametrize(
    ("options", "text", "message"),
    [
        ({"num_starts": 4}, "multi_start(vi)", "--num_starts.* 6 and 4"),
        (
            {"num_members": 3},
            "multi_start",
            "--num_starts=3: --num_samples must be .*--num_members.* 2 and 3",
        ),
    ],
)
def test_draws_that_cannot_be_shared_equally_are_refused(
    options, text, message
):
    reason = _repetition(**options).why_not(_parse(text))
    assert re.search(message, reason)
    assert _repetition().why_not(_parse(text)) is None


def test_several_starts_are_of_trained_posteriors():
    assert registry.short(_parse("multi_start(refined(vi))")) == "multi_start"
    title = registry.title(_parse("multi_start(refined(cm))"))
    assert title == "refined VI, collapsed means (CM), several starts"
    with pytest.raises(ValueError, match="a posterior that is trained"):
        _parse("multi_start(map)")
