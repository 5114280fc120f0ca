"""Examples in docstrings run, and give the values that they say."""

import ast
import contextlib
import inspect
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow_probability as tfp
from matplotlib import pyplot

import tfp_refine
from tests.structure import docstrings
from tests.support import markdown_code

_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_EXAMPLES = {
    name: "\n".join(found)
    for name, entry in docstrings.public_entries().items()
    if (found := _CODE.findall(inspect.getdoc(entry) or ""))
}
# Programs that connect to a cluster before all other use of TensorFlow, and the
# command that runs them.
_PROGRAMS = {
    "distribute.LocalCluster": [sys.executable],
    "distribute.connect": [
        sys.executable, "-m", "tfp_refine.distribute.local", "--",
        sys.executable,
    ],
}  # fmt: skip
# More than a second each.
_SLOW = {
    "callbacks.ELBOLogger",
    "ensembles.SWAGPosterior",
    "ensembles.deep_ensemble",
    "ensembles.swag",
    "initializers.IBLM",
    "laplace.DiagonalLaplace",
    "layers.set_kl_scale",
    "models.ResNet",
    "models.ResNet18",
    "models.ShuffleNet",
    "plotting.elbo_staircase",
    "posteriors.EnsemblePosterior",
    "posteriors.FlowPosterior",
    "posteriors.MixturePosterior",
    "posteriors.Posterior",
    "posteriors.SamplePosterior",
    "refinement.AdaptiveSteps",
    "refinement.RefinedEnsemble",
    "refinement.RefinementCallback",
    "refinement.elbo",
    "refinement.refine",
    "sampling.cyclical_sghmc",
    "sampling.nuts",
    "sampling.nuts_last_layer",
}
# Where `model` is a trained classifier without posteriors.
_CLASSIFIER = {
    "ensembles.TemperatureScaling",
    "initializers.MOPED",
    "laplace.DiagonalLaplace",
    "laplace.LastLayerLaplace",
    "metrics.NegativeLogLikelihood",
    "models.to_bayesian",
    "models.to_mc_dropout",
    "optimizers.IVON",
    "posteriors.EnsemblePosterior",
    "posteriors.FlowPosterior",
    "posteriors.GaussianPosterior",
    "posteriors.SamplePosterior",
    "posteriors.predict_proba",
    "sampling.nuts",
    "sampling.nuts_last_layer",
}


def regression():
    """Returns data, and a model with posteriors."""
    names = markdown_code.regression_names()
    model = tfp_refine.models.MLP(
        (13,), hidden=(5,), noise_scale=1.0, num_train_examples=60
    )
    model.compile("adam", tfp_refine.losses.HeteroscedasticGaussianNLL())
    return {**names, "model": model}


def classification():
    """Returns data, and a plain model that fits them, but for noise."""
    names = markdown_code.regression_names()
    model = keras.Sequential(
        [
            keras.Input((13,)),
            keras.layers.Dense(5, activation="relu"),
            keras.layers.Dense(2),
        ]
    )
    model.compile("adam", tfp_refine.losses.CategoricalNLL())
    noise = np.random.default_rng(1)
    for part in ("train", "test"):
        logits = np.asarray(model(names[f"x_{part}"]))
        logits = 3.0 * logits + noise.gumbel(size=logits.shape)
        names[f"y_{part}"] = logits.argmax(axis=-1)
    return {**names, "model": model}


def session(name):
    """Returns the names that an example may use without defining them."""
    names = classification() if name in _CLASSIFIER else regression()
    for axis in "xy":
        names[axis] = names[f"{axis}_validation"] = names[f"{axis}_train"]
    return names


def said_values(code):
    """Yields `(statement, value)` of code, with the value after `#`, if any."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        comment = re.search(r"  # (.+)$", lines[statement.end_lineno - 1])
        said = None
        if isinstance(statement, ast.Expr) and comment is not None:
            with contextlib.suppress(SyntaxError, ValueError):  # a remark
                said = ast.literal_eval(comment[1])
        yield statement, said


def run(code, names):
    """Runs an example, and returns how many values were compared."""
    compared = 0
    for statement, said in said_values(code):
        if said is None:
            exec(compile(ast.Module([statement], []), "example", "exec"), names)
            continue
        value = eval(ast.unparse(statement), names)
        np.testing.assert_allclose(value, said, atol=5e-4, err_msg=code)
        compared += 1
    return compared


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in _SLOW))
        for name in _EXAMPLES
        if name not in _PROGRAMS
    ],
)
def test_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = markdown_code.shortened(_EXAMPLES[name])
    names = {"keras": keras, "np": np, "pathlib": pathlib, "tfp": tfp}
    if re.search(r"\b([xy]|[xy]_train|model)\b", code):
        names |= session(name)
    run(code, names | {"tfp_refine": tfp_refine})
    pyplot.close("all")


def test_wrong_values_are_seen():
    assert run("x = 1\nx + 1  # 2\nx  # a remark", {}) == 1
    with pytest.raises(AssertionError, match="Not equal"):
        run("1 + 1  # 3", {})


@pytest.mark.slow
@pytest.mark.parametrize("name", _PROGRAMS)
def test_example_runs_on_a_cluster(name, tmp_path):
    regression()["model"].save(tmp_path / "trained.keras")
    code = (
        "import keras, tfp_refine\n"
        "from tests.support import markdown_code\n"
        "globals().update(markdown_code.regression_names())\n"
        f"{markdown_code.shortened(_EXAMPLES[name])}\n"
        "assert ensemble.num_members == 2\n"
    )
    done = subprocess.run(
        [*_PROGRAMS[name], "-c", code],
        cwd=tmp_path,
        env=markdown_code.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
