"""Each row of the table in `docs/inputs.md`, for each function."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfp_refine as tfr
from tests.support import input_kinds
from tests.support import markdown_code

FUNCTIONS, KINDS = input_kinds.FUNCTIONS, input_kinds.KINDS


def _is_quick(function, kind):
    """One function of each kind, and one kind of each function.

    But for chains, which take long and start at a Laplace approximation.
    """
    if function == "nuts":
        return False
    functions, kinds = list(FUNCTIONS), list(KINDS)
    return functions.index(function) % len(kinds) == kinds.index(kind)


def _cells(function):
    return [
        pytest.param(
            function,
            kind,
            marks=[] if _is_quick(function, kind) else pytest.mark.slow,
        )
        for kind in KINDS
    ]


@pytest.mark.parametrize(
    ("function", "kind"),
    [cell for function in FUNCTIONS for cell in _cells(function)],
)
def test_a_function_takes_a_kind_of_input_as_it_takes_arrays(function, kind):
    refused = FUNCTIONS[function].refused
    if kind in refused:
        with pytest.raises(ValueError, match=refused[kind]):
            input_kinds.call(function, kind)
        return
    found = input_kinds.call(function, kind)
    expected = input_kinds.expected(
        function, KINDS[kind].model, kind == "weights"
    )
    assert np.all(np.isfinite(found))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("function", "bad"),
    [
        (name, bad)
        for name, function in FUNCTIONS.items()
        for bad in (
            *input_kinds.BAD,
            *(input_kinds.BAD_TARGETS if function.takes_targets else ()),
        )
    ],
)
def test_bad_input_is_refused_before_long_work(function, bad):
    chosen = FUNCTIONS[function]
    model, data, message = {**input_kinds.BAD, **input_kinds.BAD_TARGETS}[bad]
    with pytest.raises(ValueError, match=message):
        chosen.call(model, *data(chosen.takes_targets))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["named", "text"])
def test_posteriors_of_models_that_take_them_are_saved_and_exported(
    name, tmp_path
):
    (x,) = KINDS["names" if name == "named" else name].data(input_kinds.X[name])
    posterior = tfr.posterior(input_kinds.model(name, True))
    expected = posterior.predict(x, 3, seed=1)
    posterior.save(tmp_path / "a.posterior")
    loaded = tfr.load_posterior(tmp_path / "a.posterior")
    np.testing.assert_array_equal(loaded.predict(x, 3, seed=1), expected)
    posterior.export(tmp_path / "served", 3, seed=1)
    served = tf.saved_model.load(tmp_path / "served")
    x = keras.tree.map_structure(tf.constant, input_kinds.X[name])
    draws = served.serve([*x.values()] if name == "named" else x)
    np.testing.assert_allclose(draws, expected, rtol=1e-5, atol=1e-6)


def test_the_page_has_this_table():
    page = (markdown_code.ROOT / "docs" / "inputs.md").read_text("utf-8")
    assert input_kinds.table() in page
    for function in FUNCTIONS.values():
        assert function.shown in " ".join(page.split())
