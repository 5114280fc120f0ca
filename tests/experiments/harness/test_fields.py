"""Fields that depend on the data."""

import pytest

from tfp_refine.experiments import compare
from tfp_refine.experiments import initialization
from tfp_refine.experiments import laplace
from tfp_refine.experiments import uncertainty
from tfp_refine.experiments.harness import config
from tfp_refine.experiments.harness import fields


@pytest.mark.parametrize(
    "experiment", [compare, laplace, initialization, uncertainty]
)
@pytest.mark.parametrize("name", ["unseen", "rotations"])
def test_an_empty_list_is_no_default(experiment, name):
    given = config.parse(experiment.Config, name, "")
    made = experiment.Config(**{name: given})
    filled = made.with_defaults(made.before_data("images"))
    assert getattr(filled, name) == ()


@pytest.mark.parametrize("kind", fields.KINDS)
def test_lists_that_are_not_given_depend_on_the_data(kind):
    made = compare.Config()
    filled = made.with_defaults(made.before_data(kind))
    assert filled.unseen == {
        "regression": (),
        "images": ("turned", "shuffled"),
    }.get(kind, ("shuffled",))
    assert len(filled.rotations) == 6 * (kind == "images")


def test_variance_ratios_are_not_empty():
    with pytest.raises(ValueError, match="--variance_ratios must not be empty"):
        fields.Bench(variance_ratios=())


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "cold"])
def test_a_factor_on_the_kl_is_a_positive_number_or_held_out(text):
    assert fields.kl_scale("0.1") == 0.1
    assert fields.kl_scale("held_out") is None
    with pytest.raises(
        ValueError, match="--member_kl_scale must be a pos.*out"
    ):
        fields.Bench(member_kl_scale=text)


def test_degrees_are_finite():
    with pytest.raises(
        ValueError, match="--rotations must be finite.*15.0,nan"
    ):
        fields.Bench(rotations=(15.0, float("nan")))
