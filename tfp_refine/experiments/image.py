r"""Refined variational inference for image classifiers.

Trains a mean-field posterior of a convolutional network (vi) and refines it
(refined_vi); on request, spends the steps of the refinement on more of the same
(control), trains the network with multiplicative normalizing flows (mnf) or
without posteriors (map). Prints likelihood,
accuracy and calibration of all with equal numbers of draws. Stopped at any time
and started again with the same --output_dir, it continues.

  python -m tfp_refine.experiments.image --dataset=digits
  python -m tfp_refine.experiments.image --dataset=mnist --data_dir=DIR \
      --method=vi,control,refined_vi --ood_dataset=fashion_mnist
  python -m tfp_refine.experiments.image --dataset=cifar10 --download \
      --model=resnet20 --epochs=200 --learning_rate_schedule=step

Several priors or posteriors are trained one after another, and compared:

  python -m tfp_refine.experiments.image --dataset=mnist --data_dir=DIR \
      --model=mlp --method=vi --prior_scale=fan_in --pruning \
      --regularizer=gaussian,collapsed_mean --flipped_pixels=0.02,0.1

References: Havasi et al., 2021, https://doi.org/10.3390/e23111475, Tables 2, 3;
Tomczak et al., 2021, https://openreview.net/forum?id=ykN3tbJ0qmX, Tables 1, 2.
"""

import functools
import itertools

import numpy as np
from absl import app
from absl import flags
from absl import logging

from tfp_refine import datasets
from tfp_refine import functional
from tfp_refine import posteriors
from tfp_refine import refinement
from tfp_refine.experiments import image_evaluation
from tfp_refine.experiments import image_flags
from tfp_refine.experiments import image_models
from tfp_refine.experiments import image_pruning
from tfp_refine.experiments import image_report
from tfp_refine.experiments import mnf_flags
from tfp_refine.experiments import other_images
from tfp_refine.experiments import posterior_flags
from tfp_refine.experiments import posterior_record
from tfp_refine.experiments import record
from tfp_refine.experiments import refinement_flags
from tfp_refine.experiments import run_flags
from tfp_refine.experiments import scalars
from tfp_refine.experiments import sweep
from tfp_refine.experiments import training

_FLAG_MODULES = (
    run_flags,
    refinement_flags,
    posterior_flags,
    mnf_flags,
    image_flags,
)
for _module in _FLAG_MODULES:
    flags.adopt_module_key_flags(_module)  # --help shows them
FLAGS = flags.FLAGS

# Standard deviation of Gaussian priors, unless --prior_scale is given.
_PRIOR_SCALE = 0.1


def main(argv):
    """Runs the experiment that the flags describe."""
    run_flags.run("image", make, argv)


def make():
    """Returns one experiment, or several if flags have several values."""
    refinement_flags.connect()
    image_flags.fill_by_model()
    run_flags.fill(output_dir=f"results/image/{FLAGS.dataset}_{FLAGS.model}")
    settings = {
        posterior_flags.label(regularizer, posterior): {
            "regularizer": [regularizer],
            "posterior": [posterior],
        }
        for regularizer, posterior in itertools.product(
            FLAGS.regularizer, FLAGS.posterior
        )
    }
    if len(settings) == 1:
        return Experiment()
    return sweep.Sweep(Experiment, settings, FLAGS.output_dir, _finish_sweep)


def _finish_sweep(folder, results):
    """Prints the table of all experiments, and draws their plots together."""
    flat = {
        f"{name}, {image_report.TITLES[method]}": result
        for name, methods in results.items()
        for method, result in methods.items()
    }
    print(image_report.tables(FLAGS.dataset, FLAGS.model, flat))
    image_report.plot_sweep(folder, flat)
    return {name: image_report.scalars_of(r) for name, r in flat.items()}


