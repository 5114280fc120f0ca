import inspect
import math

import numpy as np
import pytest

from tfp_refine import initializers
from tfp_refine import models
from tfp_refine.initializers import iblm

PAPER = {
    "batch_size": 128,
    "output_batch_size": 128,
    "patches_per_image": math.inf,
    "noise_variance": math.exp(-2.0),
    "center": False,
    "random_signs": False,
    "scale_precision": False,
    "share_examples": False,
}


def test_all_arguments_are_named():
    parameters = inspect.signature(initializers.IBLM).parameters.values()
    kinds = {parameter.kind for parameter in parameters}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


def test_arguments_are_kept():
    parameters = inspect.signature(initializers.IBLM).parameters
    default = initializers.IBLM()
    for name, parameter in parameters.items():
        assert getattr(default, name) == parameter.default
    others = {
        "batch_size": 7,
        "output_batch_size": 9,
        "pool_size": 11,
        "patches_per_image": 3,
        "noise_variance": 0.5,
    }
    made = initializers.IBLM(**others)
    assert {name: getattr(made, name) for name in others} == others


def test_the_paper_does_without():
    made, default = iblm.PaperIBLM(), initializers.IBLM()
    assert {name: getattr(made, name) for name in PAPER} == PAPER
    for name, value in vars(default).items():
        assert name in PAPER or getattr(made, name) == value
    other = iblm.PaperIBLM(batch_size=7)
    assert (other.batch_size, other.output_batch_size) == (7, 128)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("task", "ranking", "`task` must be one of 'classification'"),
        ("divergence", "kl", r"`divergence` must be one of 'reverse'"),
        ("batch_size", 1, "`batch_size` must be at least 2.*=1"),
        ("batch_size", 2.5, "`batch_size` must be"),
        ("output_batch_size", 1, "`output_batch_size` must be at least 2"),
        ("output_batch_size", 0, "`output_batch_size` must be"),
        ("pool_size", -1, "`pool_size` must be"),
        ("patches_per_image", 0, "`patches_per_image` must be"),
        ("patches_per_image", 1.5, "`patches_per_image` must be"),
        ("noise_variance", 0.0, "`noise_variance` must be"),
        ("noise_variance", -1.0, "`noise_variance` must be"),
        ("noise_variance", math.nan, "`noise_variance` must be"),
        ("prior_variance", 0.0, "`prior_variance` must be"),
        ("prior_variance", math.inf, "`prior_variance` must be"),
        ("bias_prior_variance", 0, "`bias_prior_variance` must be"),
        ("concentration", 0.0, "`concentration` must be"),
        ("concentration", -0.1, "`concentration` must be"),
        ("seed", -1, "seed"),
        ("seed", 0.5, "seed"),
    ],
)
def test_bad_arguments_are_refused_at_once(name, value, message):
    with pytest.raises(ValueError, match=message):
        initializers.IBLM(**{name: value})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 1}, "`batch_size` must be at least 2"),
        ({"batch_size": 0}, "`batch_size` must be"),
        ({"tolerance": 0.0}, "`tolerance` must be"),
        ({"max_iterations": 0}, "`max_iterations` must be"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_arguments_of_the_rivals_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        initializers.LSUV(**arguments)


@pytest.mark.parametrize("verbose", [True, False])
@pytest.mark.parametrize("name", initializers.__all__)
def test_there_is_a_progress_bar_unless_told_otherwise(
    name, verbose, capsys, rng
):
    if name in ("MOPED", "PosteriorInitializer", "get"):
        return  # at once, or none
    make = getattr(initializers, name)
    model = models.MLP((3,), 1, hidden=(4,), seed=1)
    make(verbose=verbose)(model, rng.normal(size=(20, 3)), rng.normal(size=20))
    out, err = capsys.readouterr()
    assert out == ""
    assert ("5 units" in err) if verbose else (err == "")


def test_initializers_of_ones_own_say_what_they_do():
    model = models.MLP((3,), 1, hidden=(), seed=1)
    with pytest.raises(NotImplementedError, match="must implement `_init"):
        initializers.PosteriorInitializer(verbose=False)(model)


def test_a_subclass_may_initialize_layer_by_layer():
    seen = []

    class Own(initializers.PosteriorInitializer):
        def _initialize_layer(self, layer, rng):
            seen.append((layer.name, rng.integers(1000)))

    model = models.MLP((3,), 1, hidden=(4,), seed=1)
    assert Own(seed=3, verbose=False)(model) is model
    again = np.random.default_rng(3)
    expected = [again.integers(1000) for _ in range(2)]
    assert seen == list(zip(["hidden_0", "outputs"], expected, strict=True))
