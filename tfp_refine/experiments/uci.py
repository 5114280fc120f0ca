"""Refined variational inference on the UCI regression sets.

Trains a mean-field posterior (vi), spends the steps of a refinement on more of
the same (control), refines the posterior (refined_vi), and prints the test
likelihoods and the bounds of all three, in original units, beside the paper's.
Stopped at any time and started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.uci --dataset=yacht --splits=5

Reference: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Table 1.
"""

import importlib.util
import sys

import keras
import numpy as np
import tensorflow as tf
from absl import app
from absl import flags
from absl import logging

from tfp_refine import datasets
from tfp_refine import layers
from tfp_refine import losses
from tfp_refine import metrics
from tfp_refine import models
from tfp_refine import prediction
from tfp_refine import refinement
from tfp_refine import regularizers
from tfp_refine import stateless
from tfp_refine.experiments import record
from tfp_refine.experiments import training
from tfp_refine.experiments import uci_report
from tfp_refine.math import variance_schedule

_LAYERS = {
    "flipout": layers.DenseFlipout,
    "local_reparameterization": layers.DenseLocalReparameterization,
    "reparameterization": layers.DenseReparameterization,
}
METHODS = ("vi", "control", "refined_vi")

FLAGS = flags.FLAGS
flags.DEFINE_string(
    "dataset",
    "yacht",
    "Data set: yacht, energy and concrete come with the package; the others of "
    f"{', '.join(datasets.UCI_NAMES)}, or your own, are read from --data_dir.",
)
flags.DEFINE_string(
    "data_dir",
    None,
    "Folder with NAME/data/{data,index_features,index_target}.txt for each "
    "data set.",
)
flags.DEFINE_string(
    "output_dir",
    None,
    "Folder for results.json, plots and what a restart needs. Defaults to "
    "results/uci/DATASET.",
)
flags.DEFINE_list(
    "method", list(METHODS), f"Methods to run, of {', '.join(METHODS)}."
)
flags.DEFINE_integer("splits", 5, "Number of train-test splits.", 1)
flags.DEFINE_enum(
    "split_kind",
    "random",
    ["random", "given"],
    "random: 80% training, 20% test; given: the index files of --data_dir.",
)
flags.DEFINE_list("hidden", ["50"], "Units of the hidden layers.")
flags.DEFINE_enum(
    "estimator",
    "local_reparameterization",
    sorted(_LAYERS),
    "How the layers draw their outputs.",
)
flags.DEFINE_enum(
    "prior",
    "gaussian",
    ["empirical_bayes", "gaussian"],
    "Prior of the weights: of scale --prior_scale, or of a scale learned for "
    "each tensor.",
)
flags.DEFINE_float("prior_scale", 1.0, "Standard deviation of the prior.", 0)
flags.DEFINE_float(
    "initial_scale", 1e-3, "Initial standard deviation of the posterior.", 0
)
flags.DEFINE_integer("train_steps", 30000, "Steps of mean-field training.", 1)
flags.DEFINE_integer("batch_size", 256, "Examples in a step.", 1)
flags.DEFINE_float("learning_rate", 1e-3, "Adam's, in training.", 0)
flags.DEFINE_integer("num_members", 10, "Members of the refined ensemble.", 1)
flags.DEFINE_list(
    "variance_ratios",
    ["0.7"] * 5,
    "For each auxiliary variable, the part of the remaining prior variance "
    "that it takes.",
)
flags.DEFINE_list(
    "variance_fractions",
    None,
    "The same as parts of the original variance, as the paper prints it; "
    "overrides --variance_ratios.",
)
flags.DEFINE_integer(
    "steps", 200, "Refinement steps for each auxiliary variable and member.", 1
)
flags.DEFINE_float(
    "refine_learning_rate",
    1e-2,
    "Adam's before the first auxiliary variable, in refinement. The paper: "
    "1e-3, constant.",
    0,
)
flags.DEFINE_enum(
    "refine_learning_rate_decay",
    "linear",
    ["constant", "cosine", "linear"],
    "Of that rate within each auxiliary variable, to zero.",
)
flags.DEFINE_integer(
    "num_samples",
    100,
    "Draws of each predictive distribution, spread over the members.",
    1,
)
flags.DEFINE_integer("seed", 0, "Fixes splits, training and draws.", 0)
flags.DEFINE_bool("tensorboard", False, "Log training for TensorBoard.")
flags.DEFINE_bool("progress", True, "Show progress bars.")

