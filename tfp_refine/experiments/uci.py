r"""Refined variational inference on the UCI regression sets.

Trains a mean-field posterior (vi), spends the steps of a refinement on more of
the same (control), refines the posterior (refined_vi), and prints the test
likelihoods and the bounds of all, in original units, beside the paper's; on
request also multiplicative normalizing flows (mnf).
Stopped at any time and started again with the same --output_dir, it continues.
Several priors, posteriors or depths are compared in one table, and over depths
in a plot.

  python -m tfp_refine.experiments.uci --dataset=yacht --splits=5
  python -m tfp_refine.experiments.uci --dataset=energy --method=vi \
      --likelihood=heteroscedastic --prior_scale=fan_in \
      --regularizer=gaussian,collapsed_mean --depths=1,2,3,4,5

References: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Table 1;
Tomczak et al., 2021, https://openreview.net/forum?id=ykN3tbJ0qmX, Figure 2.
"""

import itertools
import sys

import keras
import numpy as np
from absl import app
from absl import flags
from absl import logging

from tfp_refine import datasets
from tfp_refine import functional
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import metrics
from tfp_refine import models
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import posterior_flags
from tfp_refine.experiments import published
from tfp_refine.experiments import record
from tfp_refine.experiments import refinement_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import scalars
from tfp_refine.experiments import sweep
from tfp_refine.experiments import training
from tfp_refine.experiments import uci_report

_LAYERS = {
    "flipout": layers.DenseFlipout,
    "local_reparameterization": layers.DenseLocalReparameterization,
    "reparameterization": layers.DenseReparameterization,
}
METHODS = ("vi", "control", "refined_vi", "mnf")

_FLAG_MODULES = (run_flags, refinement_flags, posterior_flags, mnf_flags)
for _module in _FLAG_MODULES:
    flags.adopt_module_key_flags(_module)  # --help shows them
FLAGS = flags.FLAGS
flags.DEFINE_string(
    "dataset",
    "yacht",
    "Data set: yacht, energy and concrete come with the package; the others of "
    f"{', '.join(datasets.UCI_NAMES)}, or your own, are read from --data_dir.",
)
flags.DEFINE_list(
    "method",
    ["vi", "control", "refined_vi"],
    f"Methods to run, of {', '.join(METHODS)}; mnf trains multiplicative "
    "normalizing flows.",
)
flags.DEFINE_integer("splits", 5, "Number of train-test splits.", 1)
flags.DEFINE_enum(
    "split_kind",
    "random",
    ["random", "given"],
    "random: 80% training, 20% test; given: the index files of --data_dir.",
)
flags.DEFINE_list("hidden", ["50"], "Units of the hidden layers.")
flags.DEFINE_list(
    "depths",
    [],
    "Numbers of hidden layers, all of the width of --hidden; several are "
    "compared.",
)
flags.DEFINE_enum(
    "likelihood",
    "homoscedastic",
    ["homoscedastic", "heteroscedastic"],
    "Gaussian noise of one scale that is learned, or of a scale that is the "
    "network's second output.",
)
flags.DEFINE_enum(
    "estimator",
    "local_reparameterization",
    sorted(_LAYERS),
    "How the layers draw their outputs.",
)
flags.DEFINE_integer("train_steps", 30000, "Steps of mean-field training.", 1)
flags.DEFINE_integer("batch_size", 256, "Examples in a step.", 1)
flags.DEFINE_float("learning_rate", 1e-3, "Adam's, in training.", 0)

# Flags that do not decide the results of a split and method.
_INCIDENTAL = (
    "depths",
    "method",
    "splits",
    *run_flags.INCIDENTAL,
    *refinement_flags.INCIDENTAL,
)


def main(argv):
    """Runs the experiment that the flags describe."""
    run_flags.run("uci", make, argv)


