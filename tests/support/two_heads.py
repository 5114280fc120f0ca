"""A model of a class and of two numbers, with data, in several forms."""

import keras
import numpy as np

from tfp_refine import losses

NAMES = ("label", "size")
NUM = 12


def losses_of():
    """Returns the losses of the outputs, by name."""
    return {"label": losses.CategoricalNLL(), "size": losses.GaussianNLL(0.5)}


def make_model(form="dict", layer=keras.layers.Dense, **options):
    """Returns a model whose outputs are a "dict", "list" or "tuple"."""
    inputs = keras.Input((2,))
    outputs = [
        layer(units, name=name, **options)(inputs)
        for name, units in zip(NAMES, (3, 2), strict=True)
    ]
    return keras.Model(inputs, in_form(form, outputs))


class Subclassed(keras.Model):
    """The same, unknown to Keras before it is called."""

    def __init__(self, form):
        super().__init__()
        self.form = form
        self.heads = [keras.layers.Dense(3), keras.layers.Dense(2)]

    def call(self, x):
        return in_form(self.form, [head(x) for head in self.heads])


def in_form(form, values):
    """Returns values of the outputs as a "dict", "list" or "tuple"."""
    if form == "dict":
        return dict(zip(NAMES, values, strict=True))
    return {"list": list, "tuple": tuple}[form](values)


def data(rng, count=NUM):
    """Returns inputs, labels and sizes."""
    x = rng.normal(size=(count, 2)).astype("float32")
    return x, np.arange(count) % 3, rng.normal(size=(count, 2))
