import pytest

from tfp_refine import _validation

KNOWN = ("reverse", "forward")


@pytest.mark.parametrize("value", KNOWN)
def test_known_names_come_back(value):
    assert _validation.one_of("direction", value, KNOWN) == value


@pytest.mark.parametrize(
    "value", ["Reverse", "", "forwar", None, True, 0, ["reverse"], {}]
)
@pytest.mark.parametrize("known", [KNOWN, list(KNOWN), dict.fromkeys(KNOWN)])
def test_other_values_are_named_with_what_is_known(value, known):
    with pytest.raises(ValueError, match="`direction` must be one of") as info:
        _validation.one_of("direction", value, known)
    assert str(info.value) == (
        "`direction` must be one of 'reverse', 'forward'. "
        f"Received: direction={value!r}"
    )
