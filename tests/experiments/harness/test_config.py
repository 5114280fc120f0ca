import dataclasses
import json
import pathlib

import numpy as np
import pytest

from tests.support import example_program
from tfp_refine.experiments.harness import config

Config = example_program.Config


def test_values_are_normalized():
    made = Config(
        hidden=[np.int64(8), 4],
        learning_rate=1,
        dropout=np.float32(0.5),
        download=np.bool_(True),
        output_dir=pathlib.Path("a") / "b",
    )
    assert made.hidden == (8, 4)
    assert type(made.hidden[0]) is int
    assert type(made.learning_rate) is float
    assert type(made.dropout) is float
    assert made.download is True
    assert made.output_dir == "a/b"
    assert made == Config(**json.loads(json.dumps(made.to_json())))
    assert hash(made) == hash(dataclasses.replace(made))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"splits": 0},
            "--splits must be at least 1. Received: --splits=0",
        ),
        ({"splits": 2.0}, "--splits must be an integer"),
        ({"splits": True}, "--splits must be an integer"),
        ({"splits": None}, "--splits must be an integer"),
        ({"learning_rate": "1"}, "--learning_rate must be a number"),
        ({"learning_rate": float("nan")}, "--learning_rate must be positive"),
        ({"learning_rate": float("inf")}, "--learning_rate must be finite"),
        ({"learning_rate": False}, "--learning_rate must be a number"),
        ({"download": 1}, "--download must be true or false"),
        ({"dataset": 3}, "--dataset must be a text"),
        ({"dataset": "nile"}, "--dataset must be one of yacht, boston"),
        ({"systems": "vi"}, "--systems must be a list of texts"),
        ({"systems": ("vi", "vi")}, "--systems must not repeat an entry"),
        ({"systems": ()}, "--systems must not be empty. Received: --systems="),
        (
            {"hidden": (8, 0)},
            "--hidden must be at least 1 in each entry. Received: --hidden=8,0",
        ),
        ({"dropout": 1}, "--dropout must be at least 0 and below 1"),
        ({"dataset": "boston", "splits": 21}, "--splits must be at most 20"),
    ],
)
def test_wrong_values_are_explained_as_flags(values, message):
    with pytest.raises(ValueError, match="Received") as error:
        Config(**values)
    assert str(error.value).startswith(message)


def test_fields_are_inherited_and_overridden():
    specs = config.specs(Config)
    assert list(specs)[:4] == [
        "learning_rate", "train_steps", "progress", "output_dir"
    ]  # fmt: skip
    assert specs["learning_rate"].default == 0.01
    assert specs["learning_rate"].help == "Of Adam."
    assert specs["learning_rate"].checks == (config.positive,)
    assert specs["train_steps"].help == "Steps."
    assert specs["train_steps"].group == "training"
    assert specs["train_steps"].marks == ("common",)
    assert specs["train_steps"].type_name == "int | None"
    assert specs["hidden"].type_name == "tuple[int, ...]"
    assert specs["splits"].type_name == "int"
    assert specs["dataset"].type_name == "str"
    parent = config.specs(example_program.Training)
    assert parent["learning_rate"].default == 0.001
    assert parent["train_steps"].help.endswith(
        "or to 500 epochs if that is less."
    )


def test_results_depend_on_fields_unless_they_are_neutral_or_output():
    made = Config(hidden=(3,))
    assert made.decisive(("data", "output")) == {
        "dataset": "yacht",
        "splits": 5,
    }
    assert made.decisive()["hidden"] == [3]


def test_a_field_that_no_flag_can_have_is_refused():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Bare(config.Config):
        """Data:
        y: Another one.
        """

        x: int = 3

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Mapped(config.Config):
        """Mapped.

        Data:
            x: No.
        """

        x: dict = None

    for cls in (Bare, Mapped):
        with pytest.raises(TypeError, match="Received: x"):
            config.specs(cls)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("splits", "3", 3),
        ("learning_rate", "1e-3", 0.001),
        ("train_steps", "", None),
        ("output_dir", "", None),
        ("dataset", "", ""),
        ("download", "False", False),
        ("hidden", "", ()),
        ("hidden", "8, 4", (8, 4)),
        ("systems", "a(b, c(d,e)),f", ("a(b, c(d,e))", "f")),
    ],
)
def test_texts_of_flags_are_read_and_written(name, text, value):
    assert config.parse(Config, name, text) == value
    again = config.parse(Config, name, config.to_text(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a(b", "matching parentheses"),
        ("a)b(", "matching parentheses"),
        ("a,b)", "matching parentheses"),
        ("a,", "an empty entry"),
    ],
)
def test_lists_that_cannot_be_split_are_refused(text, message):
    with pytest.raises(ValueError, match=f"--systems must .*{message}"):
        config.parse(Config, "systems", text)


def test_flags_make_the_same_configuration():
    made = Config(hidden=(), train_steps=None, download=True, splits=2)
    assert Config().flags() == []
    texts = dict(flag[2:].split("=", 1) for flag in made.flags())
    assert texts.keys() == {"hidden", "train_steps", "download", "splits"}
    assert made == Config(
        **{name: config.parse(Config, name, t) for name, t in texts.items()}
    )


def test_a_digest_is_of_the_named_values():
    one, other = Config(splits=2), Config(splits=2, download=True)
    assert one.digest(["splits", "hidden"]) == other.digest(
        ["hidden", "splits"]
    )
    assert one.digest(["download"]) != other.digest(["download"])
    assert one.digest(["splits"]) != Config().digest(["splits"])


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (config.at_least(2), (2, 3), (1, float("nan"))),
        (config.positive, (1e-9,), (0, -1, float("nan"))),
        (config.not_negative, (0, 1), (-1, float("nan"))),
        (config.proportion(), (0.5,), (0, 1, float("nan"))),
        (config.proportion(zero=True), (0, 0.5), (1, -0.1)),
        (config.proportion(one=True), (1, 0.5), (0, 1.1)),
        (config.one_of("a", "b"), ("a",), ("c", "")),
        (config.unique, ((), ("a", "b")), (("a", "a"),)),
        (config.not_empty, (("a",),), ((),)),
    ],
)
def test_checks_accept_and_refuse(check, good, bad):
    for value in good:
        check(value)
    for value in bad:
        with pytest.raises(ValueError, match="^must "):
            check(value)
