import keras
import numpy as np
import pytest

from tfp_refine import functional
from tfp_refine import load_posterior
from tfp_refine.laplace import DiagonalLaplace
from tfp_refine.laplace import LastLayerLaplace

NUM, SIZE, CLASSES = 20, 3, 3


def make_model(seed=1, width=4, outputs=CLASSES, activation="softmax"):
    model = keras.Sequential(
        [
            keras.Input((SIZE,)),
            keras.layers.Dense(width, activation="tanh", name="hidden"),
            keras.layers.Dense(outputs, activation=activation, name="head"),
        ]
    )
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.standard_normal(weight.shape))
    return model


@pytest.fixture
def x(rng):
    return rng.standard_normal((NUM, SIZE)).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "laplace.posterior"


def saved(x, path, **options):
    model = make_model()
    laplace = LastLayerLaplace(model, "classification", **options)
    laplace.fit(x, np.arange(NUM) % CLASSES, verbose=0)
    laplace.save(path)
    return model, laplace


def assert_same(loaded, laplace, x):
    assert type(loaded) is type(laplace)
    np.testing.assert_array_equal(loaded.loc, laplace.loc)
    for power in (2, -2):
        np.testing.assert_allclose(
            loaded.covariance.matrix(power),
            laplace.covariance.matrix(power),
            rtol=1e-12,
        )
    for name in ("prior_precision", "noise_scale", "likelihood", "link"):
        assert getattr(loaded, name) == getattr(laplace, name)
    if loaded.model is laplace.model:
        assert loaded.view.layer is laplace.view.layer
    assert loaded.log_marginal_likelihood() == pytest.approx(
        laplace.log_marginal_likelihood()
    )
    np.testing.assert_array_equal(
        loaded.predict(x, num_samples=5, seed=0),
        laplace.predict(x, num_samples=5, seed=0),
    )


@pytest.mark.parametrize("hessian", ["full", "kron", "diag"])
def test_classification_is_loaded_as_saved(hessian, x, path):
    model, laplace = saved(x, path, hessian=hessian, prior_precision=3.0)
    for given in (model, None):
        loaded = load_posterior(path, given)
        assert type(loaded.hessian) is type(laplace.hessian)
        assert_same(loaded, laplace, x)


def test_regression_is_loaded_as_saved(x, path, rng):
    model = make_model(outputs=2, activation=None)
    laplace = LastLayerLaplace(model, "regression", noise_scale=0.3)
    laplace.fit(x, rng.standard_normal((NUM, 2)), verbose=0).save(path)
    loaded = load_posterior(path, model)
    assert loaded.noise_scale == 0.3
    assert_same(loaded, laplace, x)


def test_one_logit_is_loaded_as_saved(x, path):
    model = make_model(outputs=1, activation="sigmoid")
    laplace = LastLayerLaplace(model, "classification")
    laplace.fit(x, np.arange(NUM) % 2, verbose=0).save(path)
    assert_same(load_posterior(path, model), laplace, x)


def test_all_layers_are_loaded_as_saved(x, path):
    model = make_model()
    laplace = DiagonalLaplace(model, "classification")
    laplace.fit(x, np.arange(NUM) % CLASSES, verbose=0).save(path)
    assert_same(load_posterior(path, model), laplace, x)


def test_optimized_parameters_are_saved(x, path, rng):
    model = make_model(outputs=2, activation=None)
    laplace = LastLayerLaplace(model, "regression")
    laplace.fit(x, rng.standard_normal((NUM, 2)), verbose=0)
    laplace.noise_scale = 0.7
    laplace.prior_precision = 5.0
    laplace.save(path)
    loaded = load_posterior(path, model)
    assert (loaded.noise_scale, loaded.prior_precision) == (0.7, 5.0)
    assert_same(loaded, laplace, x)


def test_subclassed_model_is_loaded_uncalled_by_the_network(x, path):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.head = keras.layers.Dense(CLASSES, name="head")
            self.hidden = keras.layers.Dense(4, activation="tanh")

        def call(self, inputs):
            return self.head(self.hidden(inputs))

    model = Subclassed()
    model(x)
    laplace = LastLayerLaplace(model, "classification")
    laplace.fit(x, np.arange(NUM) % CLASSES, verbose=0).save(path)
    assert_same(load_posterior(path, model), laplace, x)


def test_copy_with_the_same_weights_is_the_same_model(x, path):
    _, laplace = saved(x, path)
    loaded = load_posterior(path, make_model())
    np.testing.assert_array_equal(loaded.loc, laplace.loc)


def test_a_file_that_is_there_is_replaced(x, path):
    saved(x, path, prior_precision=3.0)
    model, laplace = saved(x, path, prior_precision=4.0)
    assert load_posterior(path, model).prior_precision == 4.0
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_text_is_a_path(x, path):
    model, laplace = saved(x, str(path))
    assert_same(load_posterior(str(path), model), laplace, x)


def test_training_data_are_not_saved(x, path):
    model, _ = saved(x, path)
    loaded = load_posterior(path, model)
    assert loaded.training_data is None


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"seed": 2}, "another model"),
        ({"width": 5}, "architecture"),
        ({"outputs": 4}, "architecture"),
    ],
    ids=str,
)
def test_another_model_is_refused(other, message, x, path):
    saved(x, path)
    with pytest.raises(ValueError, match=message):
        load_posterior(path, make_model(**other))


