"""Errors with which predictions are integrated."""

import numpy as np
import pytest

from tfp_refine.experiments import laplace
from tfp_refine.experiments.laplace import integration


@pytest.fixture(autouse=True)
def _few_cases(monkeypatch):
    monkeypatch.setattr(integration, "_CASES", 3)


@pytest.mark.slow
def test_errors_are_as_known():
    binary = integration.binary_errors()
    several = integration.errors_of_classes(seed=0)
    assert 0.015 < np.max(binary["probit"]) < 0.0165
    means, scales = np.array(binary["means"]), np.array(binary["scales"])
    # A wide logit is a coin: the variance of its probability is nearly 1/4.
    assert 0.42 < binary["mc"][0][-1] < 0.5
    assert binary["mc"][0][0] < 1e-6
    assert (len(means), len(scales)) == np.shape(binary["probit"])
    rng = np.random.default_rng(0)
    draws = 1.0 / (1.0 + np.exp(-rng.normal(means[8], scales[12], 200000)))
    np.testing.assert_allclose(binary["mc"][8][12], draws.std(), rtol=0.02)
    assert list(several) == ["2", "5", "10", "100"]
    assert several["2"]["mean_field"] < 0.017
    for errors in several.values():
        assert errors["draws/1000/monte_carlo"] < errors["draws/20/monte_carlo"]


@pytest.mark.slow
def test_the_task_writes_a_table_and_a_figure(tmp_path, capsys, monkeypatch):
    config = laplace.Config(tasks=("integration",), output_dir=str(tmp_path))
    results = laplace.run(config)["integration"]
    found = results.rows.set_index(["system", "metric"])["value"]
    binary = integration.binary_errors()
    assert found["sigmoid", "worst/probit"] == np.max(binary["probit"])
    assert found["sigmoid", "probit"] == np.mean(binary["probit"])
    np.testing.assert_allclose(
        found["sigmoid", "draws/100/monte_carlo"], np.mean(binary["mc"]) / 10.0
    )
    assert len(found) == 5 + 4 * 4
    output = capsys.readouterr().out
    assert "softmax, 100 classes" in output
    assert f"{found['sigmoid', 'probit']:.4f}" in output
    assert (results.path / "integration.png").stat().st_size > 10000
    monkeypatch.setattr(integration, "errors_of_classes", None)
    again = laplace.run(config)["integration"]  # from the record
    assert again.rows.equals(results.rows)