def make():
    """Returns one experiment, or several if flags have several values."""
    refinement_flags.connect()
    run_flags.fill(regularizer=["gaussian"])
    posterior_flags.check()
    run_flags.fill(
        output_dir=f"results/uci/{FLAGS.dataset}",
        variance_ratios=["0.7*5"],
        initial_scale=1e-3,
    )
    depths = run_flags.numbers("depths", int)
    if depths and (min(depths) < 1 or len(FLAGS.hidden) != 1):
        raise ValueError(
            "--depths must be positive, and --hidden one width with them. "
            f"Received: {','.join(FLAGS.depths)} and {','.join(FLAGS.hidden)}"
        )
    settings = {}
    for regularizer, posterior, depth in itertools.product(
        FLAGS.regularizer, FLAGS.posterior, depths or [None]
    ):
        label = posterior_flags.label(regularizer, posterior)
        settings[label if depth is None else f"{label}_depth_{depth}"] = {
            "regularizer": [regularizer],
            "posterior": [posterior],
            "hidden": FLAGS.hidden * (depth or 1),
        }
    if len(settings) > 1:
        return sweep.Sweep(
            Experiment, settings, FLAGS.output_dir, _finish_sweep
        )
    ((_, only),) = settings.items()
    FLAGS.hidden = only["hidden"]
    return Experiment()


def _finish_sweep(folder, results):
    """Prints the table of all experiments, and plots them over depths."""
    print(uci_report.sweep_table(FLAGS.dataset, results))
    if FLAGS.depths:
        uci_report.plot_depths(folder, results)
    return {name: uci_report.summarize(r) for name, r in results.items()}


