"""The posterior of a logistic regression with two weights."""

import numpy as np
import pytest
from scipy import special
from scipy import stats

from tfp_refine.experiments import laplace
from tfp_refine.experiments.laplace import toy as toy_lib


def test_the_density_is_that_of_logistic_regression():
    toy = toy_lib.Toy(laplace.Config(toy_points=20, toy_prior_scale=3.0))
    assert toy.x.shape == (20, 2)
    theta = np.random.default_rng(0).normal(size=(5, 2))
    prob = special.expit(theta @ toy.x.T.astype(np.float64))
    expected = stats.bernoulli.logpmf(toy.y, prob).sum(axis=-1)
    expected += stats.norm.logpdf(theta, scale=3.0).sum(axis=-1)
    found = toy.log_joint(theta)
    np.testing.assert_allclose(
        found - found[0], expected - expected[0], rtol=1e-6, atol=1e-6
    )


def test_the_seed_fixes_the_data():
    first, again, other = (
        toy_lib.Toy(laplace.Config(seed=seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first.x, again.x)
    assert np.any(first.x != other.x)


@pytest.mark.parametrize(
    ("systems", "flows"),
    [
        (
            laplace.Config().systems,
            [f"flows(flow_length={n})" for n in (1, 5, 10, 30)],
        ),
        (("all",), ["flows", "refined(laplace)"]),
        (("map", "flows(laplace_all)"), []),
        (("refined", "refined(laplace)"), ["refined(laplace)"]),
    ],
)
def test_what_refines_laplace_is_taken(systems, flows):
    found = toy_lib.systems_of(laplace.Config(systems=systems))
    assert list(found) == ["laplace", "vi", *flows, "nuts"]
    for name, config in found.items():
        length = int(name.strip(")").split("=")[1]) if "=" in name else 5
        assert config.flow_length == length


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy")
    config = laplace.Config(
        tasks=("toy",), output_dir=str(path), progress=False,
        systems=("flows", "refined(laplace, refine_learning_rate=0.3)"),
        num_members=50,
    )  # fmt: skip
    return config, laplace.run(config)["toy"]


def values(results, metric):
    rows = results.rows[results.rows["metric"] == metric]
    return dict(zip(rows["system"], rows["value"], strict=True))


@pytest.mark.slow
def test_refinement_comes_closer(finished):
    config, results = finished
    mmd, elbo = values(results, "mmd"), values(results, "elbo")
    refined = "refined(laplace, refine_learning_rate=0.3)"
    assert list(mmd) == ["laplace", "vi", "flows", refined, "nuts"]
    assert mmd["nuts"] < 3.0 * mmd["flows"] < mmd["laplace"] < mmd["vi"]
    assert 2.0 * mmd[refined] < mmd["laplace"]  # of 50 members
    assert min(elbo["flows"], elbo[refined]) > elbo["laplace"]
    assert values(results, "max_r_hat")["nuts"] < 1.01
    assert set(results.rows["dataset"]) == {"toy"}
    assert (results.path / "toy.png").stat().st_size > 10000


@pytest.mark.slow
def test_what_was_sampled_is_read(finished, monkeypatch, capsys):
    config, results = finished
    monkeypatch.setattr(toy_lib.Toy, "sample", None)
    again = laplace.run(config)["toy"]
    assert again.rows.equals(results.rows)
    output = capsys.readouterr().out
    assert "VI, factorized" in output
    assert "refined, 5 flows" in output
    assert "R-hat" in output
