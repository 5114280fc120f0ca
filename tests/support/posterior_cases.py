"""One posterior of each method, small and quick: the registry of the contract.

A method joins the contract by a line in `CLASSIFIERS` (and `REGRESSIONS`).
"""

import functools

import keras
import numpy as np

import tfp_refine as tfr

NUM_EXAMPLES, NUM_FEATURES, NUM_CLASSES = 40, 3, 3


@functools.cache
def data(kind):
    """Returns `(x, y)` of "classes", "binary" or "regression"."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(NUM_EXAMPLES, NUM_FEATURES)).astype("float32")
    score = x @ rng.normal(size=(NUM_FEATURES, NUM_CLASSES))
    score += 0.5 * rng.normal(size=score.shape)
    y = {
        "classes": np.argmax(score, axis=1),
        "binary": (score[:, 0] > 0.0).astype(int),
        "regression": score[:, :1].astype("float32"),
    }[kind]
    return x, y


def _loss(kind, from_logits):
    if kind == "regression":
        return tfr.losses.GaussianNLL(0.5)
    if kind == "binary":
        return keras.losses.BinaryCrossentropy(from_logits=from_logits)
    return keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits)


@functools.cache
def network(kind="classes", bayesian=False, probabilities=False):
    """Returns a small trained network."""
    keras.utils.set_random_seed(1)
    units = {"classes": NUM_CLASSES, "binary": 1, "regression": 1}[kind]
    activation = None
    if probabilities:
        activation = "softmax" if kind == "classes" else "sigmoid"
    dense = keras.layers.Dense
    if bayesian:
        dense = functools.partial(tfr.layers.DenseReparameterization, seed=1)
    model = keras.Sequential(
        [
            keras.Input((NUM_FEATURES,)),
            dense(4, activation="tanh"),
            dense(units, activation=activation),
        ]
    )
    if bayesian:
        tfr.layers.set_num_train_examples(model, NUM_EXAMPLES)
    model.compile(
        keras.optimizers.Adam(0.1),
        _loss(kind, from_logits=not probabilities),
        run_eagerly=True,  # for so few steps, the fastest
    )
    model.fit(*data(kind), batch_size=NUM_EXAMPLES, epochs=12, verbose=0)
    return model


def _variational(kind, **options):
    return tfr.posterior(network(kind, bayesian=True, **options))


def _refined(start, kind, **options):
    return tfr.refine(
        start(kind, **options),
        *data(kind),
        num_members=3,
        variance_ratios=(0.7, 0.7),
        steps=5,
        seed=1,
        verbose=0,
    )


def _ivon(kind, **options):
    trained = network(kind, **options)
    model = keras.models.clone_model(trained)
    model.set_weights(trained.get_weights())
    optimizer = tfr.optimizers.IVON(
        0.1, NUM_EXAMPLES, beta_2=0.99, hessian_init=0.1, seed=1
    )
    model.compile(optimizer, trained.loss, run_eagerly=True)
    model.fit(*data(kind), batch_size=NUM_EXAMPLES, epochs=12, verbose=0)
    return tfr.posterior(model)


def _mc_dropout(kind, **options):
    model = network(kind, **options)
    converted = tfr.models.to_mc_dropout(
        model, rate=0.2, num_train_examples=NUM_EXAMPLES, seed=1
    )
    converted.compile(loss=model.loss)
    return tfr.posterior(converted)


@functools.cache
def _laplace(kind, hessian="full", **options):
    likelihood = "regression" if kind == "regression" else "classification"
    return tfr.laplace.LastLayerLaplace(
        network(kind, **options), likelihood, hessian
    ).fit(*data(kind), verbose=0)


def _flow(kind, **options):
    return _laplace(kind, **options).refine(
        flow_length=2, epochs=3, batch_size=20, seed=1, verbose=0
    )


def _diagonal_laplace(kind, **options):
    likelihood = "regression" if kind == "regression" else "classification"
    return tfr.laplace.DiagonalLaplace(
        network(kind, **options), likelihood
    ).fit(*data(kind), verbose=0)


def _nuts(kind, **options):
    return tfr.sampling.nuts_last_layer(
        _laplace(kind, **options),
        num_chains=2,
        num_warmup=50,
        num_samples=25,
        jit_compile=False,
        seed=1,
        verbose=0,
    )


def _sghmc(kind, **options):
    return tfr.sampling.cyclical_sghmc(
        network(kind, **options),
        *data(kind),
        num_cycles=2,
        samples_per_cycle=2,
        steps_per_cycle=6,
        steps_per_sample=2,
        batch_size=20,
        learning_rate=0.01,
        seed=1,
        verbose=0,
    )


@functools.cache
def _deep_ensemble(kind, **options):
    return tfr.ensembles.deep_ensemble(
        network(kind, **options),
        *data(kind),
        num_members=3,
        steps=10,
        batch_size=20,
        seed=1,
        verbose=0,
    )


def _swag_of(start, kind):
    return tfr.ensembles.swag(
        start,
        *data(kind),
        num_snapshots=4,
        steps_per_snapshot=2,
        rank=3,
        batch_size=20,
        seed=1,
        verbose=0,
    )


def _temperature(kind, **options):
    return tfr.ensembles.TemperatureScaling(network(kind, **options)).fit(
        *data(kind)
    )


CLASSIFIERS = {
    "variational": _variational,
    "refined": functools.partial(
        _refined, functools.partial(network, bayesian=True)
    ),
    "ivon": _ivon,
    "refined_ivon": functools.partial(_refined, _ivon),
    "refined_fits": functools.partial(
        _refined, functools.partial(_deep_ensemble, bayesian=True)
    ),
    "mc_dropout": _mc_dropout,
    "laplace_full": _laplace,
    "laplace_kron": functools.partial(_laplace, hessian="kron"),
    "laplace_diag": functools.partial(_laplace, hessian="diag"),
    "refined_laplace": functools.partial(_refined, _laplace),
    "laplace_all_layers": _diagonal_laplace,
    "flow": _flow,
    "nuts": _nuts,
    "cyclical_sghmc": _sghmc,
    "deep_ensemble": _deep_ensemble,
    "swag": lambda kind, **options: _swag_of(network(kind, **options), kind),
    "multi_swag": lambda kind, **options: _swag_of(
        _deep_ensemble(kind, **options), kind
    ),
    "temperature": _temperature,
}
REGRESSIONS = {
    name: make for name, make in CLASSIFIERS.items() if name != "temperature"
}


@functools.cache
def posterior(name, kind="classes", probabilities=False):
    """Returns the posterior of a method, made once.

    Args:
        name: Key of `CLASSIFIERS`.
        kind: "classes", "binary" or "regression".
        probabilities: Whether the model returns probabilities, not logits.
    """
    options = {"probabilities": True} if probabilities else {}
    return CLASSIFIERS[name](kind, **options)
