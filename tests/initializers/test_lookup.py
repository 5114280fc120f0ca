import pytest

from tfp_refine import initializers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("heuristic", initializers.Heuristic),
        ("iblm", initializers.IBLM),
        ("lsuv", initializers.LSUV),
        ("moped", initializers.MOPED),
        ("orthogonal", initializers.Orthogonal),
        ("uninformative", initializers.Uninformative),
        ("xavier_normal", initializers.XavierNormal),
    ],
)
def test_each_has_a_name(name, kind):
    assert type(initializers.get(name)) is kind


def test_objects_are_themselves():
    given = initializers.MOPED(0.3)
    assert initializers.get(given) is given


@pytest.mark.parametrize("identifier", ["IBLM", None, 1])
def test_others_are_refused(identifier):
    with pytest.raises(ValueError, match="must be one of .*'iblm'"):
        initializers.get(identifier)


@pytest.mark.parametrize("name", ["delta", "min_scale"])
def test_moped_has_positive_scales(name):
    with pytest.raises(ValueError, match=name):
        initializers.MOPED(**{name: 0.0})
