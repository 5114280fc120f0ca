"""Arguments of functions and classes but layers are refused, or work."""

import inspect
import re
import warnings

import hypothesis
import keras
import numpy as np
import pytest
from hypothesis import strategies as st

import tfp_refine as tfr
from tests.properties import budget
from tests.properties import junk

_POSITIVE = junk.not_positive_numbers()
_INTEGER = junk.not_positive_integers()
_NAME = junk.not_names()
_PROPORTION = junk.not_proportions()
# "fan_in" and "he" are names of scales.
_SCALE = junk.not_positive_numbers()

# Functions with valid arguments, and wrong ones of some.
_CALLS = {
    "GaussianKL": (tfr.regularizers.GaussianKL, {}, {"prior_scale": _SCALE}),
    "EmpiricalBayesKL": (
        tfr.regularizers.EmpiricalBayesKL,
        {},
        {"initial_prior_scale": _SCALE},
    ),
    "inverse_gamma": (
        tfr.regularizers.EmpiricalBayesKL,
        {},
        {
            "inverse_gamma": st.one_of(
                st.tuples(_POSITIVE, st.just(1.0)),
                st.sampled_from([1.0, (), (1.0,), "12", (1.0, 2.0, 3.0)]),
            )
        },
    ),
    "CollapsedMeanKL": (
        tfr.regularizers.CollapsedMeanKL,
        {},
        {
            "alpha_reg": _PROPORTION,
            "prior_scale": _SCALE,
            "learn": junk.not_names(none=True),
        },
    ),
    "exponential_rate": (
        tfr.regularizers.CollapsedMeanKL,
        {"learn": "gradient"},
        {"exponential_rate": junk.not_positive_numbers(none=True)},
    ),
    "CollapsedVarianceKL": (
        tfr.regularizers.CollapsedVarianceKL,
        {},
        {"shape": _POSITIVE, "rate": _POSITIVE},
    ),
    "CollapsedMeanVarianceKL": (
        tfr.regularizers.CollapsedMeanVarianceKL,
        {},
        {"shape": _POSITIVE, "rate": _POSITIVE, "delta": _PROPORTION},
    ),
    "ScaleMixtureKL": (
        tfr.regularizers.ScaleMixtureKL,
        {},
        {
            "mixture_weight": _PROPORTION,
            "scale_1": _POSITIVE,
            "scale_2": _POSITIVE,
        },
    ),
    "MeanFieldPosterior": (
        tfr.layers.MeanFieldPosterior,
        {},
        {"initial_scale": _POSITIVE},
    ),
    "FixedVariancePosterior": (
        tfr.layers.FixedVariancePosterior,
        {"scale": 0.1},
        {"scale": _POSITIVE},
    ),
    "KTiedPosterior": (
        tfr.layers.KTiedPosterior,
        {},
        {
            "rank": junk.not_positive_integers(none=True),
            "initial_scale": _POSITIVE,
            "seed": junk.not_seeds(),
        },
    ),
    "LowRankPosterior": (
        tfr.layers.LowRankPosterior,
        {},
        {
            "rank": junk.not_positive_integers(none=True),
            "initial_scale": _POSITIVE,
            "seed": junk.not_seeds(),
        },
    ),
    "HomoscedasticNoise": (
        tfr.layers.HomoscedasticNoise,
        {},
        {"initial_scale": _POSITIVE},
    ),
    "ConcreteDropout": (
        tfr.layers.ConcreteDropout,
        {"layer": keras.layers.Dense(1)},
        {
            "layer": junk.not_names(),
            "initial_rate": _PROPORTION,
            "prior_scale": _POSITIVE,
            "temperature": _POSITIVE,
            "num_train_examples": junk.not_positive_integers(none=True),
            "kl_scale": junk.not_positive_numbers(zero=True),
            "seed": junk.not_seeds(),
        },
    ),
    "MCDropout": (
        tfr.layers.MCDropout,
        {"rate": 0.5},
        {
            "rate": st.sampled_from([-1, 1.5, float("inf")]),
            "seed": junk.not_seeds(),
        },
    ),
    "GaussianNLL": (tfr.losses.GaussianNLL, {}, {"scale": _POSITIVE}),
    "HeteroscedasticGaussianNLL": (
        tfr.losses.HeteroscedasticGaussianNLL,
        {},
        {"noise": _NAME},
    ),
    "KLAnnealing": (
        tfr.callbacks.KLAnnealing,
        {"schedule": float},
        {"schedule": junk.not_names(), "frequency": _NAME},
    ),
    "linear_warmup": (
        tfr.callbacks.linear_warmup,
        {"num_epochs": 3},
        {
            "num_epochs": _POSITIVE,
            "zero_epochs": junk.not_positive_numbers(zero=True),
        },
    ),
    "IBLM": (
        tfr.initializers.IBLM,
        {},
        {
            "divergence": _NAME,
            "concentration": _POSITIVE,
            "batch_size": junk.not_positive_integers(none=True),
            "output_batch_size": _INTEGER,
        },
    ),
    "LSUV": (
        tfr.initializers.LSUV,
        {},
        {
            "batch_size": _INTEGER,
            "tolerance": _POSITIVE,
            "max_iterations": _INTEGER,
        },
    ),
    "MOPED": (
        tfr.initializers.MOPED,
        {},
        {"delta": _POSITIVE, "min_scale": _POSITIVE},
    ),
    "MLP": (
        tfr.models.MLP,
        {"input_shape": (2,)},
        {
            "input_shape": junk.not_shapes(),
            "outputs": _INTEGER,
            "hidden": junk.not_lists_of_integers(),
            "noise_scale": junk.not_positive_numbers(none=True),
            "seed": junk.not_seeds(),
        },
    ),
    "LeNet5": (
        tfr.models.LeNet5,
        {"input_shape": (8, 8, 1)},
        {
            "input_shape": junk.not_shapes(),
            "num_classes": _INTEGER,
            "widths": junk.not_lists_of_integers(),
            "padding": _NAME,
            "seed": junk.not_seeds(),
        },
    ),
    "ResNet": (
        tfr.models.ResNet,
        {"input_shape": (8, 8, 1), "depth": 8},
        {
            "input_shape": junk.not_shapes(),
            "num_classes": _INTEGER,
            "depth": _INTEGER,
            "variational": _NAME,
            "seed": junk.not_seeds(),
        },
    ),
    "flip_pixels": (
        tfr.datasets.flip_pixels,
        {"images": np.zeros((2, 4, 4, 1), "uint8"), "fraction": 0.5},
        {"fraction": st.sampled_from([-0.1, 1.1, float("nan"), "x", None])},
    ),
    "rotate_images": (
        tfr.datasets.rotate_images,
        {"images": np.zeros((2, 4, 4, 1), "uint8"), "degrees": 30.0},
        {"degrees": st.sampled_from([float("nan"), float("inf"), "x", True])},
    ),
}


