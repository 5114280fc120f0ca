"""Facts of the comparison, as JSON: its modules define flags of a process.

python -m tests.support.compare_facts FOLDER
"""

import json
import pathlib
import sys
from types import SimpleNamespace

import numpy as np
from absl import flags

from tfp_refine import ensembles
from tfp_refine import initializers
from tfp_refine import laplace
from tfp_refine import posteriors
from tfp_refine import sampling
from tfp_refine.experiments import compare
from tfp_refine.experiments import compare_baselines
from tfp_refine.experiments import compare_data
from tfp_refine.experiments import compare_laplace
from tfp_refine.experiments import compare_networks
from tfp_refine.experiments import compare_report
from tfp_refine.experiments import compare_run
from tfp_refine.experiments import compare_systems
from tfp_refine.experiments import compare_variational
from tfp_refine.experiments import fitted
from tfp_refine.experiments import posterior_diagnostics

STEPS = 20
_FLAGS = (
    "--methods=all", "--dataset=iris", f"--train_steps={STEPS}",
    "--noprogress", "--prior_scale=0.5", "--precision_shape=0.7",
    "--precision_rate=0.3", "--alpha_reg=0.2", "--dropout=0.3",
    "--learning_rate=0.02", "--initial_scale=0.05", "--num_members=3",
    "--steps=4", "--variance_ratios=0.5,0.5", "--swag_snapshots=5",
    "--swag_rank=4", "--cycles=2", "--samples_per_cycle=5",
    "--sgd_learning_rate=0.03", "--temperature=0.6", "--flow_length=3",
    "--adversarial_epsilon=0.04", "--batch_size=16", "--num_samples=30",
    "--max_laplace_weights=403", "--max_sampled_weights=402",
)  # fmt: skip


def main():
    """Writes the facts."""
    folder = pathlib.Path(sys.argv[1])
    flags.FLAGS([sys.argv[0], *_FLAGS, f"--output_dir={folder}"])
    compare.make()
    run = compare_run.Run(0, compare_data.load(0), None)
    facts = {
        "num_train": len(run.data.train[1]),
        "num_weights": run.num_weights,
        "seeds": [
            compare_run.Run(number, run.data, None).seed(stream)
            for number in (0, 1)
            for stream in (0, 1, 2)
        ],
        "total": _totals(),
        "reasons": _reasons(),
        "networks": {
            name: _network(compare_networks.build(name, run.data, 1, STEPS))
            for name, system in compare_systems.SYSTEMS.items()
            if system.fit is compare_variational.network
        },
        "regression": _network(
            compare_networks.build(
                "map",
                SimpleNamespace(train=run.data.train, num_classes=None),
                1,
                STEPS,
            )
        ),
        "initialized_by_iblm": _initialized_by_iblm(run),
        "ensembles": _ensembles(run),
        "temperature": _temperature(run),
        "longer": _longer(run),
        "laplace": _laplace(run),
        "laplace_sizes": _laplace_sizes(run),
        "report": _report(folder),
    }
    json.dump(facts, sys.stdout)


def _totals():
    own = {"fit_seconds": 2.0, "memory": 5.0}
    bases = [{"fit_seconds": 3.0, "memory": 4.0}]
    return {
        "fit_seconds": compare_run._total(sum, own, bases, "fit_seconds"),
        "unknown": compare_run._total(sum, own, [{"a": 1, "fit_seconds": None}],
                                      "fit_seconds"),
    }  # fmt: skip


def _reasons():
    run = SimpleNamespace(data=SimpleNamespace(num_classes=3), num_weights=403)
    return [
        compare_laplace.why_no_laplace(run),
        compare_laplace.why_not_all_layers(run),
        compare_laplace.why_not_sampled(run),
    ]