# Flags that do not decide the results of a split and method; the data itself
# stands for --data_dir.
_INCIDENTAL = (
    "data_dir", "method", "output_dir", "progress", "splits", "tensorboard"
)  # fmt: skip


def main(argv):
    """Runs the experiment that the flags describe."""
    if len(argv) > 1:
        raise app.UsageError(f"Unknown arguments: {' '.join(argv[1:])}")
    try:
        experiment = Experiment()
    except (ValueError, OSError) as error:
        sys.exit(f"uci: {error}")
    try:
        experiment.run()
    except KeyboardInterrupt:
        sys.exit("uci: stopped. The same command continues where it was.")
    except (ValueError, OSError, FloatingPointError) as error:
        sys.exit(f"uci: {error}")


class Experiment:
    """All splits and methods; everything is checked before any is run."""

    def __init__(self):
        unknown = set(FLAGS.method) - set(METHODS)
        if unknown or not FLAGS.method:
            raise ValueError(
                f"--method must name some of {', '.join(METHODS)}. "
                f"Received: {','.join(FLAGS.method)}"
            )
        self._hidden = tuple(_numbers("hidden", int))
        self._ratios = (
            variance_schedule.ratios_from_fractions(
                _numbers("variance_fractions", float)
            )
            if FLAGS.variance_fractions
            else variance_schedule.check_ratios(
                _numbers("variance_ratios", float)
            )
        )
        if FLAGS.num_samples % FLAGS.num_members:
            raise ValueError(
                "--num_samples must be a multiple of --num_members, so that "
                "every member is drawn as often. Received: "
                f"{FLAGS.num_samples} and {FLAGS.num_members}"
            )
        data = datasets.load_uci(FLAGS.dataset, FLAGS.data_dir)
        self._splits = [
            datasets.train_test_split(
                data, split, seed=FLAGS.seed, kind=FLAGS.split_kind
            )
            for split in range(FLAGS.splits)
        ]
        self._model(self._splits[0], seed=0)  # for what its flags may lack
        if FLAGS.tensorboard:
            _check_tensorboard()
        flags_of_module = FLAGS.get_flags_for_module(sys.modules[__name__])
        flag_values = {flag.name: flag.value for flag in flags_of_module}
        self._folder = record.Folder(
            FLAGS.output_dir or f"results/uci/{FLAGS.dataset}",
            flag_values,
            decisive={
                "data": record.digest(data.features, data.target),
                **{
                    name: value
                    for name, value in flag_values.items()
                    if name not in _INCIDENTAL
                },
            },
        )

    def run(self):
        """Runs what is missing, writes the record and prints the table."""
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
        print(uci_report.table(FLAGS.dataset, len(results), summary))
        uci_report.plot(self._folder.path, results)
        print(f"\nRecord: {self._folder.path / 'results.json'}")

    def _run_split(self, number, split):
        seed = stateless.seeds.key(FLAGS.seed, number)
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
            num_members=FLAGS.num_members,
            variance_ratios=self._ratios,
            steps=FLAGS.steps,
            batch_size=FLAGS.batch_size,
            learning_rate=FLAGS.refine_learning_rate,
            learning_rate_decay=FLAGS.refine_learning_rate_decay,
            checkpoint_dir=directory,
            seed=seed,
            verbose=int(FLAGS.progress),
        )
        ensemble.save(directory / "ensemble")
        if FLAGS.tensorboard:
            _log_refinement(directory / "tensorboard", ensemble.history)
        result = self._evaluate(ensemble, split, seed)
        constant = len(split.y_train) * float(np.log(split.y_scaler.scale[0]))
        elbo = ensemble.elbo_aux - constant
        result["elbo"] = float(np.mean(elbo))
        result["elbo_standard_error"] = float(
            np.std(elbo, ddof=1) / np.sqrt(len(elbo)) if len(elbo) > 1 else 0.0
        )
        result["elbo_init"] = float(np.mean(ensemble.elbo_init) - constant)
        result["staircase"] = uci_report.staircase(ensemble.history, constant)
        return result

    def _trained(self, number, split, seed):
        """Returns the trained mean-field model, from its file if there is."""
        model = self._model(split, seed)
        return self._train(model, "vi", FLAGS.train_steps, number, split, seed)

    def _model(self, split, seed):
        """Builds the model, untrained."""
        num_examples = len(split.x_train)
        regularizer = (
            regularizers.EmpiricalBayesKL(initial_prior_scale=FLAGS.prior_scale)
            if FLAGS.prior == "empirical_bayes"
            else regularizers.GaussianKL(FLAGS.prior_scale)
        )
        posterior = layers.MeanFieldPosterior(FLAGS.initial_scale)
        model = models.MLP(
            (split.x_train.shape[1],),
            hidden=self._hidden,
            layer=_LAYERS[FLAGS.estimator],
            noise_scale=1.0,
            seed=seed,
            kernel_posterior=posterior,
            bias_posterior=posterior,
            kernel_regularizer=regularizer,
            bias_regularizer=regularizer,
            num_train_examples=num_examples,
        )
        model.compile(
            optimizer=keras.optimizers.Adam(FLAGS.learning_rate),
            loss=losses.HeteroscedasticGaussianNLL(),
            jit_compile=False,
        )
        return model

    def _train(self, model, name, steps, number, split, seed):
        directory = self._folder.path / f"split_{number}" / name
        callbacks = (
            [keras.callbacks.TensorBoard(directory / "tensorboard")]
            if FLAGS.tensorboard
            else []
        )
        return training.train(
            model,
            split.x_train,
            split.y_train,
            steps=steps,
            batch_size=FLAGS.batch_size,
            seed=seed,
            directory=directory,
            callbacks=callbacks,
            verbose=int(FLAGS.progress),
        )

    def _evaluate(self, model, split, seed):
        """Computes test metrics, and a model's bound, in original units."""
        draws = prediction.predict(
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
                model, split.x_train, split.y_train, seed=seed
            )
            result["elbo"] = bound - len(split.y_train) * float(
                np.log(split.y_scaler.scale[0])
            )
        return result

    def _mll(self, split, loc, scale):
        nll = metrics.gaussian_negative_log_likelihood(split.y_test, loc, scale)
        return split.y_scaler.inverse_log_likelihood(-nll)


def _numbers(name, convert):
    values = FLAGS[name].value
    try:
        return [convert(value) for value in values]
    except ValueError as error:
        raise ValueError(
            f"--{name} must be a comma-separated list of numbers. "
            f"Received: {','.join(values)}"
        ) from error


def _log_refinement(directory, history):
    steps, bounds = history["trace_step"], history["trace_elbo"].mean(axis=0)
    with tf.summary.create_file_writer(str(directory)).as_default():
        for step, bound in zip(steps, bounds, strict=True):
            tf.summary.scalar("elbo", bound, step=int(step))


def _check_tensorboard():
    if importlib.util.find_spec("tensorboard") is None:
        raise ValueError(
            "--tensorboard needs the package tensorboard: "
            "pip install 'tfp_refine[tensorboard]'"
        )


if __name__ == "__main__":
    app.run(main)