@st.composite
def _wrong(draw):
    name = draw(st.sampled_from(sorted(_CALLS)))
    function, valid, wrong = _CALLS[name]
    argument = draw(st.sampled_from(sorted(wrong)))
    return function, valid, argument, draw(wrong[argument])


@budget.cases(105)
@hypothesis.given(_wrong())
def test_wrong_arguments_are_refused_by_name(drawn):
    function, valid, argument, value = drawn
    with pytest.raises((TypeError, ValueError), match=re.escape(argument)):
        function(**{**valid, argument: value})


@pytest.mark.parametrize("name", sorted(_CALLS))
def test_valid_arguments_are_accepted(name):
    function, valid, wrong = _CALLS[name]
    assert function(**valid) is not None
    assert set(wrong) <= set(inspect.signature(function).parameters)


@pytest.fixture(scope="module")
def model():
    inputs = keras.Input((2,))
    dense = tfr.layers.DenseFlipout(1, num_train_examples=4)
    result = keras.Model(inputs, dense(inputs))
    result.compile("sgd", tfr.losses.GaussianNLL())
    return result


_X = np.linspace(-1.0, 1.0, 8).reshape(4, 2)
_DATA = st.one_of(
    st.builds(
        np.full,
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
        st.sampled_from([0.0, 1.0, -1.0, float("nan"), float("inf")]),
    ),
    junk.ANYTHING,
    st.sampled_from([[_X, _X], {"a": _X}, _X.astype(str), _X + 1j]),
)
_REFUSALS = (TypeError, ValueError)


