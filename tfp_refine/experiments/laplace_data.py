"""The classification data that the flags of the Laplace experiment name."""

from absl import flags

from tfp_refine import datasets
from tfp_refine.experiments import class_data
from tfp_refine.experiments import laplace_text
from tfp_refine.experiments import shift_flags

FLAGS = flags.FLAGS


def load():
    """Loads the data set that the flags name.

    Returns:
        data: `class_data.Data`.

    Raises:
        ValueError: If there is no such set, or flags do not fit it.
        FileNotFoundError: If a folder or a file is missing.
    """
    name, split = FLAGS.dataset, (FLAGS.validation_fraction, FLAGS.seed)
    shifts = shift_flags.shifts()
    if FLAGS.kind == "images":
        return class_data.images(
            name, FLAGS.data_dir, FLAGS.download, *split, shifts, FLAGS.scaling
        )
    if FLAGS.kind == "table":
        return class_data.table(
            name, FLAGS.data_dir, *split, shifts, FLAGS.scaling
        )
    return _text(name, split, shifts)


def _text(name, split, shifts):
    texts = _load_texts(name)
    (x, y), (x_validation, y_validation) = class_data.split_off(
        texts.x_train, texts.y_train, *split
    )
    words = laplace_text.vectorizer(x, FLAGS.vocabulary, FLAGS.sequence_length)
    x_test = words(texts.x_test)

    def unseen(other):
        if other == class_data.SHUFFLED:
            return class_data.shuffled(x_test, FLAGS.seed)
        return words(_load_texts(other).x_test)

    return class_data.check_parts(
        class_data.Data(
            (words(x), y),
            (words(x_validation), y_validation),
            (x_test, texts.y_test),
            len(texts.class_names),
            class_data.unseen(
                name, shifts.unseen, unseen, (class_data.SHUFFLED,)
            ),
            class_data.no_shifts,
        ),
        name,
        FLAGS.validation_fraction,
    )


def _load_texts(name):
    return datasets.load_texts(name, FLAGS.data_dir, FLAGS.download)
