"""Scalars for TensorBoard."""

import tensorflow as tf


def write(directory, scalars):
    """Appends scalars to a log.

    Args:
        directory: Folder of the log.
        scalars: Dict from a name to a dict from a step to a value.
    """
    with tf.summary.create_file_writer(str(directory)).as_default():
        for name, values in scalars.items():
            for step, value in values.items():
                tf.summary.scalar(name, value, step=int(step))


def write_staircase(directory, history):
    """Writes how the bound rose in a refinement.

    Args:
        directory: Folder of the log.
        history: `RefinedEnsemble.history`.
    """
    elbo = history["trace_elbo"].mean(axis=0)
    write(
        directory,
        {"elbo": dict(zip(history["trace_step"], elbo, strict=True))},
    )
