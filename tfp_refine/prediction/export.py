"""Draws of a model or an ensemble for serving, without Python."""

import keras

from tfp_refine import functional
from tfp_refine.prediction import compilation


def export(
    model_or_ensemble, path, num_samples=100, seed=None, input_signature=None
):
    """Exports draws of the predictive distribution as a SavedModel.

    It needs neither this package nor Keras:

    ```python
    served = tf.saved_model.load(path)
    draws = served.serve(x)  # [S, B, ...]
    ```

    and is what TensorFlow Serving and `keras.layers.TFSMLayer` take. The draws
    are those of `predict` (for one block of examples). To export the function
    at the posterior means: `with tfp_refine.layers.mean_weights():
    model.export(path)`.

    Args:
        model_or_ensemble: `keras.Model`, or a `RefinedEnsemble`.
        path: Folder.
        num_samples: `S`, the number of draws; for an ensemble, of all its
            members together. Defaults to `100`.
        seed: Integer for the same draws in each call; fresh ones in each if
            `None`.
        input_signature: `tf.TensorSpec` of the inputs (or nested). Needed for
            subclassed models only.

    Raises:
        ValueError: If an argument is invalid, or the folder cannot be written.
    """
    if not isinstance(model_or_ensemble, keras.Model):
        if not hasattr(model_or_ensemble, "export"):
            raise ValueError(
                "`export` needs a keras.Model or a RefinedEnsemble. "
                f"Received: {type(model_or_ensemble).__name__}"
            )
        model_or_ensemble.export(path, num_samples, seed)
        return
    model = model_or_ensemble
    functional.arrays.check_built(model)
    if input_signature is None:
        input_signature = functional.saved_model.input_specs(model)
    if input_signature is None:
        raise ValueError(
            f"The model '{model.name}' is subclassed and does not tell what it "
            "takes: give `input_signature`, a tf.TensorSpec of its inputs."
        )
    forward, _ = compilation.compiled(model, True)
    functional.saved_model.export(
        path,
        forward,
        input_signature,
        None,
        forward.other_values(),
        num_samples,
        seed,
    )
