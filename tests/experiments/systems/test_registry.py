"""All systems by name: parsed, titled, combined, and refused."""

import dataclasses

import numpy as np
import pytest

from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields
from tfp_refine.experiments.harness import folder as folder_lib
from tfp_refine.experiments.systems import networks
from tfp_refine.experiments.systems import registry
from tfp_refine.experiments.systems import repetition

SPECS = config_lib.specs(fields.Bench)
NAMES = sorted({*registry.SYSTEMS, *registry.ALL})


def parse(text):
    return registry.parse(text, fields.Bench)


@pytest.mark.parametrize("name", NAMES)
def test_each_system_has_a_short_name_and_a_title_of_its_own(name):
    found = parse(name)
    assert registry.short(found) == name
    assert parse(str(found)) == found
    assert "{}" not in registry.title(found)
    titles = [registry.title(parse(other)) for other in NAMES]
    assert titles.count(registry.title(found)) == 1
    assert isinstance(registry.network_of(found), networks.Network)
    assert set(registry.fields_of(found)) <= set(SPECS)


@pytest.mark.parametrize(
    ("text", "short", "title"),
    [
        ("refined(vi)", "refined", "refined VI"),
        ("cm(vi)", "cm", "VI, collapsed means (CM)"),
        (
            "refined(cm(iblm(vi)))",
            "refined(cm(iblm))",
            "refined VI, collapsed means (CM), from I-BLM",
        ),
        (
            "refined(vi, num_members=5)",
            "refined(num_members=5)",
            "refined VI (num_members=5)",
        ),
        ("eb(mnf)", "eb(mnf)", "MNF, empirical Bayes (EB)"),
        ("flows(laplace)", "flows", "Laplace, last layer, refined by flows"),
        ("mc_dropout(map)", "mc_dropout", "MC dropout"),
        ("swag(map)", "swag", "SWAG"),
        (
            "multi_swag(adversarial_ensemble)",
            "multi_swag(adversarial_ensemble)",
            "MultiSWAG of deep ensemble, adversarial",
        ),
    ],
)
def test_combinations_are_shortened_and_titled(text, short, title):
    found = parse(text)
    assert registry.short(found) == short
    assert registry.title(found) == title
    assert parse(short) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "must hold names of map, vi.*Received: nothing in nothing"),
        ("lapalce", "Received: lapalce in lapalce. Did you mean laplace"),
        ("refined(cm(nothing))", "Received: nothing in refined"),
        ("vi(map)", "vi starts from no other system"),
        ("refined(map)", "Gaussian posterior: vi or its modifiers"),
        ("refined(mnf)", "refined needs a Gaussian posterior"),
        ("refined(refined)", "refined needs a Gaussian posterior"),
        (
            "temperature(vi)",
            "temperature needs a network of point estimates: map",
        ),
        ("swag(mc_dropout)", "swag needs a network of point estimates"),
        ("iblm(mnf)", "iblm needs a network of variational layers"),
        ("flows(map)", "flows needs a Laplace approximation: laplace or"),
        ("multi_swag(map)", "multi_swag needs trained networks: deep_ensemble"),
        ("mc_dropout(vi)", "mc_dropout needs a network of point estimates"),
        ("cm(eb)", "sets the prior twice"),
        ("iblm(cm(lsuv))", "sets the initializer twice"),
        ("iblm(iblm_paper)", "sets the initializer twice"),
        ("fv(k_tied)", "sets the posterior twice"),
        ("bd(flipout)", "sets the kl scale twice"),
        ("refined(vi, num_steps=3)", "options of refined are.*num_members"),
        ("refined(train_steps=3)", "options of refined are"),
        (
            "bd(kl_scale=2)",
            "options of bd are batch_size, l.*Received: kl_scale",
        ),
        ("temperature(epochs=2)", "options of temperature are none"),
        ("refined(num_members=few)", "--num_members must be an integer"),
        ("cm(alpha_reg=x)", "--alpha_reg must be a number"),
        ("refined(num_members=2, num_members=3)", "num_members twice"),
    ],
)
def test_wrong_systems_are_refused(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse(text)
    assert "--" in str(error.value)


def test_options_change_the_configuration_of_one_system():
    config = fields.Bench()
    found = parse("refined(cm(alpha_reg=0.5), num_members=3)")
    changed = registry.configured(found, config)
    assert changed == dataclasses.replace(config, alpha_reg=0.5, num_members=3)
    assert registry.configured(parse("refined(cm)"), config) is config
    with pytest.raises(ValueError, match="--num_members must be at least 1"):
        registry.configured(parse("refined(num_members=0)"), config)


def test_networks_may_be_trained_for_other_steps_side_by_side():
    config = fields.Bench(train_steps=100, learning_rate=0.1)
    found = parse("deep_ensemble(map(train_steps=20, learning_rate=0.3))")
    changed = registry.configured(found, config)
    assert (changed.train_steps, changed.learning_rate) == (20, 0.3)
    assert {"train_steps", "learning_rate"} <= {*registry.fields_of(found)}


def test_modifiers_describe_a_network():
    found = registry.network_of(parse("refined(scale_mixture(lsuv))"))
    assert found == networks.Network(
        "vi",
        prior="scale_mixture",
        initializer="lsuv",
        estimator="reparameterization",
    )
    assert not found.dropout
    assert registry.network_of(parse("concrete_dropout")).is_random


@pytest.mark.parametrize("name", ["vi", "mc_dropout", "mnf"])
def test_a_network_of_point_estimates_has_no_posterior(name):
    network = registry.network_of(parse(name))
    for model in ("gru", "trained.keras"):
        config = fields.Bench(model=model)
        assert "point estimates" in networks.why_not(network, config)
        assert networks.why_not(networks.Network("map"), config) is None


def _unrecorded(function):
    """Returns a function that copies all fields, which is no use of them."""

    def copying(*arguments, **options):
        before = set(Recorder.read)
        found = function(*arguments, **options)
        Recorder.read.intersection_update(before)
        return found

    return copying


class Recorder(fields.Bench):
    """A configuration whose class records which fields are read."""

    read = set()
    to_json = _unrecorded(fields.Bench.to_json)

    def __getattribute__(self, name):
        if name in SPECS:
            Recorder.read.add(name)
        return super().__getattribute__(name)


@pytest.fixture
def recorded(monkeypatch):
    """Returns the set of the names of the fields that are read."""
    monkeypatch.setattr(
        dataclasses, "replace", _unrecorded(dataclasses.replace)
    )
    return Recorder.read


def _data(is_regression):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(72, 3)).astype(np.float32)
    y = x[:, :1] + 0.5 * rng.normal(size=(72, 1)).astype(np.float32)
    if not is_regression:
        y = (y[:, 0] > 0.0).astype(int)
    pairs = [(x[rows], y[rows]) for rows in np.split(np.arange(72), [40, 64])]
    train, validation, test = pairs
    return dataset.Dataset(
        train=train,
        validation=validation,
        test=test,
        num_classes=None if is_regression else 2,
    )


