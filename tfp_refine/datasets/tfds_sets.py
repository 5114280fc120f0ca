"""Loads classification sets of `tensorflow_datasets`, and prepares them."""

import difflib
import importlib
import pathlib
import re
import socket
import urllib.parse
import urllib.request

import numpy as np
import tensorflow as tf

from tfp_refine import _validation

_BATCH = 256

_KNOWN_NAMES = (
    "mnist",
    "fashion_mnist",
    "kmnist",
    "cifar10",
    "cifar100",
    "svhn_cropped",
    "stl10",
)

_NAME = re.compile(r"\w+(/[\w.+-]+)?(:[\d.*]+)?")

_GUIDANCE = (
    "Point to a folder with prepared data sets, <data_dir>/<name>/<version>/, "
    "with `data_dir` (in the experiments: --data_dir), or fetch the set on a "
    "machine with network access with `download=True`."
)


def import_optional(module, extra, purpose):
    """Imports a module that an extra of `tfp_refine` installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"{purpose} must have the package `{module}`: "
            f"pip install 'tfp_refine[{extra}]'. Received: {error}"
        ) from error


def load(name, kind, data_dir=None, download=False):
    """Loads a set of images or texts, `kind` "image" or "text".

    The name is `"name"`, `"name/config"`, `"name:version"` or both. Returns
    `x_train`, `y_train`, `x_test`, `y_test` and the `ClassLabel` of the set;
    texts are bytes.
    """
    tfds = import_optional("tensorflow_datasets", "tfds", f"Data set {name!r}")
    _validation.instance("name", name, str, "that of a data set")
    if data_dir is not None:
        data_dir = str(_validation.path("data_dir", data_dir))
    builder = _open_builder(tfds, name, data_dir)
    # `builder.is_prepared()` would log a warning where it is not.
    if not (pathlib.Path(builder.data_path) / "dataset_info.json").is_file():
        if not download:
            raise ValueError(
                f"Data set {name!r} must be prepared in "
                f"'{builder.data_path}'. {_GUIDANCE} Other versions found: "
                f"{_other_versions(builder)}."
            )
        _prepare(tfds, builder, name)
    keys = _find_features(tfds, builder, name, kind)
    splits = ("train", _find_test_split(builder, name))
    parts = [_read(tfds, builder, split, keys) for split in splits]
    return *parts[0], *parts[1], builder.info.features[keys[1]]


def _find_features(tfds, builder, name, kind):
    """Finds the names of the image or text and of the class label."""
    features = builder.info.features
    types = getattr(tfds.features, kind.capitalize()), tfds.features.ClassLabel
    found = []
    supervised = builder.info.supervised_keys or (None, None)
    for key, wanted in zip(supervised, types, strict=False):
        # `Video` and such are no subclasses; a segmentation map is an image.
        keys = [k for k, f in sorted(features.items()) if isinstance(f, wanted)]
        found.append([key] if key in keys else keys)
    inputs, labels = found
    if kind == "text":  # of several labels the coarsest
        labels = sorted(labels, key=lambda key: features[key].num_classes)[:1]
    if len(inputs) != 1 or len(labels) != 1:
        raise ValueError(
            f"Data set {name!r} must be for {kind} classification, with one "
            f"{kind} and {'a' if kind == 'text' else 'one'} class label. "
            f"Received: {kind}s {inputs}, class labels {labels} among the "
            f"features {sorted(features)}"
        )
    return inputs[0], labels[0]


def _find_test_split(builder, name):
    """Returns the split to test on, "test" or "validation"; needs a "train"."""
    splits = sorted(builder.info.splits)
    test = next((s for s in ("test", "validation") if s in splits), None)
    if "train" not in splits or test is None:
        raise ValueError(
            f"Data set {name!r} must have the splits 'train' and 'test' (or "
            f"'validation'). Received: {', '.join(map(repr, splits)) or 'none'}"
        )
    return test


def _read(tfds, builder, split, keys):
    """Reads a split in the order of its files, into one array each.

    TFDS itself fails where there are not `num_examples`.
    """
    where = f"Split {split!r} of data set {builder.name!r}"
    num_examples = builder.info.splits[split].num_examples
    inputs, labels, start = None, np.zeros([num_examples], np.int64), 0
    try:
        dataset = builder.as_dataset(
            split=split,
            shuffle_files=False,
            # The arrays are the cache.
            read_config=tfds.ReadConfig(try_autocache=False),
        ).map(lambda example: tuple(example[key] for key in keys))
        for x, y in dataset.batch(_BATCH).as_numpy_iterator():
            if inputs is None:
                inputs = np.empty([num_examples, *x.shape[1:]], x.dtype)
            if x.shape[1:] != inputs.shape[1:]:
                raise ValueError(
                    f"{where} must have images of one size. Received: "
                    f"{inputs.shape[1:]} and {x.shape[1:]}"
                )
            inputs[start : start + len(x)] = x
            labels[start : start + len(x)] = y
            start += len(x)
    except tf.errors.OpError as error:
        if "Cannot batch" in error.message:
            raise ValueError(
                f"{where} must have images of one size. "
                f"Received: {_shorten(error)}"
            ) from error
        raise ValueError(
            f"{where} must have whole files in '{builder.data_path}'. "
            f"Received, after {start} of {num_examples} examples: "
            f"{_shorten(error)}"
        ) from error
    return labels if inputs is None else inputs, labels  # if empty, any array


def _shorten(error):
    """Returns an error as text, shortened: some go on for pages."""
    text = " ".join(re.sub(r"\{\{.*?\}\}", "", str(error)).split())
    return f"{type(error).__name__}: {text[:300]}"


def _open_builder(tfds, name, data_dir):
    # A namespace, such as `huggingface:`, would go to the network.
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            "`name` must be that of a data set: 'digits', 'mnist', "
            "'name/config' or 'name/config:1.0.0'. "
            f"Received: name={name!r}"
        )
    try:
        return tfds.builder(
            name,
            data_dir=None if data_dir is None else str(data_dir),
            try_gcs=False,
        )
    except tfds.core.registered.DatasetNotFoundError:
        raise ValueError(_unknown_name(tfds, name, data_dir)) from None
    # TFDS raises errors of many kinds for a bad config, version or file.
    except Exception as error:
        raise ValueError(
            f"Data set {name!r} must be one that TFDS can open. "
            f"Received: {_shorten(error)}"
        ) from error


def _unknown_name(tfds, name, data_dir):
    names = tfds.list_builders(with_community_datasets=False)
    close = difflib.get_close_matches(name, ["digits", *names], n=3)
    return (
        f"`name` must be 'digits', a data set of TFDS such as "
        f"{', '.join(_KNOWN_NAMES)}, or one prepared in `data_dir`. "
        f"Received: name={name!r}, data_dir={data_dir and str(data_dir)!r}"
        + (f". Did you mean {' or '.join(map(repr, close))}?" if close else "")
    )


def _other_versions(builder):
    """Names other versions and configs of the set that are prepared."""
    for root in pathlib.Path(builder.data_path).parents:
        if root.name == builder.name:
            found = sorted(
                path.parent.relative_to(root).as_posix()
                for path in root.rglob("dataset_info.json")
            )
            return ", ".join(found) or "none"
    return "none"


def _prepare(tfds, builder, name):
    """Downloads and prepares a set."""
    _check_network(builder, name)
    try:
        builder.download_and_prepare(
            download_config=tfds.download.DownloadConfig(try_download_gcs=False)
        )
    # The network, the disk, the server and a missing package for this set
    # all fail in their own ways.
    except Exception as error:
        raise ValueError(
            f"Data set {name!r} must be downloaded to '{builder.data_path}', "
            f"which failed. {_GUIDANCE} Received: {_shorten(error)}"
        ) from error


def _check_network(builder, name):
    """Fails at once where TFDS would retry for minutes, without a network."""
    hosts = {
        urllib.parse.urlsplit(url).hostname for url in builder.url_infos or ()
    } - {None}
    # A proxy resolves names itself.
    if not hosts or urllib.request.getproxies():
        return
    failures = []
    for host in sorted(hosts):
        try:
            socket.getaddrinfo(host, None)
        except OSError as error:
            failures.append(f"{host}: {error}")
    if len(failures) == len(hosts):
        raise ValueError(
            f"Data set {name!r} must be downloaded to '{builder.data_path}', "
            f"for which there is no network. {_GUIDANCE} "
            f"Received: {'; '.join(failures)}"
        )