class Experiment:
    """All methods on one data set; everything is checked before any is run."""

    def __init__(self):
        self._ratios = refinement_flags.variance_ratios()
        refinement_flags.check_draws()
        run_flags.check_tensorboard()
        self._rotations = run_flags.numbers("rotations", float)
        self._flipped = run_flags.numbers("flipped_pixels", float)
        self._raw = datasets.load_images(
            FLAGS.dataset, FLAGS.data_dir, FLAGS.download
        )
        self._data = datasets.standardized_images(
            self._raw, FLAGS.validation_fraction, FLAGS.seed
        )
        image_flags.fill_by_data(len(self._data.x_train))
        if "map" in FLAGS.method:
            self._build("none")  # for what its flags may lack
        if "mnf" in FLAGS.method:
            self._build_mnf()
        model = self._build(FLAGS.variational)
        if "refined_vi" in FLAGS.method:
            posterior_flags.check_refinable(model)
        if FLAGS.pruning:
            image_pruning.check(model)
        self._other = self._load_other()
        image_evaluation.check_shifts(
            self._raw.x_test,
            self._rotations,
            self._flipped,
            FLAGS.corruptions,
            FLAGS.seed,
        )
        flag_values = run_flags.values(*_FLAG_MODULES)
        digest = record.digest(
            self._data.x_train,
            self._data.y_train,
            self._data.x_test,
            self._data.y_test,
        )
        self._folder = record.Folder(
            FLAGS.output_dir,
            flag_values,
            decisive={
                "data": digest,
                **{
                    name: value
                    for name, value in flag_values.items()
                    if name not in image_flags.INCIDENTAL
                    and name not in image_flags.EVALUATION
                },
            },
            defaults=run_flags.defaults(*_FLAG_MODULES),
        )

    def run(self):
        """Runs what is missing, writes the record and prints the tables.

        Returns:
            results: Dict from method to its results.
        """
        data = self._data
        logging.info(
            "%d training and %d test images %s, %d classes; %d steps, %.1f "
            "epochs",
            len(data.x_train),
            len(data.x_test),
            data.x_train.shape[1:],
            data.num_classes,
            FLAGS.train_steps,
            FLAGS.train_steps / image_flags.steps_per_epoch(len(data.x_train)),
        )
        evaluation = record.digest_of_json(
            {name: FLAGS[name].value for name in image_flags.EVALUATION}
        )
        results = {
            method: self._folder.once(
                f"{method}/evaluation_{evaluation}", getattr(self, f"_{method}")
            )
            for method in image_flags.METHODS
            if method in FLAGS.method
        }
        self._folder.write_results(
            metrics={
                method: image_report.scalars_of(result)
                for method, result in results.items()
            },
            results=results,
            wall_seconds={m: r["seconds"] for m, r in results.items()},
        )
        paper = image_report.paper(
            FLAGS.dataset,
            FLAGS.model,
            FLAGS.variational,
            FLAGS.batch_norm,
            FLAGS.augment,
            posterior_flags.system(),
        ) | image_report.paper_of_priors(
            FLAGS.dataset, FLAGS.model, FLAGS.hidden, posterior_flags.system()
        )
        titled = {image_report.TITLES[m]: r for m, r in results.items()}
        paper = {image_report.TITLES[m]: r for m, r in paper.items()}
        print(image_report.tables(FLAGS.dataset, FLAGS.model, titled, paper))
        image_report.plot(self._folder.path, titled)
        print(f"\nRecord: {self._folder.path / 'results.json'}")
        return results

    def _load_other(self):
        if FLAGS.ood_dataset is None:
            return None
        return other_images.load(
            "ood_dataset",
            FLAGS.ood_dataset,
            FLAGS.dataset,
            self._raw.x_test,
            self._data.scaler,
            FLAGS.data_dir,
            FLAGS.download,
        )

    # The methods.

    def _map(self):
        model = self._build("none")
        trained = self._train(model, "map", FLAGS.train_steps)
        return self._evaluate(trained.model) | posterior_record.about(trained)

    def _vi(self):
        return self._evaluate_posterior(self._trained(), FLAGS.pruning)

    def _control(self):
        """Trains on for the steps of the refinement, its rate falling too."""
        steps = FLAGS.num_members * len(self._ratios) * FLAGS.steps
        model = self._trained().model
        image_models.compile_classifier(model, image_flags.linear_decay(steps))
        trained = self._train(model, "control", steps)
        return self._evaluate_posterior(trained, FLAGS.pruning)

    def _refined_vi(self):
        model = self._trained().model
        directory = self._folder.path / "refined_vi"
        ensemble = refinement.refine(
            model,
            self._data.x_train,
            self._data.y_train,
            variance_ratios=self._ratios,
            batch_size=FLAGS.batch_size,
            checkpoint_dir=directory,
            seed=FLAGS.seed,
            **refinement_flags.options(),
        )
        ensemble.save(directory / "ensemble.posterior")
        history = ensemble.history
        if FLAGS.tensorboard:
            scalars.write_staircase(directory / "tensorboard", history)
        return self._evaluate(ensemble) | {
            "elbo": float(np.mean(ensemble.elbo_final)),
            "elbo_standard_error": posterior_record.standard_error(
                ensemble.elbo_final
            ),
            "elbo_init": float(np.mean(ensemble.elbo_init)),
            "elbo_init_standard_error": posterior_record.standard_error(
                ensemble.elbo_init
            ),
            "staircase": {
                name: history[name].tolist()
                for name in (
                    "trace_step",
                    "trace_elbo",
                    "elbo_init",
                    "elbo_conditioned",
                    "elbo_aux",
                    "kept",
                )
            },
        }

    def _mnf(self):
        model = self._build_mnf()
        trained = self._train(model, "mnf", FLAGS.train_steps)
        return self._evaluate_posterior(trained, pruning=False)

    # Their parts.

    def _trained(self):
        """Returns the mean-field training, from its file if there is one."""
        model = self._build(FLAGS.variational)
        return self._train(model, "vi", FLAGS.train_steps)

    def _build(self, variational):
        return self._build_with(
            variational,
            image_models.CONV_LAYERS[FLAGS.conv_estimator],
            image_models.DENSE_LAYERS[FLAGS.dense_estimator],
            posterior_flags.layer_arguments(_PRIOR_SCALE),
        )

    def _build_mnf(self):
        return self._build_with(
            "full",
            *mnf_flags.layer_classes(),
            posterior_flags.prior_arguments(_PRIOR_SCALE),
        )

    def _build_with(self, variational, conv_layer, dense_layer, arguments):
        data = self._data
        model = image_models.build(
            FLAGS.model,
            data.x_train.shape[1:],
            data.num_classes,
            hidden=tuple(run_flags.numbers("hidden", int)),
            variational=variational,
            batch_norm=FLAGS.batch_norm,
            conv_layer=conv_layer,
            dense_layer=dense_layer,
            prior_scale=posterior_flags.prior_scale(_PRIOR_SCALE),
            seed=FLAGS.seed,
            layer_arguments={
                "num_train_examples": len(data.x_train),
                **arguments,
            },
        )
        image_models.compile_classifier(
            model, image_flags.learning_rate(len(data.x_train))
        )
        return model

    def _train(self, model, name, steps):
        data = self._data
        validation = (
            (data.x_validation, data.y_validation)
            if len(data.x_validation)
            else None
        )
        is_control = name == "control"  # it has its number of steps
        return training.train(
            model,
            data.x_train,
            data.y_train,
            steps=steps,
            batch_size=FLAGS.batch_size,
            seed=functional.seeds.key(FLAGS.seed, int(is_control)),
            directory=self._folder.path / name,
            segment_steps=FLAGS.checkpoint_steps,
            augment=image_flags.augmentation(data.x_train.shape[1:]),
            validation_data=validation,
            patience=None if is_control else FLAGS.early_stopping_patience,
            monitor="val_nll",
            observe=functools.partial(
                posterior_record.kl_and_elbo, len(data.x_train)
            ),
            tensorboard=FLAGS.tensorboard,
            verbose=int(FLAGS.progress),
        )

    def _evaluate(self, model):
        """Computes all that is asked for of a model or an ensemble."""
        draws = self._predict(model, self._data.x_test)
        labels = self._data.y_test
        result = {
            **image_evaluation.test_metrics(draws, labels, FLAGS.num_members),
            "calibration": image_evaluation.calibration(draws, labels),
        }
        if self._other is not None:
            other = self._predict(model, self._other)
            result |= image_evaluation.out_of_distribution_metrics(draws, other)
            result["entropies"] = {
                FLAGS.dataset: image_evaluation.entropies(draws),
                FLAGS.ood_dataset: image_evaluation.entropies(other),
            }
        few = slice(FLAGS.shift_examples)
        result["shifts"] = [
            {
                "shift": name,
                "strength": strength,
                **image_evaluation.test_metrics(
                    self._predict(
                        model,
                        datasets.standardize_pixels(images, self._data.scaler),
                    ),
                    labels[few],
                    FLAGS.num_members,
                ),
            }
            for name, strength, images in image_evaluation.shifted_sets(
                self._raw.x_test[few],
                self._rotations,
                self._flipped,
                FLAGS.corruptions,
                FLAGS.seed,
            )
        ]
        return result

    def _evaluate_posterior(self, trained, pruning):
        bound = refinement.elbo(
            trained.model,
            self._data.x_train,
            self._data.y_train,
            num_samples=FLAGS.num_eval_samples,
            marginal_prior=posterior_flags.has_marginal_prior(),
            seed=FLAGS.seed,
        )
        result = self._evaluate(trained.model) | posterior_record.about(trained)
        if pruning:
            result["pruning"] = image_pruning.analyze(
                trained.model,
                lambda model: self._predict(
                    model, self._data.x_test, FLAGS.num_members
                ),
                self._data.y_test,
            )
        return result | {"elbo": bound}

    def _predict(self, model, x, num_samples=None):
        return posteriors.predict(
            model,
            x,
            (num_samples or FLAGS.num_samples)
            if posterior_record.is_random(model)
            else 1,
            seed=FLAGS.seed,
            batch_size=FLAGS.eval_batch_size,
        )


if __name__ == "__main__":
    app.run(main)
