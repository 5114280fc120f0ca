"""The contract of every posterior, whatever method it comes from."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfp_refine as tfr
from tests.support import posterior_cases
from tfp_refine import posteriors

X, Y = posterior_cases.data("classes")
SAMPLES = 7

pytestmark = pytest.mark.filterwarnings(
    "ignore:The chains have not mixed", "ignore:.* transitions diverged"
)
# Of classes and data that several methods share, the quick tests have one.
_SLOW = ("laplace_kron", "laplace_diag", "refined_ivon", "swag")
# Other kinds of models: a few methods in the quick tests, all in the slow ones.
_QUICK = ("laplace_full", "deep_ensemble")


def some_quick(names, quick=_QUICK):
    return pytest.mark.parametrize(
        "name",
        [
            name
            if name in quick
            else pytest.param(name, marks=pytest.mark.slow)
            for name in names
        ],
    )


all_methods = some_quick(
    posterior_cases.CLASSIFIERS, set(posterior_cases.CLASSIFIERS) - set(_SLOW)
)
# Of the parts that all posteriors inherit, the draws of each kind are quick.
a_few_methods = some_quick(
    posterior_cases.CLASSIFIERS,
    ("variational", "mc_dropout", "refined", "flow", "cyclical_sghmc"),
)


def make(name, *args, **kwargs):
    return posterior_cases.posterior(name, *args, **kwargs)


@all_methods
def test_it_is_a_posterior_of_a_vector_of_weights(name):
    posterior = make(name)
    assert isinstance(posterior, posteriors.Posterior)
    assert isinstance(posterior.model, keras.Model)
    assert isinstance(posterior.history, dict)
    assert isinstance(posterior.diagnostics, dict)
    if name == "mc_dropout":  # it is the noise that is random
        with pytest.raises(ValueError, match="no variational layers"):
            posterior.sample(4)
        return
    weights = posterior.sample(4, seed=1)
    assert weights.shape[0] == 4
    assert weights.ndim == 2
    np.testing.assert_array_equal(weights, posterior.sample(4, seed=1))
    assert np.all(np.isfinite(weights))


@all_methods
def test_predict_draws_outputs_as_often_as_asked(name):
    posterior = make(name)
    draws = posterior.predict(X, SAMPLES, seed=1)
    assert isinstance(draws, np.ndarray)
    assert draws.shape == (SAMPLES, len(X), posterior_cases.NUM_CLASSES)
    # Logits, as the model returns: rows are not probabilities.
    assert not np.allclose(draws.sum(axis=-1), 1.0, atol=1e-3)
    assert posterior.predict(X[:2], seed=1).shape[0] == 100


@pytest.mark.parametrize("name", ["refined", "deep_ensemble", "multi_swag"])
def test_draws_are_of_the_members_in_turn(name):
    posterior = make(name)
    count = posterior.num_members
    centres = {
        "refined": lambda: posterior.loc,
        "deep_ensemble": lambda: posterior.params,
        "multi_swag": lambda: np.stack([m.loc for m in posterior.members]),
    }[name]()
    expected = np.arange(SAMPLES) % count
    for num_samples in (SAMPLES, count, 1 + count):
        weights = posterior.sample(num_samples, seed=1)
        distances = np.linalg.norm(weights[:, np.newaxis] - centres, axis=-1)
        np.testing.assert_array_equal(
            np.argmin(distances, axis=1), expected[:num_samples]
        )
    # Members are further apart than their draws, in outputs too.
    draws = posterior.predict(X, SAMPLES, seed=1)
    for s in range(count, SAMPLES):
        distances = np.linalg.norm(draws[:count] - draws[s], axis=(1, 2))
        assert np.argmin(distances) == expected[s]


@a_few_methods
def test_a_seed_fixes_the_draws(name):
    posterior = make(name)
    draws = posterior.predict(X, SAMPLES, seed=1)
    np.testing.assert_array_equal(draws, posterior.predict(X, SAMPLES, seed=1))
    np.testing.assert_array_equal(
        draws, tfr.predict(posterior, X, SAMPLES, seed=1)
    )
    assert np.all(np.isfinite(draws))


@a_few_methods
def test_the_seed_of_keras_fixes_draws_without_one(name):
    posterior = make(name)
    keras.utils.set_random_seed(5)
    first, second = (posterior.predict(X, SAMPLES) for _ in range(2))
    keras.utils.set_random_seed(5)
    np.testing.assert_array_equal(first, posterior.predict(X, SAMPLES))
    if name not in ("temperature", "deep_ensemble"):  # their draws are fixed
        assert not np.array_equal(first, second)


@a_few_methods
def test_blocks_of_rows_and_datasets_have_the_same_draws(name):
    posterior = make(name)
    draws = posterior.predict(X, SAMPLES, seed=1, batch_size=16)
    for elements in (X, (X, Y)):
        dataset = tf.data.Dataset.from_tensor_slices(elements).batch(16)
        np.testing.assert_array_equal(
            draws, posterior.predict(dataset, SAMPLES, seed=1)
        )


@all_methods
def test_probabilities_are_averages_over_the_draws(name):
    posterior = make(name)
    draws = posterior.predict(X, SAMPLES, seed=1)
    probs = posterior.predict_proba(X, SAMPLES, method="mc", seed=1)
    assert probs.shape == (len(X), posterior_cases.NUM_CLASSES)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(
        probs, scipy.special.softmax(draws, axis=-1).mean(axis=0), atol=1e-5
    )
    assert probs.flags.writeable


@pytest.mark.slow
@some_quick(posterior_cases.CLASSIFIERS, ("deep_ensemble",))
def test_models_that_return_probabilities_are_not_squashed_again(name):
    posterior = make(name, probabilities=True)
    draws = posterior.predict(X, SAMPLES, seed=1)
    np.testing.assert_allclose(draws.sum(axis=-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(
        posterior.predict_proba(X, SAMPLES, method="mc", seed=1),
        draws.mean(axis=0),
        atol=1e-5,
    )


@pytest.mark.slow
@some_quick(posterior_cases.CLASSIFIERS, ("laplace_full",))
def test_a_single_output_is_about_the_second_class(name):
    _check_single_output(name, probabilities=False)


@pytest.mark.slow
@some_quick(posterior_cases.CLASSIFIERS)
def test_a_single_probability_is_of_the_second_class(name):
    _check_single_output(name, probabilities=True)


def _check_single_output(name, probabilities):
    posterior = make(name, "binary", probabilities)
    x, _ = posterior_cases.data("binary")
    draws = posterior.predict(x, SAMPLES, seed=1)
    assert draws.shape == (SAMPLES, len(x), 1)
    second = draws if probabilities else scipy.special.expit(draws)
    probs = posterior.predict_proba(x, SAMPLES, method="mc", seed=1)
    assert probs.shape == (len(x), 2)
    np.testing.assert_allclose(probs[:, 1:], second.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(probs.sum(axis=-1), 1.0, atol=1e-5)


@a_few_methods
@pytest.mark.parametrize("quantiles", [(0.1, 0.5), ()])
def test_summaries_are_statistics_of_the_same_draws(name, quantiles):
    posterior = make(name)
    num_samples = 40  # of which not all are computed at once
    draws = posterior.predict(X, num_samples, seed=1, batch_size=16)
    found = posterior.summarize(
        X, num_samples, quantiles=quantiles, seed=1, batch_size=16
    )
    np.testing.assert_allclose(found.mean, draws.mean(axis=0), atol=1e-5)
    np.testing.assert_allclose(
        found.std, draws.std(axis=0), rtol=1e-3, atol=1e-5
    )
    if quantiles:
        np.testing.assert_allclose(
            found.quantiles, np.quantile(draws, quantiles, axis=0), atol=1e-4
        )
    else:
        assert found.quantiles is None
    probs = scipy.special.softmax(draws.astype("float64"), axis=-1)
    np.testing.assert_allclose(
        found.entropy, tfr.metrics.predictive_entropy(probs), atol=1e-5
    )
    np.testing.assert_allclose(
        found.mutual_information,
        tfr.metrics.mutual_information(probs),
        atol=1e-5,
    )


@pytest.mark.slow
@some_quick(posterior_cases.REGRESSIONS)
def test_regressions_have_no_probabilities(name):
    posterior = make(name, "regression")
    x, _ = posterior_cases.data("regression")
    draws = posterior.predict(x, SAMPLES, seed=1)
    assert draws.shape == (SAMPLES, len(x), 1)
    found = posterior.summarize(x, SAMPLES, quantiles=(), seed=1)
    np.testing.assert_allclose(found.mean, draws.mean(axis=0), atol=1e-5)
    assert found.quantiles is None
    assert found.entropy is None
    assert found.mutual_information is None
    with pytest.raises(ValueError, match="predict_proba"):
        posterior.predict_proba(x)


@pytest.fixture(scope="module")
def saved(request, tmp_path_factory):
    """Folder with each posterior saved, exported, and its draws."""
    folder = tmp_path_factory.mktemp("posteriors")
    tested, exported = set(), set()
    for item in request.session.items:
        if item.module is request.module and hasattr(item, "callspec"):
            tested.add(item.callspec.params.get("name"))
            if "exported" in item.name:
                exported.add(item.callspec.params["name"])
    for name in [n for n in posterior_cases.CLASSIFIERS if n in tested]:
        posterior = make(name)
        posterior.save(folder / f"{name}.posterior")
        if name in exported:
            posterior.export(folder / name, SAMPLES, seed=1)
        for file, x in ((name, X), (f"{name}-few", X[:3])):
            draws = posterior.predict(x, SAMPLES, seed=1)
            np.save(folder / f"{file}.npy", draws)
    np.save(folder / "x.npy", X)
    return folder


@pytest.fixture(scope="module")
def elsewhere(saved):
    """Differences of draws in another process, by method."""
    program = """
