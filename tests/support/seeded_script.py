"""A script of all functions, none of which is given a seed.

Run as a script: prints a digest of each result, twice, as JSON. In one script
two calls differ; two processes print the same.
"""

import functools
import hashlib
import json
import os
import sys

import keras
import numpy as np

import tfp_refine as tfr

NUM_EXAMPLES = 40


def network(dense, **options):
    """Returns a small classifier that is not trained."""
    model = keras.Sequential(
        [
            keras.Input((3,)),
            dense(4, activation="tanh", **options),
            dense(3, **options),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.02), loss)
    return model


def bayesian():
    """Returns `network` with posteriors."""
    return network(
        tfr.layers.DenseReparameterization,
        num_train_examples=NUM_EXAMPLES,
    )


def fitted_by_ivon(x, y):
    """Returns `network` without posteriors, fitted by IVON."""
    model = network(keras.layers.Dense)
    optimizer = tfr.optimizers.IVON(0.1, num_train_examples=NUM_EXAMPLES)
    model.compile(optimizer, model.loss)
    model.fit(x, y, epochs=2, batch_size=16, verbose=0)
    return model


def functions(x, y):
    """Returns functions of nothing, by name; each returns arrays."""
    found = {}

    def add(function):
        found[function.__name__] = function

    options = {"num_train_examples": NUM_EXAMPLES}
    deterministic, model = network(keras.layers.Dense), bayesian()
    fit = {"epochs": 10, "batch_size": 16, "verbose": 0}
    for one in (deterministic, model):
        one.fit(x, y, **fit)
    short = {"verbose": 0, "batch_size": 16}

    for name in tfr.layers.__all__:
        kind = getattr(tfr.layers, name)
        if name.startswith("Dense"):
            found[f"fit {name}"] = functools.partial(
                _fit, functools.partial(kind, **options), x, y, fit
            )

    ivon = fitted_by_ivon(x, y)
    found["fit IVON"] = functools.partial(fitted_by_ivon, x, y)

    @add
    def refine_ivon():
        return tfr.refine(ivon, x, y, num_members=2, steps=5, **short).params

    @add
    def to_bayesian_of_ivon():
        posterior = tfr.posterior(ivon)
        return tfr.models.to_bayesian(ivon, posterior=posterior, **options)(x)

    @add
    def multilayer_perceptron():
        return tfr.models.MLP((3,), 3, **options)

    @add
    def le_net():
        widths = (2, 2, 3)
        return tfr.models.LeNet5MNF((28, 28, 1), 3, widths=widths, **options)

    @add
    def to_bayesian():
        converted = tfr.models.to_bayesian(deterministic, **options)
        return converted(x), *converted.get_weights()

    @add
    def to_mc_dropout():
        converted = tfr.models.to_mc_dropout(deterministic, **options)
        return converted(x)

    for name in tfr.initializers.__all__:
        kind = getattr(tfr.initializers, name)
        if name in ("MOPED", "PosteriorInitializer", "get"):  # draw nothing
            continue
        found[f"initialize {name}"] = functools.partial(
            _initialize, kind, x, y, options
        )

    posteriors = {
        "variational": tfr.posterior(model),
        "ivon": tfr.posterior(ivon),
        "refined": tfr.refine(
            model, x, y, num_members=2, steps=5, **short
        ),
        "deep_ensemble": tfr.ensembles.deep_ensemble(
            deterministic, x, y, num_members=2, steps=5, **short
        ),
        "swag": tfr.ensembles.swag(
            deterministic, x, y, num_snapshots=3, steps_per_snapshot=2,
            rank=2, **short,
        ),
        "cyclical_sghmc": tfr.sampling.cyclical_sghmc(
            deterministic, x, y, num_cycles=2, samples_per_cycle=8,
            steps_per_cycle=18, steps_per_sample=2, **short,
        ),
    }  # fmt: skip
    for hessian in ("full", "kron", "diag"):
        posteriors[hessian] = tfr.laplace.LastLayerLaplace(
            deterministic, "classification", hessian
        ).fit(x, y, verbose=0)
    laplace = posteriors["full"]
    posteriors["diagonal"] = tfr.laplace.DiagonalLaplace(
        deterministic, "classification"
    ).fit(x, y, verbose=0)
    posteriors["flow"] = laplace.refine(
        flow_length=2, epochs=2, batch_size=20, verbose=0
    )
    posteriors["nuts"] = tfr.sampling.nuts_last_layer(
        laplace,
        num_chains=2,
        num_warmup=20,
        num_samples=10,
        jit_compile=False,
        verbose=0,
    )
    posteriors["temperature"] = tfr.ensembles.TemperatureScaling(
        deterministic
    ).fit(x, y)
    for name, posterior in posteriors.items():
        for method in ("predict", "predict_proba", "sample"):
            argument = (3,) if method == "sample" else (x, 3)
            found[f"{method} {name}"] = functools.partial(
                getattr(posterior, method), *argument
            )
        found[f"summarize {name}"] = functools.partial(_summary, posterior, x)

    @add
    def linearized():
        return laplace.predict_proba(x, 3, method="linearized")

    @add
    def refine():
        made = tfr.refine(model, x, y, num_members=2, steps=5, **short)
        return made.history["elbo_final"], made.predict(x, 3)

    @add
    def callback():
        one = bayesian()
        refinement = tfr.RefinementCallback(
            x, y, num_members=2, steps=5, **short
        )
        one.fit(x, y, callbacks=[refinement], **fit)
        return refinement.ensemble.predict(x, 3)

    @add
    def elbo():
        return tfr.elbo(model, x, y)

    @add
    def again_deep_ensemble():
        return tfr.ensembles.deep_ensemble(
            deterministic, x, y, num_members=2, steps=5, **short
        ).predict(x, 2)

    @add
    def fast_gradient_sign():
        return tfr.posteriors.fast_gradient_sign(model, x, y, num_samples=1)

    return found


def _fit(make, x, y, fit):
    model = network(make)
    model.fit(x, y, **fit)
    return model.get_weights()


def _initialize(kind, x, y, options):
    model = network(tfr.layers.DenseFlipout, **options)
    kind(verbose=False)(model, x, y)
    return model.get_weights()


def _summary(posterior, x):
    found = posterior.summarize(x, 3)
    return found.mean, found.std, found.entropy


def digest(value):
    """Returns a short text for the bits of arrays, nested, or of a model."""
    if isinstance(value, keras.Model):
        value = value.get_weights()
    hashed = hashlib.sha256()
    for leaf in keras.tree.flatten(value):
        hashed.update(np.asarray(leaf).tobytes())
    return hashed.hexdigest()[:16]


def main():
    """Prints the digests."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_EXAMPLES, 3)).astype("float32")
    y = np.argmax(x + rng.normal(size=x.shape), axis=1)
    keras.utils.set_random_seed(int(sys.argv[1]))
    digests = {
        name: [digest(function()) for _ in range(2)]
        for name, function in functions(x, y).items()
    }
    json.dump(digests, sys.stdout)


def environment(root):
    """Returns the environment that this script is to run in."""
    return os.environ | {"PYTHONPATH": str(root), "TF_CPP_MIN_LOG_LEVEL": "3"}


if __name__ == "__main__":
    main()
