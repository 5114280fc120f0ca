"""Loads the data set that a configuration names."""

import dataclasses
import difflib
import math
import pathlib

import numpy as np

from tfp_refine import datasets
from tfp_refine.experiments.data import dataset
from tfp_refine.experiments.data import images
from tfp_refine.experiments.data import unseen
from tfp_refine.experiments.data import words
from tfp_refine.experiments.harness import config as config_lib
from tfp_refine.experiments.harness import fields

# Part of the training set that is measured in place of test data, by default.
_HELD_OUT = 0.1
# Arguments of the functions that read data, as errors name them.
_FLAGS = {
    "`name`": "--dataset",
    " name=": " --dataset=",
    " (in the experiments: --data_dir)": "",
    "`data_dir`": "--data_dir",
    " data_dir=": " --data_dir=",
    "`corruption`": "--corruptions",
    " corruption=": " --corruptions=",
}
_TEXTS = ("20newsgroups", "ag_news_subset", "imdb_reviews", "trec")


def kind_of(config: fields.Bench) -> str:
    """Returns the kind of the data set: --kind, or that of a known set."""
    if config.kind is not None:
        return config.kind
    name = config.dataset
    if name in datasets.CLASS_TABLES:
        return "images" if name == "digits" else "table"
    if name in _TEXTS:
        return "texts"
    own = pathlib.Path(config.data_dir or "") / name / "data"
    if name in datasets.UCI_NAMES or (config.data_dir and own.is_dir()):
        return "regression"
    return "images"


def close_names(name: str) -> list[str]:
    """Lists known names of data sets that look like another one."""
    known = (*datasets.CLASS_TABLES, *datasets.UCI_NAMES, *_TEXTS)
    close = difflib.get_close_matches(name, known)
    return [] if name in close else close


def load(config: fields.Bench, number: int = 0) -> dataset.Dataset:
    """Loads the data of a repetition; tables are split anew for each.

    Raises:
        ValueError: If there is no such set, or fields do not fit it.
        FileNotFoundError: If a folder or a file is missing.
    """
    kind = kind_of(config)
    make = {
        "regression": _regression,
        "table": _table,
        "images": images.load,
        "texts": _texts,
    }[kind]
    _check(config, kind)
    try:
        data = make(config, number)
    except (ValueError, FileNotFoundError) as error:
        text = str(error)
        if text.startswith("--"):
            raise
        for argument, flag in _FLAGS.items():
            text = text.replace(argument, flag)
        raise type(error)(
            f"--dataset={config.dataset}, as --kind={kind}: {text}"
        ) from error
    _check_part(config, "train", data.train)
    _check_part(config, "test", data.test)
    if config.measure_on == "validation":
        fraction = config.validation_fraction or _HELD_OUT
        train, held_out = _split_off(*data.train, fraction, config.seed)
        # Data derived from test inputs go with them.
        data = dataclasses.replace(
            data, train=train, test=held_out, unseen={}, shifted=tuple,
            pixels=None,
        )  # fmt: skip
    return data


def _check_part(config, name, part):
    """Checks that a part of a data set is not empty."""
    if not len(part[1]):
        raise ValueError(
            f"--dataset={config.dataset} leaves no {name} examples. "
            f"Received: --validation_fraction={config.validation_fraction}"
        )


def _check(config, kind):
    """Checks that no field was given that has no meaning for such data."""
    foreign = ["unseen"] if kind == "regression" else ["split_kind"]
    if kind != "images":
        foreign += ["augment", "classes", "corruptions", "flipped_pixels"]
        foreign += ["rotations"]
    specs = config_lib.specs(type(config))
    for name in foreign:
        value = getattr(config, name)
        if value not in ((), specs[name].default):
            raise ValueError(
                f"--{name} has no meaning for --dataset={config.dataset}, "
                f"which is of --kind={kind}. "
                f"Received: --{name}={config_lib.to_text(value)}"
            )


def _regression(config, number):
    split = datasets.train_test_split(
        datasets.load_uci(config.dataset, config.data_dir),
        number,
        seed=config.seed,
        kind=config.split_kind,
    )
    train, validation = _validation(split.x_train, split.y_train, config)
    return dataset.Dataset(
        train=train,
        validation=validation,
        test=(split.x_test, split.y_test),
        scaler=split.y_scaler,
    )


def _table(config, number):
    raw = datasets.load_class_table(config.dataset, config.data_dir)
    split = datasets.train_test_split(
        datasets.RegressionData(
            raw.name, raw.features, raw.labels[:, np.newaxis]
        ),
        number,
        seed=config.seed,
    )
    x_train, x_test = split.x_train, split.x_test
    if config.scaling == "none":
        x_train, x_test = (
            raw.features[rows].astype(np.float32)
            for rows in (split.train_index, split.test_index)
        )
    train, validation = _validation(
        x_train, raw.labels[split.train_index], config
    )
    return dataset.Dataset(
        train=train,
        validation=validation,
        test=(x_test, raw.labels[split.test_index]),
        num_classes=len(raw.class_names),
        unseen=unseen.load(config, x_test),
    )


def _texts(config, number):
    del number  # texts have one split
    texts = _load_texts(config, config.dataset)
    (x, y), (x_validation, y_validation) = _validation(
        texts.x_train, texts.y_train, config
    )
    _check_part(config, "train", (x, y))  # they have the vocabulary
    numbers = words.vectorizer(x, config.vocabulary, config.sequence_length)
    x_test = numbers(texts.x_test)
    return dataset.Dataset(
        train=(numbers(x), y),
        validation=(numbers(x_validation), y_validation),
        test=(x_test, texts.y_test),
        num_classes=len(texts.class_names),
        unseen=unseen.load(
            config,
            x_test,
            load_other=lambda name: numbers(_load_texts(config, name).x_test),
        ),
    )


def _load_texts(config, name):
    return datasets.load_texts(name, config.data_dir, config.download)


def _validation(x, y, config):
    """Splits validation examples off, none by default."""
    return _split_off(x, y, config.validation_fraction, config.seed)


def _split_off(x, y, fraction, seed):
    """Splits examples off, at random; returns pairs of the others and these."""
    if not fraction:
        return (x, y), (x[:0], y[:0])
    order = np.random.default_rng([seed, 4]).permutation(len(y))
    # Rounded first, as 0.07 * 100 is 7.000000000000001.
    count = math.ceil(round(fraction * len(y), 6))
    validation, train = order[:count], order[count:]
    return (x[train], y[train]), (x[validation], y[validation])
