import keras
import pytest

from tfp_refine import regularizers


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("collapsed_mean_kl", regularizers.CollapsedMeanKL()),
        (
            "collapsed_mean_variance_kl",
            regularizers.CollapsedMeanVarianceKL(),
        ),
        ("collapsed_variance_kl", regularizers.CollapsedVarianceKL()),
        ("empirical_bayes_kl", regularizers.EmpiricalBayesKL()),
        ("gaussian_kl", regularizers.GaussianKL()),
        ("log_uniform_kl", regularizers.LogUniformKL()),
        ("scale_mixture_kl", regularizers.ScaleMixtureKL()),
    ],
)
def test_a_name_stands_for_default_arguments(name, expected):
    found = regularizers.get(name)
    assert type(found) is type(expected)
    assert found.get_config() == expected.get_config()
    assert regularizers.get(name) is not found


@pytest.mark.parametrize(
    "regularizer",
    [
        regularizers.GaussianKL(0.3),
        regularizers.GaussianKL("he"),
        regularizers.EmpiricalBayesKL(True, learn_mean=True),
        regularizers.EmpiricalBayesKL(inverse_gamma=(2.01, 0.101)),
        regularizers.CollapsedMeanKL(0.2, 0.7),
        regularizers.CollapsedMeanKL(0.2, "he", "gradient", 5.0, shared=True),
        regularizers.CollapsedMeanKL(learn="closed_form"),
        regularizers.CollapsedVarianceKL(1.5, 0.2),
        regularizers.CollapsedMeanVarianceKL(1.5, 0.2, 0.3),
        regularizers.LogUniformKL(),
        regularizers.ScaleMixtureKL(0.25, 2.0, 0.1),
        keras.regularizers.L2(0.3),
    ],
)
def test_an_object_is_itself_and_its_config_an_equal_one(regularizer):
    assert regularizers.get(regularizer) is regularizer
    config = keras.saving.serialize_keras_object(regularizer)
    found = regularizers.get(config)
    assert found is not regularizer
    assert type(found) is type(regularizer)
    assert found.get_config() == regularizer.get_config()
    assert type(found)(**found.get_config()).get_config() == found.get_config()


def test_names_of_keras_and_none_pass_through():
    assert isinstance(regularizers.get("l2"), keras.regularizers.L2)
    assert regularizers.get(None) is None


@pytest.mark.parametrize(
    "identifier",
    [
        "gaussian_k1",
        3.0,
        # Keras raises a TypeError here.
        {
            "module": None,
            "class_name": "NoSuchKL",
            "config": {},
            "registered_name": "tfp_refine>NoSuchKL",
        },
        {"scale": 1.0},
    ],
)
def test_what_is_no_regularizer_is_rejected(identifier):
    with pytest.raises(
        ValueError, match=r"'collapsed_mean_kl', .*'gaussian_kl', .*Received: "
    ):
        regularizers.get(identifier)


@pytest.mark.parametrize(
    ("regularizer", "expected"),
    [
        (regularizers.GaussianKL(), True),
        (regularizers.EmpiricalBayesKL(), True),
        (regularizers.KLRegularizer(), True),
        (regularizers.CollapsedVarianceKL(), True),
        (regularizers.ScaleMixtureKL(), True),
        (keras.regularizers.L2(), False),
        (None, False),
    ],
)
def test_kl_regularizers_are_told_from_those_of_keras(regularizer, expected):
    assert regularizers.is_kl(regularizer) is expected