@budget.cases(28)
@hypothesis.given(_DATA)
def test_inputs_of_predict_are_refused_or_give_finite_draws(model, x):
    try:
        draws = tfr.predict(model, x, num_samples=2, seed=1)
    except ValueError as error:
        message = str(error)
        assert "x" in message
        return
    assert draws.shape == (2, len(x), 1)
    assert np.all(np.isfinite(draws))


_OF_PREDICT = {
    "model_or_posterior": junk.not_names(),
    "num_samples": junk.not_positive_integers(),
    "batch_size": junk.not_positive_integers(),
    "seed": junk.not_seeds(),
}
_OF_REFINE = {
    "model": junk.not_names(),
    "num_members": junk.not_positive_integers(),
    "steps": junk.not_positive_integers(),
    "batch_size": junk.not_positive_integers(),
    "learning_rate": junk.not_positive_numbers(),
    "learning_rate_decay": junk.not_names(),
    "num_eval_samples": junk.not_positive_integers(),
    "variance_ratios": st.sampled_from(
        [(), (0.0,), (1.0,), (0.5, 2.0), "x", ("x",), 0.5, None, (None,), [[1]]]
    ),
    "mapping": junk.not_names(),
    "seed": junk.not_seeds(),
}


@budget.cases(28)
@hypothesis.given(st.data())
def test_arguments_of_predict_and_refine_are_refused(model, data):
    function, wrong, others = data.draw(
        st.sampled_from(
            [
                (tfr.predict, _OF_PREDICT, {"x": _X}),
                (tfr.refine, _OF_REFINE, {"x": _X, "y": _X[:, :1]}),
            ]
        )
    )
    argument = data.draw(st.sampled_from(sorted(wrong)))
    first = next(iter(wrong))
    given = {first: model, **others, argument: data.draw(wrong[argument])}
    words = "predict|refine" if argument == first else re.escape(argument)
    with pytest.raises(_REFUSALS, match=f"{words}|keras.Model"):
        function(**given)


@budget.cases(21)
@hypothesis.given(st.sampled_from(["x", "y"]), _DATA)
def test_data_of_refine_are_refused_or_work(model, name, value):
    given = {"x": _X, "y": _X[:, :1], name: value}
    try:
        ensemble = tfr.refine(
            model,
            **given,
            num_members=1,
            variance_ratios=(0.5,),
            steps=1,
            num_eval_samples=1,
            seed=1,
            verbose=0,
        )
    except ValueError:
        return
    assert np.all(np.isfinite(ensemble.elbo_final))


@budget.cases(21)
@hypothesis.given(
    st.sampled_from(
        [
            tfr.losses.GaussianNLL(0.5),
            tfr.losses.HeteroscedasticGaussianNLL(),
            tfr.losses.HeteroscedasticGaussianNLL("log_variance"),
            tfr.losses.HeteroscedasticGaussianNLL("softplus_variance"),
        ]
    ),
    st.lists(st.integers(1, 3), max_size=3).map(tuple),
    st.lists(st.integers(1, 4), max_size=3).map(tuple),
)
def test_shapes_of_losses_are_refused_or_fit(loss, target, predicted):
    y_true, y_pred = np.ones(target), np.zeros(predicted)
    try:
        found = float(loss(y_true, y_pred))
    except ValueError:
        return
    assert np.isfinite(found)
    loc = np.asarray(loss.loc_and_scale(y_pred)[0])
    # Nothing is broadcast.
    assert loc.shape in (y_true.shape, (*y_true.shape, 1))


@budget.cases(28)
@hypothesis.given(
    st.sampled_from(
        [
            "standardize_pixels",
            "crop_and_flip",
            "rotate_images",
            "flip_pixels",
            "match_images",
        ]
    ),
    _DATA,
)
def test_images_are_refused_or_stay_images(name, images):
    further = {
        "standardize_pixels": (
            tfr.datasets.Standardizer(np.zeros(1), np.ones(1)),
        ),
        "crop_and_flip": (np.array([1, 2]),),
        "rotate_images": (45.0,),
        "flip_pixels": (0.5,),
        "match_images": ((4, 4, 1),),
    }[name]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = getattr(tfr.datasets, name)(images, *further)
    except _REFUSALS:
        return
    if np.all(np.isfinite(images)):
        assert np.all(np.isfinite(found))
