"""Loads text classification data sets."""

import hashlib
import io
import os
import pathlib
import re
import tarfile
from typing import NamedTuple

import keras
import numpy as np
from sklearn import datasets

from tfp_refine import _validation
from tfp_refine.datasets import images
from tfp_refine.datasets import tfds_sets

_NEWSGROUPS, _ARCHIVE = "20newsgroups", "20news-bydate.tar.gz"
_URL = "https://ndownloader.figshare.com/files/5975967"
_SHA256 = "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610"
# Lines of quotations, or that announce one.
_QUOTE = re.compile(
    r"(writes in|writes:|wrote:|says:|said:|^In article|^Quoted from|^\||^>)"
)
_SPLITS = ("train", "test")


class TextData(NamedTuple):
    """A text classification data set.

    Attributes:
        name: Its name.
        x_train: Texts, array of strings, `[N]`.
        y_train: Numbers of the classes, int32, `[N]`.
        x_test: Texts, array of strings, `[N_test]`.
        y_test: Numbers of the classes, int32, `[N_test]`.
        class_names: The classes, in the order of their numbers.

    Example:

    ```python
    data = tfp_refine.datasets.TextData(
        "reviews",
        x_train=np.array(["good", "bad"]),
        y_train=np.array([1, 0]),
        x_test=np.array(["so so"]),
        y_test=np.array([0]),
        class_names=("negative", "positive"),
    )
    ```
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    class_names: tuple[str, ...]


def load_texts(
    name: str,
    data_dir: str | os.PathLike | None = None,
    download: bool = False,
) -> TextData:
    """Loads a text classification data set.

    `"digits"` are the images of `load_images`, read line by line: 64 words
    each, the gray levels of the pixels. They come with scikit-learn.
    `"20newsgroups"` is read from `20news-bydate.tar.gz`, the file that
    scikit-learn downloads, without headers, footers and quotes. A folder
    `<data_dir>/<name>` with a file for each text,
    `{train,test}/<class>/<file>.txt`, is read as it is; that is the layout of
    `keras.utils.text_dataset_from_directory`. Any other name is that of a data
    set in `tensorflow_datasets` with a text and a class label, such as `trec`
    or `ag_news_subset`; of several labels, the one that is documented as the
    target, else that with the fewest classes.

    Args:
        name: Name of the data set.
        data_dir: Folder with data sets; `None` for the defaults of scikit-learn
            and TFDS.
        download: Whether to download a set that is not there. Otherwise nothing
            is read from the network.

    Returns:
        data: `TextData`.

    Raises:
        ValueError: If there is no such set (and it may not or cannot be
            downloaded), it is no text classification, or a class of the test
            texts is not among those of the training texts.

    Example:

    ```python
    for part, text in {"train/good": "fine", "train/bad": "poor",
                       "test/good": "nice", "test/bad": "awful"}.items():
        folder = pathlib.Path("texts", "reviews", part)
        folder.mkdir(parents=True)
        (folder / "0.txt").write_text(text)
    data = tfp_refine.datasets.load_texts("reviews", "texts")
    ```
    """
    _validation.instance("name", name, str, "that of a data set")
    if name == "digits":
        return _load_digits()
    if name == _NEWSGROUPS:
        return _load_newsgroups(data_dir, download)
    if data_dir is not None:
        folder = _validation.path("data_dir", data_dir) / name
        if (folder / "train").is_dir():
            return _load_folder(name, folder)
    x_train, y_train, x_test, y_test, label = tfds_sets.load(
        name, "text", data_dir, download
    )
    x_train, x_test = (
        [text.decode("utf-8", "replace") for text in texts]
        for texts in (x_train, x_test)
    )
    return _text_data(name, x_train, y_train, x_test, y_test, label.names)


def _text_data(name, x_train, y_train, x_test, y_test, class_names):
    if not (len(x_train) and len(x_test)) or len(class_names) < 2:
        raise ValueError(
            f"Data set {name!r} must hold training and test texts of two "
            f"classes or more. Received: {len(x_train)} and {len(x_test)} "
            f"texts of {len(class_names)} classes"
        )
    return TextData(
        name,
        np.asarray(x_train, object),
        np.asarray(y_train, np.int32),
        np.asarray(x_test, object),
        np.asarray(y_test, np.int32),
        tuple(class_names),
    )


def _load_digits():
    """Writes the pixels of images as words."""
    raw = images.load_images("digits")
    x_train, x_test = (
        [" ".join(map(str, pixels)) for pixels in part.reshape(len(part), -1)]
        for part in (raw.x_train, raw.x_test)
    )
    return _text_data(
        "digits", x_train, raw.y_train, x_test, raw.y_test, raw.class_names
    )


def _load_folder(name, root):
    """Reads `{train,test}/<class>/<file>.txt`."""
    class_names = sorted(
        path.name for path in (root / "train").iterdir() if path.is_dir()
    )
    parts = []
    for split in _SPLITS:
        texts, labels = [], []
        for path in sorted((root / split).glob("*/*.txt")):
            if path.parent.name not in class_names:
                raise ValueError(
                    f"Classes of '{root / 'test'}' must be those of "
                    f"'{root / 'train'}': {', '.join(class_names)}. Received: "
                    f"{path.parent.name}"
                )
            texts.append(path.read_text(encoding="utf-8", errors="replace"))
            labels.append(class_names.index(path.parent.name))
        parts += [texts, labels]
    return _text_data(name, *parts, class_names)


def _load_newsgroups(data_dir, download):
    """Reads the original archive, never a pickle that scikit-learn made."""
    root = pathlib.Path(data_dir or datasets.get_data_home())
    path = root / _ARCHIVE
    try:
        if download and not path.exists():
            keras.utils.get_file(
                _ARCHIVE, _URL, cache_dir=root, cache_subdir=""
            )
        contents = path.read_bytes()
    except Exception as error:  # `get_file` raises others than `OSError`, too
        raise ValueError(
            f"Data set {_NEWSGROUPS!r} must be in `data_dir` (in the "
            f"experiments: --data_dir), as the file {_ARCHIVE} from {_URL}, or "
            f"be fetched with network access and `download=True`. Received: "
            f"{error}"
        ) from error
    if hashlib.sha256(contents).hexdigest() != _SHA256:
        raise ValueError(
            f"'{path}' is damaged, or another file than that from {_URL}. "
            "Remove it."
        )
    parts = {split: ([], []) for split in _SPLITS}
    with tarfile.open(fileobj=io.BytesIO(contents)) as archive:
        members = {m.name: m for m in archive if m.isfile()}
        names = sorted(members)
        groups = sorted({name.split("/")[1] for name in names})
        for name in names:
            folder, group, _ = name.split("/")
            text = archive.extractfile(members[name]).read().decode("latin1")
            texts, labels = parts[folder.removeprefix("20news-bydate-")]
            texts.append(_strip(text))
            labels.append(groups.index(group))
    return _text_data(_NEWSGROUPS, *parts["train"], *parts["test"], groups)


def _strip(text):
    """Removes the header, quotes and the signature, as scikit-learn does."""
    _, _, text = text.partition("\n\n")
    lines = [line for line in text.split("\n") if not _QUOTE.search(line)]
    text = "\n".join(lines)
    lines = text.strip().split("\n")
    # The signature follows the last line that is blank or of hyphens.
    ends = [n for n, line in enumerate(lines) if not line.strip().strip("-")]
    return "\n".join(lines[: ends[-1]]) if ends and ends[-1] else text
