"""LeNet-5 with multiplicative normalizing flows."""

from tfp_refine import layers
from tfp_refine.models import lenet5


def LeNet5MNF(  # Named as a class, as models are in keras.applications.
    input_shape,
    num_classes=10,
    *,
    widths=(20, 50, 500),
    padding="valid",
    max_std=0.5,
    name="lenet5_mnf",
    **arguments,
):
    """Builds LeNet-5 with a multiplicative normalizing flow in each layer.

    With the defaults it is that of Louizos and Welling (2017) for MNIST; for
    CIFAR-10 they take `widths=(192, 192, 1000), max_std=0.4`. With
    `flow_length=0` the posterior is mean-field, and all else the same: their
    baseline FFG.

    Args:
        input_shape: Height, width and channels of an image.
        num_classes: Number of outputs, logits. Defaults to `10`.
        widths: As for `LeNet5`. Defaults to `(20, 50, 500)`.
        padding: Of the convolutions. Defaults to `"valid"`.
        max_std: Largest standard deviation that weights have in the outputs.
            Defaults to `0.5`.
        name: Name of the model.
        **arguments: Others of `LeNet5` and of the layers, such as
            `num_train_examples`, `flow_length`, `seed`.

    Returns:
        model: Functional `keras.Model`, not compiled, `[B, H, W, C]` to logits
            `[B, num_classes]`.

    Raises:
        ValueError: If an argument is invalid.

    Example:

    ```python
    model = tfp_refine.models.LeNet5MNF((28, 28, 1), num_train_examples=60000)
    ```

    Reference:
        - [Louizos and Welling, 2017](https://arxiv.org/abs/1703.01961)
    """
    return lenet5.LeNet5(
        input_shape,
        num_classes,
        widths=widths,
        padding=padding,
        conv_layer=layers.Conv2DMNF,
        dense_layer=layers.DenseMNF,
        max_std=max_std,
        name=name,
        **arguments,
    )
