"""Names of systems are read, written, and refused in clear words."""

import pytest

from tfp_refine.experiments.systems import expression

Expression = expression.Expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vi", Expression("vi")),
        ("refined(vi)", Expression("refined", Expression("vi"))),
        (
            "refined(cm(iblm), num_members=5)",
            Expression(
                "refined",
                Expression("cm", Expression("iblm")),
                (("num_members", "5"),),
            ),
        ),
        (
            " mnf( max_std = 0.5,log_var_init=-9.0 ) ",
            Expression(
                "mnf", None, (("max_std", "0.5"), ("log_var_init", "-9.0"))
            ),
        ),
        (
            "refined(cm(alpha_reg=1e-3), variance_ratios=0.5*10)",
            Expression(
                "refined",
                Expression("cm", None, (("alpha_reg", "1e-3"),)),
                (("variance_ratios", "0.5*10"),),
            ),
        ),
    ],
)
def test_names_are_read_and_written(text, expected):
    found = expression.parse(text)
    assert found == expected
    assert expression.parse(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "()", "vi()", "(vi)", "5vi", "vi vi", "vi,map", "vi)",
        "refined(vi", "refined(vi))", "refined(vi,)", "refined(,vi)",
        "refined(vi, map)", "refined(num_members=5, vi)", "refined=vi",
        "refined(vi num_members=5)", "refined(vi, num_members)",
        "refined(vi, num_members=)", "refined(vi)(map)", "refined(vi, =5)",
        "refined(vi, num_members=(5))", "refined(vi, num_members==5)",
        "refined(vi, num_members=5=6)", "refined(vi, num_members=,)",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match="--systems must hold") as error:
        expression.parse(text)
    assert str(error.value).endswith(f"Received: {text}")