def _network(model):
    layer = next(one for one in model.layers if one.weights)
    config = layer.get_config()
    names = ("kernel_regularizer", "bias_regularizer", "kernel_posterior",
             "bias_posterior")  # fmt: skip
    return {
        "layers": [type(one).__name__ for one in model.layers],
        **{
            name: [config[name]["class_name"], config[name]["config"]]
            for name in names
            if config.get(name)
        },
        "kl_scale": config.get("kl_scale"),
        "num_train_examples": config.get("num_train_examples"),
        "flow_length": config.get("flow_length"),
        "rates": [
            float(model.optimizer.learning_rate),
            float(model.optimizer._learning_rate(STEPS // 2)),
            float(model.optimizer._learning_rate(STEPS)),
        ],
        "drops": [float(one.rate) for one in model.layers
                  if hasattr(one, "rate")],
    }  # fmt: skip


def _initialized_by_iblm(run):
    called = []

    class Recorder(initializers.IBLM):
        def __call__(self, model, x, y):
            called.append([len(x), len(y)])

    original, initializers.IBLM = initializers.IBLM, Recorder
    for name in ("vi", "vi_iblm"):
        compare_networks.build(name, run.data, 1, STEPS)
    initializers.IBLM = original
    return called


def _ensembles(run):
    made = {}

    def recorder(name):
        def record(*args, **options):
            made[name] = {
                k: v
                for k, v in options.items()
                if isinstance(v, int | float | str)
            }
            covariance = posteriors.covariances.LowRank(
                np.zeros(3), np.zeros((4, 3))
            )
            gaussian = SimpleNamespace(loc=np.zeros(3), covariance=covariance)
            return SimpleNamespace(
                params=np.zeros((2, 3)),
                samples=np.zeros((2, 3)),
                members=(gaussian, gaussian),
            )

        return record

    start = fitted.Fitted(None, 100, 7, model=compare_networks.build(
        "map", run.data, 1, STEPS))  # fmt: skip
    found = {}
    for name, fit, arguments in (
        ("deep_ensemble", compare_baselines.deep_ensemble, ()),
        ("deep_ensemble_adversarial", compare_baselines.deep_ensemble, ()),
        ("swag", compare_baselines.swag, (start,)),
        ("cyclical_sghmc", compare_baselines.cyclical_sghmc, (start,)),
    ):
        target = name.removesuffix("_adversarial")
        room = sampling if target == "cyclical_sghmc" else ensembles
        original = getattr(room, target)
        setattr(room, target, recorder(name))
        result = fit(run, name, None, *arguments)
        setattr(room, target, original)
        found[name] = made[name] | {
            "num_steps": result.num_steps,
            "num_numbers": result.num_numbers,
        }
    return found


def _temperature(run):
    model = compare_networks.build("map", run.data, 1, STEPS)
    model.fit(*run.data.train, epochs=2, verbose=0)
    start = fitted.Fitted(None, 100, 7, model=model, seconds=3.0)
    x = run.data.test[0]
    # Labels of its validation data are drawn from its own predictions, but
    # half as sure; the training data are far from that.
    logits = np.asarray(model(run.data.validation[0]), np.float64)
    noise = np.random.default_rng(0).gumbel(size=logits.shape)
    data = run.data._replace(
        validation=(
            run.data.validation[0],
            np.argmax(0.5 * logits + noise, axis=-1),
        )
    )
    scaled = compare_baselines.temperature(
        SimpleNamespace(data=data), None, None, start
    )
    (found,), expected = scaled.draws(x), np.asarray(model(x))
    expected = expected / scaled.about["temperature"]
    direct = ensembles.TemperatureScaling(model).fit(*data.validation)
    return {
        "error": float(np.max(np.abs(found - expected))),
        "temperatures": [scaled.about["temperature"], direct.temperature],
        "num_numbers": scaled.num_numbers,
        "seconds": scaled.seconds,
    }


def _longer(run):
    vi = compare_networks.build("vi", run.data, 5, STEPS)
    seen = {}

    def trained(run, name, model, steps, directory, built):
        seen["steps"] = steps
        seen["same"] = all(
            np.array_equal(one, other)
            for one, other in zip(
                model.get_weights(), vi.get_weights(), strict=True
            )
        )
        return fitted.Fitted(None, steps, 7, history=[1])

    original, compare_variational._trained = (
        compare_variational._trained,
        trained,
    )
    result = compare_variational.longer(
        run, "vi_longer", None, fitted.Fitted(None, 100, 7, model=vi)
    )
    compare_variational._trained = original
    return seen | {"num_steps": result.num_steps, "history": result.history}


def _laplace(run):
    asked = []

    def predict(x, num_samples, seed):
        asked.append([num_samples, seed])
        return np.array([[[0.5, 0.25]]])

    def classifier(from_logits):
        return SimpleNamespace(
            link=SimpleNamespace(from_logits=from_logits), predict=predict
        )

    class AllLayers(laplace.DiagonalLaplace):
        def __init__(self):
            self.link = None

        def linearized_outputs(self, x):
            return np.array([[0.5, 0.25]]), np.array([[[4.0, 2.0], [2.0, 2.0]]])

    regression = SimpleNamespace(
        data=SimpleNamespace(num_classes=None), seed=run.seed
    )
    linearized = compare_laplace._draws(regression, AllLayers(), 0.7)(None)
    many = compare_laplace._linearized_draws(AllLayers(), None, 20000, 1)[:, 0]
    return {
        "logits": compare_laplace._draws(run, classifier(True), None)(
            None
        ).tolist(),
        "log_probs": compare_laplace._draws(run, classifier(False), None)(
            None
        ).tolist(),
        "asked": asked,
        "shape": linearized.shape,
        "raw_noise": np.unique(linearized[..., 2:]).tolist(),
        "mean": np.mean(many, axis=0).tolist(),
        "covariance": np.cov(many.T).tolist(),
    }


def _laplace_sizes(run):
    model = compare_networks.build("map", run.data, 1, STEPS)
    model.fit(*run.data.train, epochs=2, verbose=0)
    start = fitted.Fitted(None, 100, 7, model=model)
    found = compare_laplace.last_layer(run, None, None, start)
    direct = laplace.LastLayerLaplace(model, "classification")
    direct.fit(*run.data.train, verbose=0)
    initial = direct.prior_precision
    direct.optimize_prior_precision()

    counted, kept = posterior_diagnostics.num_params, compare_laplace._kept
    posterior_diagnostics.num_params = lambda posterior: 11
    compare_laplace._kept = lambda folder, base, make: make()
    refined = compare_laplace.refined(
        run, None, None, found._replace(posterior=SimpleNamespace(
            refine=lambda **options: None, noise_scale=None)),
    )  # fmt: skip
    posterior_diagnostics.num_params = counted
    compare_laplace._kept = kept
    return {
        "sizes": [found.num_numbers, refined.num_numbers],
        "steps": [found.num_steps, refined.num_steps],
        "precisions": np.ravel(
            [
                initial,
                direct.prior_precision,
                found.about["prior_precision"],
            ]
        ).tolist(),
    }


def _report(folder):
    def result(good):
        """Returns what is better in each respect, or worse."""
        low, high = (0.1, 0.9) if good else (0.2, 0.8)
        return {
            **dict.fromkeys(("nll", "ece", "brier", "aurc"), low),
            "accuracy": high,
            "coverage": 0.94 if good else 1.0,
            "fit_seconds": 1.0 + good,
            "about": {},
            "unseen": {"other": {"auroc": high, "fpr95": low}},
            "shifts": [
                {"shift": "rotation", "strength": 30.0, "nll": low, "ece": low},
                {"shift": "fog", "strength": 1, "nll": low + 1.0, "ece": low},
            ],
        }

    report = compare_report.Report(
        {"map": [result(False)], "vi": [result(True)]},
        {"nuts": "Too many."},
        {"swag": {0: "It became nan."}},
        compare_report.Setting(
            {
                "dataset": "mnist", "model": "mlp", "hidden": ["400", "400"],
                "kind": "images", "batch_norm": False, "batch_size": 16,
                "learning_rate": 0.02, "prior_scale": 0.5, "num_samples": 30,
                "train_steps": STEPS,
            },
            1, 402, 108, 30,
        ),
    )  # fmt: skip
    report.write(folder, False)
    return (folder / "report.md").read_text()


if __name__ == "__main__":
    main()
