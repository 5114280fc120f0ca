"""Vectorized images, several priors, and what pruning leaves of them."""

import re

import numpy as np
import pytest

from tests.support import experiment_command
from tfp_refine import datasets
from tfp_refine import metrics
from tfp_refine import models
from tfp_refine import posteriors
from tfp_refine.experiments import image_pruning

COMMAND = experiment_command.Command(
    "image",
    "--dataset=digits", "--model=mlp", "--hidden=12,8", "--method=vi",
    "--train_steps=60", "--checkpoint_steps=30", "--num_members=2",
    "--num_samples=4", "--num_eval_samples=1", "--noprogress",
    "--prior_scale=fan_in",
)  # fmt: skip


@pytest.mark.slow
def test_several_priors_make_one_table_and_its_plots(tmp_path):
    process = COMMAND.run(
        f"--output_dir={tmp_path}", "--regularizer=gaussian,collapsed_mean",
        "--pruning", "--flipped_pixels=0,0.3",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    for name in ("gaussian", "collapsed_mean"):
        assert re.search(rf"^{name}, VI +-", process.stdout, re.MULTILINE)
        record = experiment_command.results(tmp_path / name)
        result = record["results"]["vi"]
        first, second = result["shifts"]
        assert (first["shift"], first["strength"]) == ("flipped pixels", 0.0)
        assert first["mll"] == pytest.approx(result["mll"], rel=1e-6)
        assert second["mll"] < first["mll"]
        curve = result["pruning"]["curve"]
        assert curve["removed"][0] == 0
        assert curve["removed"][-1] == 19
        assert (tmp_path / name / "posterior_vi.png").exists()
    comparison = tmp_path / "comparison"
    for name in ("reliability", "pruning"):
        assert (comparison / f"{name}.png").stat().st_size > 10000
    summary = experiment_command.results(comparison)
    assert list(summary) == ["gaussian, VI", "collapsed_mean, VI"]


WRONG = {
    "--hidden must be .*12,many": ["--hidden=12,many"],
    r"`fraction` must be in \[0, 1\]": ["--flipped_pixels=2"],
    "--prior_scale that is a number.*fan_in": ["--method=map"],
    "are for ResNets": ["--batch_norm"],
    "--regularizer must name, once": ["--regularizer=magic"],
    "--pruning: The scales": ["--pruning", "--posterior=k_tied"],
    "--pruning needs hidden layers": ["--pruning", "--hidden="],
    "whose outputs are not added": [
        "--pruning", "--model=resnet8", "--regularizer=gaussian",
    ],
    "--method=refined_vi: .*Student t": [
        "--regularizer=collapsed_variance", "--method=refined_vi",
    ],
}  # fmt: skip


def test_wrong_flags_are_explained(tmp_path):
    messages = COMMAND.messages(
        [[f"--output_dir={tmp_path}", *flags] for flags in WRONG.values()]
    )
    for expected, message in zip(WRONG, messages, strict=True):
        assert re.search(expected, message or ""), (expected, message)


@pytest.fixture(scope="module")
def digits():
    return datasets.standardized_images(datasets.load_images("digits"))


def test_pruning_takes_the_noisiest_units_and_puts_them_back(digits):
    model = models.MLP(
        (8, 8, 1), 10, hidden=(6, 4), num_train_examples=1437, seed=0
    )
    rng = np.random.default_rng(0)
    for layer in model.layers[2:]:
        kernel = layer.variational_weights[0]
        # Units of one ratio of means to deviations each.
        scale = np.abs(kernel.loc) / rng.uniform(0.05, 2.0, layer.units)
        kernel.assign(scale=scale)
    before = model.get_weights()
    seen = []

    def predict(model):
        seen.append(
            [np.all(np.asarray(v.kernel) == 0.0, 0) for v in model.layers[2:]]
        )
        return posteriors.predict(model, digits.x_test, 3, seed=1)

    found = image_pruning.analyze(model, predict, digits.y_test)
    for one, other in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    ratios = np.concatenate(
        [found["units"][f"hidden_{i}"]["signal_to_noise"] for i in (0, 1)]
    )
    curve = found["curve"]
    assert curve["pruned"] == np.sum(ratios < 0.25)
    assert curve["pruned"] == sum(found["pruned"].values())
    assert curve["removed"] == list(range(10))
    for count, removed in zip(curve["removed"], seen, strict=True):
        hidden = np.concatenate(removed[:-1])
        assert set(np.flatnonzero(hidden)) == set(np.argsort(ratios)[:count])
        assert not np.any(removed[-1])
    whole = posteriors.predict(model, digits.x_test, 3, seed=1)
    np.testing.assert_allclose(
        curve["nll"][0],
        metrics.negative_log_likelihood(digits.y_test, whole, from_logits=True),
        rtol=1e-6,
    )
    points = found["layers"]["hidden_0"]
    assert len(points["loc"]) == len(points["scale"]) == 64 * 6
    assert len(points["bias_loc"]) == 6
    assert found["prior_variances"]["hidden_0"] == 1.0