def _config(**changes):
    config = fields.Bench(
        hidden=(4,), train_steps=30, learning_rate=0.1, segments=2,
        batch_size=8, num_samples=4,
        num_members=2, num_starts=2, refine_steps=2, variance_ratios=("0.5",),
        num_eval_samples=2, mnf_flow_units=3, mnf_auxiliary_units=3, cycles=2,
        samples_per_cycle=1, swag_snapshots=3, swag_rank=2, flow_epochs=1,
        flow_batch_size=8, flow_samples=2, nuts_chains=2, nuts_warmup=4,
        nuts_samples=4, nuts_max_tree_depth=2, dataset="digits",
        validation_fraction=0.2, progress=False, **changes,
    )  # fmt: skip
    return config.with_defaults(config.after_data("table", (3,), 40))


def test_a_deep_ensemble_without_its_schedule_is_refused_before_any_fit():
    config = dataclasses.replace(_config(), learning_rate_schedule="step")
    of = repetition.Repetition(config, _data(is_regression=False))
    for name in ("deep_ensemble", "adversarial_ensemble", "multi_swag"):
        assert "--learning_rate_schedule=step" in of.why_not(parse(name))
    assert of.why_not(parse("swag")) is None


def test_whole_numbers_are_not_moved():
    data = _data(is_regression=False)
    x, y = data.train
    data = dataclasses.replace(data, train=(np.int32(x), y))
    of = repetition.Repetition(_config(), data)
    for name in (
        "adversarial_ensemble",
        "refined_ensemble(adversarial_ensemble)",
    ):
        assert "floating point" in of.why_not(parse(name))
    assert of.why_not(parse("refined_ensemble")) is None


@pytest.fixture(scope="module")
def repetitions(tmp_path_factory):
    """Returns a function that makes a repetition whose fields are recorded."""
    made = {}

    def make(is_regression):
        if is_regression not in made:
            config = _config()
            path = tmp_path_factory.mktemp("systems")
            folder = folder_lib.Folder(path, "test", config, {})
            folder.__enter__()
            config = Recorder(**dataclasses.asdict(config))
            made[is_regression] = repetition.Repetition(
                config, _data(is_regression), 0, folder
            )
        return made[is_regression]

    return make


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The chains have not mixed")
@pytest.mark.parametrize("is_regression", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_fields_that_a_fit_reads_decide_its_folder(
    repetitions, recorded, name, is_regression
):
    of = repetitions(is_regression)
    expression = parse(name)
    if of.why_not(expression) is not None:
        assert is_regression
        assert name == "temperature"
        return
    recorded.clear()
    fitted, costs = of.fitted(expression)
    draws = fitted.draws(of.data.test[0])
    assert draws.shape[1:] == (8, 2)
    assert np.all(np.isfinite(draws))
    assert fitted.num_numbers > 0
    assert costs["fit_seconds"] is not None
    known = {
        name
        for name, spec in SPECS.items()
        if not spec.decides or spec.group in ("data", "model", "training")
    }
    # The number of draws decides measurements: it is in their names.
    known |= {*registry.fields_of(expression), "num_samples"}
    assert recorded - known == set()


def test_every_system_says_what_it_starts_from():
    needs = {system.starts for system in registry.SYSTEMS.values()} - {()}
    assert needs == set(registry._NEEDS)
