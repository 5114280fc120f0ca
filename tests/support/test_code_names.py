import pytest

from tests.support import code_names


def test_calls_of_the_library_are_counted():
    code = (
        "import tfp_refine as tfr\n"
        "model = tfr.models.MLP((4,), hidden=(3,), **options)\n"
        "print(tfr.predict(model, x, num_samples=3).mean(), other.name(1))\n"
        "keras.Input((1,))\n"
    )
    assert code_names.check_calls(code) == 2


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("tfr.models.NoModel()", "There is no tfr.models.NoModel"),
        ("keras.layers.NoLayer", "There is no keras.layers.NoLayer"),
        ("tfr.refine(model, x, y, stepz=3)", "stepz"),
        ("f(tfr.refine(model))", "missing a required argument"),
        ("tfr.refine(model, x, y, stepz=3, **more)", "stepz"),
        ("tfr.predict(1, 2, 3, 4, 5, 6, 7, 8, 9)", "too many"),
    ],
)
def test_names_and_arguments_that_are_missing_are_named(code, message):
    with pytest.raises(AssertionError, match=message):
        code_names.check_calls(code)