import json, pathlib, sys
import numpy as np
import tensorflow as tf

folder = pathlib.Path(sys.argv[1])
# Graphs that are optimized otherwise round otherwise.
tf.config.optimizer.set_experimental_options(json.loads(sys.argv[2]))
x, found = np.load(folder / "x.npy"), {}
for path in folder.glob("*.posterior"):
    found[path.stem] = []
    if not path.with_suffix("").exists():
        continue
    served = tf.saved_model.load(str(path.with_suffix("")))
    found[path.stem] = [
        float(np.max(np.abs(served.serve(rows) - np.load(file))))
        for rows, file in (
            (x, path.with_suffix(".npy")),
            (x[:3], folder / f"{path.stem}-few.npy"),
        )
    ]
alone = not {"tensorflow_probability", "tfp_refine"} & {*sys.modules}
assert alone, "more than TensorFlow serves"

import tfp_refine as tfr

for path in folder.glob("*.posterior"):
    expected = np.load(path.with_suffix(".npy"))
    draws = tfr.load_posterior(path).predict(x, len(expected), seed=1)
    found[path.stem].append(float(np.max(np.abs(draws - expected))))
print(json.dumps(found))
"""
    done = subprocess.run(
        [
            sys.executable, "-c", program, str(saved),
            json.dumps(tf.config.optimizer.get_experimental_options()),
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@all_methods
def test_saved_posteriors_draw_the_same_in_another_process(name, elsewhere):
    *_, loaded = elsewhere[name]
    assert loaded == 0.0


@pytest.mark.slow
@a_few_methods
def test_exported_posteriors_draw_the_same(name, saved):
    served = tf.saved_model.load(str(saved / name))
    for file, x in ((name, X), (f"{name}-few", X[:3])):
        expected = np.load(saved / f"{file}.npy")
        np.testing.assert_allclose(served.serve(x), expected, atol=1e-5)


@pytest.mark.slow
@a_few_methods
def test_exported_posteriors_draw_the_same_with_tensorflow_alone(
    name, elsewhere
):
    served, for_fewer_rows, _ = elsewhere[name]
    assert served < 1e-5
    assert for_fewer_rows < 1e-5


@all_methods
def test_history_and_diagnostics_are_saved(name, saved):
    posterior = make(name)
    loaded = tfr.load_posterior(saved / f"{name}.posterior")
    assert type(loaded) is type(posterior)
    assert loaded.diagnostics == posterior.diagnostics
    assert set(loaded.history) == set(posterior.history)
    for key, value in posterior.history.items():
        np.testing.assert_array_equal(loaded.history[key], value)


@a_few_methods
def test_a_posterior_may_be_loaded_for_its_model(name, saved):
    posterior = make(name)
    loaded = tfr.load_posterior(saved / f"{name}.posterior", posterior.model)
    assert loaded.model is posterior.model
    np.testing.assert_array_equal(
        loaded.predict(X, SAMPLES, seed=1), np.load(saved / f"{name}.npy")
    )


@a_few_methods
def test_another_model_is_refused(name, saved):
    other = keras.Sequential(
        [
            keras.Input((posterior_cases.NUM_FEATURES,)),
            keras.layers.Dense(posterior_cases.NUM_CLASSES),
        ]
    )
    with pytest.raises(ValueError, match="model"):
        tfr.load_posterior(saved / f"{name}.posterior", other)


@pytest.mark.parametrize(
    "name",
    ["variational", "laplace_full", "flow", "nuts", "temperature"],
)
def test_a_model_that_has_changed_is_refused(name, saved):
    path = saved / f"{name}.posterior"
    model = tfr.load_posterior(path).model
    model.layers[0].trainable_weights[0].assign(
        2.0 * model.layers[0].trainable_weights[0]
    )
    with pytest.raises(ValueError, match="`model` must have the weights"):
        tfr.load_posterior(path, model)


@a_few_methods
def test_damaged_and_foreign_files_are_refused(name, saved, tmp_path):
    contents = (saved / f"{name}.posterior").read_bytes()
    damaged = tmp_path / "damaged.posterior"
    middle = len(contents) // 3
    damaged.write_bytes(
        contents[:middle]
        + bytes(255 - b for b in contents[middle : middle + 64])
        + contents[middle + 64 :]
    )
    with pytest.raises(ValueError, match=r"damaged\.posterior"):
        tfr.load_posterior(damaged)


@pytest.mark.slow
@all_methods
def test_the_posterior_does_not_change_with_its_model(name, saved):
    if name in ("variational", "mc_dropout"):
        pytest.skip("It follows its model, as documented.")
    posterior = tfr.load_posterior(saved / f"{name}.posterior")
    before = posterior.predict(X, SAMPLES, seed=1)
    for weight in posterior.model.weights:
        weight.assign(weight + 1.0)
    np.testing.assert_array_equal(before, posterior.predict(X, SAMPLES, seed=1))


@a_few_methods
@pytest.mark.parametrize(
    ("method", "arguments", "match"),
    [
        ("predict", {"num_samples": 0}, "num_samples.*0"),
        ("predict", {"num_samples": 2.5}, "num_samples.*2.5"),
        ("predict", {"batch_size": -1}, "batch_size.*-1"),
        ("predict", {"seed": "a"}, "seed.*'a'"),
        ("predict_proba", {"method": "exact"}, "method.*'exact'"),
        ("summarize", {"quantiles": (0.5, 1.0)}, r"quantiles.*1\.0"),
        ("summarize", {"quantiles": (0.0,)}, r"quantiles.*0\.0"),
    ],
)
def test_bad_arguments_are_refused(name, method, arguments, match):
    with pytest.raises(ValueError, match=match):
        getattr(make(name), method)(X, **arguments)


@a_few_methods
def test_bad_inputs_are_refused(name):
    posterior = make(name)
    for x in (X[:, :2], X[:0], np.full_like(X, np.nan)):
        with pytest.raises(ValueError, match=r"x|shape|inputs"):
            posterior.predict(x, SAMPLES)


@pytest.mark.parametrize("name", ["refined", "deep_ensemble", "multi_swag"])
def test_fewer_draws_than_members_are_of_the_first(name):
    posterior = make(name)
    with pytest.warns(UserWarning, match="num_samples=2"):
        draws = posterior.predict(X, 2, seed=1)
    if name == "deep_ensemble":
        np.testing.assert_array_equal(
            draws, posterior.predict(X, 3, seed=1)[:2]
        )


@pytest.mark.parametrize("name", ["refined", "deep_ensemble"])
def test_members_are_copies(name):
    posterior = make(name)
    before = [np.array(w) for w in posterior.model.weights]
    members = [posterior.member(i) for i in range(posterior.num_members)]
    assert len({id(member) for member in members}) == len(members)
    assert posterior.model not in members
    for weight, value in zip(posterior.model.weights, before, strict=True):
        np.testing.assert_array_equal(weight, value)
    with tfr.layers.mean_weights():
        outputs = [np.asarray(member(X)) for member in members]
    assert not np.allclose(outputs[0], outputs[1])
    if name == "deep_ensemble":
        np.testing.assert_allclose(
            outputs, posterior.predict(X, len(members)), atol=1e-5
        )
    for index in (-1, len(members)):
        with pytest.raises(IndexError, match=f"index={index}"):
            posterior.member(index)
