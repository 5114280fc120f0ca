"""Chains that are stopped, and continued."""

import numpy as np
import pytest

from tests.support import exact_laplace
from tests.support import trained_models
from tfp_refine import functional
from tfp_refine import laplace as laplace_lib
from tfp_refine import sampling

# Three segments, of which the last is not used whole.
OPTIONS = {
    "num_chains": 2, "num_warmup": 20, "num_samples": 50, "seed": 3,
    "verbose": 0,
}  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore:The chains have not mixed")


def fitted(separation=0.7):
    model, x, y = trained_models.logistic_regression(
        np.random.default_rng(0), 0.8, separation=separation
    )
    return exact_laplace.ExactLaplace(model, "classification", x, y, 0.8)


def sample(laplace, **options):
    return sampling.nuts_last_layer(laplace, **(OPTIONS | options))


def sample_few(laplace, **options):
    # XLA takes longer to compile than so few take.
    few = {"num_warmup": 4, "num_samples": 8, "jit_compile": False}
    return sample(laplace, **(few | options))


@pytest.fixture(scope="module")
def laplace():
    return fitted()


@pytest.fixture(scope="module")
def expected(laplace):
    return sample(laplace)


@pytest.mark.parametrize("last", [25, 50], ids=["warm_up", "samples"])
@pytest.mark.slow
def test_they_end_with_the_same_samples(
    laplace, expected, tmp_path, monkeypatch, last
):
    update, seen = functional.progress.Progress.update, []

    def interrupt(bar, current, **values):
        update(bar, current, **values)
        seen.append(current)
        if current == last and len(seen) <= 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(functional.progress.Progress, "update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            sample(laplace, checkpoint_dir=tmp_path)
        begun = len(seen)
        found = sample(laplace, checkpoint_dir=tmp_path)
    assert seen[begun:] == [50, 70][begun - 1 :]  # no segment is run again
    np.testing.assert_array_equal(found.samples, expected.samples)
    assert found.diagnostics == expected.diagnostics
    done = sample(laplace, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(done.samples, expected.samples)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4}, {"num_samples": 60}, {"num_chains": 3},
        {"num_warmup": 10}, {"prior_precision": 0.9}, {"max_tree_depth": 5},
        {"target_accept_prob": 0.9},
    ],
    ids=str,
)  # fmt: skip
def test_checkpoints_of_other_chains_are_refused(
    laplace, tmp_path_factory, change
):
    folder = tmp_path_factory.getbasetemp() / "chains"
    sample_few(laplace, checkpoint_dir=folder)
    with pytest.raises(ValueError, match="a different nuts"):
        sample_few(laplace, checkpoint_dir=folder, **change)


@pytest.mark.slow
def test_checkpoints_of_other_data_are_refused(laplace, tmp_path):
    sample_few(laplace, checkpoint_dir=tmp_path)
    with pytest.raises(ValueError, match="inputs|model"):
        sample_few(fitted(separation=0.5), checkpoint_dir=tmp_path)


@pytest.mark.slow
def test_checkpoints_in_other_coordinates_are_refused(tmp_path):
    model, x, y = trained_models.logistic_regression(
        np.random.default_rng(0), 0.8
    )
    posterior = laplace_lib.LastLayerLaplace(
        model, "classification", prior_precision=0.8
    ).fit(x, y, verbose=0)
    sample_few(posterior, prior_precision=0.8, checkpoint_dir=tmp_path)
    posterior.prior_precision = 20.0
    with pytest.raises(ValueError, match="differ in density"):
        sample_few(posterior, prior_precision=0.8, checkpoint_dir=tmp_path)


def test_a_checkpoint_needs_a_seed(laplace, tmp_path):
    with pytest.raises(ValueError, match="needs a `seed`"):
        sample(laplace, checkpoint_dir=tmp_path, seed=None)
