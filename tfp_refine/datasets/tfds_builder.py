"""Opens sets of `tensorflow_datasets`, and prepares them."""

import difflib
import importlib
import pathlib
import re
import socket
import urllib.parse
import urllib.request

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


def prepared(name, data_dir=None, download=False):
    """Opens a prepared set of TFDS, or with `download` prepares it.

    The name is `"name"`, `"name/config"`, `"name:version"` or both. Returns the
    package and the builder of the set.
    """
    tfds = import_optional("tensorflow_datasets", "tfds", f"Data set {name!r}")
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
    return tfds, builder


def find_test_split(builder, name):
    """Returns the split to test on, "test" or "validation"; needs a "train"."""
    splits = sorted(builder.info.splits)
    test = next((s for s in ("test", "validation") if s in splits), None)
    if "train" not in splits or test is None:
        raise ValueError(
            f"Data set {name!r} must have the splits 'train' and 'test' (or "
            f"'validation'). Received: {', '.join(map(repr, splits)) or 'none'}"
        )
    return test


def shorten(error):
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
            f"Received: {shorten(error)}"
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
    """Names what is prepared of the set in another version or config."""
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
            f"which failed. {_GUIDANCE} Received: {shorten(error)}"
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