@pytest.mark.parametrize("layer", ["hidden", "head"])
def test_other_weights_of_the_model_are_refused(layer, x, path):
    model, _ = saved(x, path)
    bias = model.get_layer(layer).bias
    bias.assign(bias + 1e-4)
    with pytest.raises(ValueError, match="trained since"):
        load_posterior(path, model)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_truncated_files_are_refused(share, x, path):
    model, _ = saved(x, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="cannot be read"):
        load_posterior(path, model)


def test_damaged_files_are_refused(x, path):
    model, _ = saved(x, path)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="posterior"):
        load_posterior(path, model)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"view": 1},
        {"view": {}},
        {"view": {"select": "last_layer", "layer": "x", "layers": "np"}},
        {"link": {"a": 1}},
        {"link": 1},
        {"family": None},
        {"family": {"hessian": []}},
    ],
    ids=str,
)
def test_descriptions_of_other_kinds_are_refused(change, x, path):
    model, _ = saved(x, path)
    manifest, arrays, contents = functional.files.read(path)
    about = {**manifest["description"], **change}
    functional.files.write(path, manifest["kind"], about, arrays, contents)
    for given in (model, None):
        with pytest.raises(ValueError, match=f"'{path}' cannot be read"):
            load_posterior(path, given)


def test_a_file_whose_model_cannot_be_read_is_named(x, path):
    saved(x, path)
    manifest, arrays, _ = functional.files.read(path)
    functional.files.write(
        path, manifest["kind"], manifest["description"], arrays, b"no model"
    )
    with pytest.raises(ValueError, match=f"'{path}' cannot be read: The mode"):
        load_posterior(path)


def test_what_is_no_file_of_arrays_is_refused(path):
    path.write_text("Not a file of arrays.")
    with pytest.raises(ValueError, match="cannot be read"):
        load_posterior(path, make_model())
    with pytest.raises(ValueError, match="cannot be read"):
        load_posterior(path.parent / "missing.npz", make_model())
    with pytest.raises(ValueError, match="cannot be read"):
        load_posterior(path.parent, make_model())


def test_a_file_of_something_else_is_refused(path):
    np.savez(path, weights=np.zeros(3))
    path = path.with_name(f"{path.name}.npz")
    with pytest.raises(ValueError, match="not a file of tfp_refine"):
        load_posterior(path, make_model())
    functional.files.write(path, "checkpoint", {}, {})
    with pytest.raises(ValueError, match="does not hold a posterior.*checkp"):
        load_posterior(path, make_model())


def test_a_format_of_the_future_is_refused(x, path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(functional.files, "FORMAT", 2)
        model, _ = saved(x, path)
    with pytest.raises(ValueError, match="format is 2.* reads 1"):
        load_posterior(path, model)


def test_what_is_not_fitted_is_not_saved(path):
    with pytest.raises(ValueError, match="fit"):
        LastLayerLaplace(make_model(), "classification").save(path)
    assert not path.exists()


def test_path_that_cannot_be_written_is_named(x, path):
    with pytest.raises(ValueError, match="path"):
        saved(x, path.parent / "missing" / "laplace.posterior")


def test_what_is_no_model_is_refused(x, path):
    saved(x, path)
    with pytest.raises(ValueError, match=r"keras\.Model"):
        load_posterior(path, "model")


def test_a_model_that_was_rebuilt_is_the_same(x, path):
    _, laplace = saved(x, path)
    rebuilt = make_model()
    for number, layer in enumerate(rebuilt.layers):
        layer.name = f"other_{number}"
    loaded = load_posterior(path, rebuilt)
    assert loaded.view.layer is rebuilt.layers[-1]
    np.testing.assert_array_equal(loaded.loc, laplace.loc)


def test_a_model_of_other_activations_is_refused(x, path):
    saved(x, path)
    other = make_model()
    other.layers[0].activation = keras.activations.relu
    with pytest.raises(ValueError, match="architecture"):
        load_posterior(path, other)


def test_a_posterior_does_not_change_with_the_model(x, path):
    model = make_model()
    y = np.arange(NUM) % CLASSES
    laplace = LastLayerLaplace(model, "classification").fit(x, y, verbose=0)
    refined = laplace.refine(flow_length=0, verbose=0)
    found = [
        (
            one.predict(x, 3, seed=0),
            one.predict_proba(x, 3, seed=0),
            one.elbo(3),
        )
        for one in (laplace, refined)
    ]
    moments = laplace.linearized_outputs(x)
    for weight in model.weights:
        weight.assign_add(np.ones(weight.shape))
    for now, then in zip(laplace.linearized_outputs(x), moments, strict=True):
        np.testing.assert_array_equal(now, then)
    for one, before in zip((laplace, refined), found, strict=True):
        one.save(path)
        for posterior in (one, load_posterior(path).set_data(x, y)):
            np.testing.assert_array_equal(
                posterior.predict(x, 3, seed=0), before[0]
            )
            np.testing.assert_array_equal(
                posterior.predict_proba(x, 3, seed=0), before[1]
            )
            np.testing.assert_allclose(posterior.elbo(3), before[2])


def test_layers_that_were_frozen_since_are_noticed(x, path):
    model = make_model()
    model.layers[0].trainable = False
    laplace = DiagonalLaplace(model, "classification")
    laplace.fit(x, np.arange(NUM) % CLASSES, verbose=0)
    before = laplace.predict(x, num_samples=3, seed=0)
    laplace.save(path)
    model.layers[0].trainable = True
    np.testing.assert_array_equal(
        laplace.predict(x, num_samples=3, seed=0), before
    )
    with pytest.raises(ValueError, match="differs in layers or in shapes"):
        load_posterior(path, model)