class Experiment:
    """All splits and methods; everything is checked before any is run."""

    def __init__(self):
        run_flags.check_names("method", METHODS)
        run_flags.check_tensorboard()
        self._hidden = tuple(run_flags.numbers("hidden", int))
        self._ratios = refinement_flags.variance_ratios()
        refinement_flags.check_draws()
        data = datasets.load_uci(FLAGS.dataset, FLAGS.data_dir)
        self._splits = [
            datasets.train_test_split(
                data, split, seed=FLAGS.seed, kind=FLAGS.split_kind
            )
            for split in range(FLAGS.splits)
        ]
        # For what its flags may lack.
        if "mnf" in FLAGS.method:
            self._mnf_model(self._splits[0], seed=0)
        model = self._model(self._splits[0], seed=0)
        if "refined_vi" in FLAGS.method:
            posterior_flags.check_refinable(model)
        flag_values = run_flags.values(sys.modules[__name__], *_FLAG_MODULES)
        self._folder = record.Folder(
            FLAGS.output_dir,
            flag_values,
            decisive={
                "data": record.digest(data.features, data.target),
                **{
                    name: value
                    for name, value in flag_values.items()
                    if name not in _INCIDENTAL
                },
            },
            defaults=run_flags.defaults(*_FLAG_MODULES),
        )

    def run(self):
        """Runs what is missing, writes the record and prints the table.

        Returns:
            results: List, a split each, of each method's results.
        """
        results = []
        for number, split in enumerate(self._splits):
            logging.info("Split %d of %d", number + 1, len(self._splits))
            results.append(self._run_split(number, split))
        summary = uci_report.summarize(results)
        self._folder.write_results(
            metrics=summary,
            splits=results,
            wall_seconds=uci_report.wall_seconds(results),
        )
        is_papers = (
            FLAGS.likelihood == "homoscedastic"
            and posterior_flags.system() in posterior_flags.USUAL
        )
        paper = published.UCI.get(FLAGS.dataset) if is_papers else None
        print(uci_report.table(FLAGS.dataset, len(results), summary, paper))
        uci_report.plot(self._folder.path, results)
        print(f"\nRecord: {self._folder.path / 'results.json'}")
        return results

    def _run_split(self, number, split):
        seed = functional.seeds.key(FLAGS.seed, number)
        return {
            method: self._folder.once(
                f"split_{number}/{method}",
                lambda method=method: getattr(self, f"_{method}")(
                    number, split, seed
                ),
            )
            for method in METHODS
            if method in FLAGS.method
        }

    def _vi(self, number, split, seed):
        return self._evaluate(self._trained(number, split, seed), split, seed)

    def _control(self, number, split, seed):
        model = self._trained(number, split, seed)
        steps = FLAGS.num_members * len(self._ratios) * FLAGS.steps
        model = self._train(model, "control", steps, number, split, seed + 1)
        return self._evaluate(model, split, seed)

    def _refined_vi(self, number, split, seed):
        model = self._trained(number, split, seed)
        directory = self._folder.path / f"split_{number}" / "refined_vi"
        ensemble = refinement.refine(
            model,
            split.x_train,
            split.y_train,
            variance_ratios=self._ratios,
            batch_size=FLAGS.batch_size,
            checkpoint_dir=directory,
            seed=seed,
            **refinement_flags.options(),
        )
        ensemble.save(directory / "ensemble.posterior")
        if FLAGS.tensorboard:
            scalars.write_staircase(directory / "tensorboard", ensemble.history)
        result = self._evaluate(ensemble, split, seed)
        constant = len(split.y_train) * float(np.log(split.y_scaler.scale[0]))
        elbo = ensemble.elbo_final - constant
        result["elbo"] = float(np.mean(elbo))
        result["elbo_standard_error"] = float(
            np.std(elbo, ddof=1) / np.sqrt(len(elbo)) if len(elbo) > 1 else 0.0
        )
        result["elbo_init"] = float(np.mean(ensemble.elbo_init) - constant)
        result["staircase"] = uci_report.staircase(ensemble.history, constant)
        return result

    def _mnf(self, number, split, seed):
        model = self._mnf_model(split, seed)
        model = self._train(
            model, "mnf", FLAGS.train_steps, number, split, seed
        )
        return self._evaluate(model, split, seed)

    def _trained(self, number, split, seed):
        """Returns the trained mean-field model, from its file if there is."""
        model = self._model(split, seed)
        return self._train(model, "vi", FLAGS.train_steps, number, split, seed)

    def _model(self, split, seed):
        return self._model_with(
            split,
            seed,
            _LAYERS[FLAGS.estimator],
            posterior_flags.layer_arguments(default_prior_scale=1.0),
        )

    def _mnf_model(self, split, seed):
        _, dense_layer = mnf_flags.layer_classes()
        return self._model_with(
            split,
            seed,
            dense_layer,
            posterior_flags.prior_arguments(default_prior_scale=1.0),
        )

    def _model_with(self, split, seed, layer, arguments):
        """Builds a model, untrained."""
        noise = (
            {"noise_scale": 1.0}
            if FLAGS.likelihood == "homoscedastic"
            else {"outputs": 2}  # a mean and a raw scale
        )
        model = models.MLP(
            (split.x_train.shape[1],),
            hidden=self._hidden,
            layer=layer,
            seed=seed,
            num_train_examples=len(split.x_train),
            **noise,
            **arguments,
        )
        model.compile(
            optimizer=keras.optimizers.Adam(FLAGS.learning_rate),
            loss=losses.HeteroscedasticGaussianNLL(),
            jit_compile=False,
        )
        return model

    def _train(self, model, name, steps, number, split, seed):
        directory = self._folder.path / f"split_{number}" / name
        return training.train(
            model,
            split.x_train,
            split.y_train,
            steps=steps,
            batch_size=FLAGS.batch_size,
            seed=seed,
            directory=directory,
            tensorboard=FLAGS.tensorboard,
            verbose=int(FLAGS.progress),
        ).model

    def _evaluate(self, model, split, seed):
        """Computes test metrics, and a model's bound, in original units."""
        draws = posteriors.predict(
            model, split.x_test, FLAGS.num_samples, seed=seed
        )
        loc, scale = losses.HeteroscedasticGaussianNLL().loc_and_scale(draws)
        loc, scale = np.asarray(loc), np.asarray(scale)
        few = FLAGS.num_members  # one draw a member
        result = {
            "mll": self._mll(split, loc, scale),
            f"mll_{few}_draws": self._mll(split, loc[:few], scale[:few]),
        }
        result["rmse"] = metrics.root_mean_squared_error(
            split.y_test_original, split.y_scaler.inverse(loc)
        )
        if isinstance(model, keras.Model):
            bound = refinement.elbo(
                model,
                split.x_train,
                split.y_train,
                marginal_prior=posterior_flags.has_marginal_prior(),
                seed=seed,
            )
            result["elbo"] = bound - len(split.y_train) * float(
                np.log(split.y_scaler.scale[0])
            )
        return result

    def _mll(self, split, loc, scale):
        nll = metrics.gaussian_negative_log_likelihood(split.y_test, loc, scale)
        return split.y_scaler.inverse_log_likelihood(-nll)


if __name__ == "__main__":
    app.run(main)
